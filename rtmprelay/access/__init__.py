"""Who may publish and who may play."""
