"""Recordings over HTTP: the list of them, and each as video on demand."""
