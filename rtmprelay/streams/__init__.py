"""Live streams: who publishes, who watches, and how frames get from one to all."""
