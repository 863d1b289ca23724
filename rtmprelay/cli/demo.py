"""`rtmprelay demo`."""

from rtmprelay.demo.command import add_arguments, run

__all__ = ["add_arguments", "run"]
