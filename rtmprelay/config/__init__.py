"""What the command line and the configuration file say, as one value."""

from rtmprelay.config.relay import RelayConfig

__all__ = ["RelayConfig"]
