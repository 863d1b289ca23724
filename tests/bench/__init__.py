"""The benchmark of the project: `python -m tests.bench` measures rtmprelay, and nginx-rtmp beside it."""
