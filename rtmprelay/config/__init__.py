"""The command line and the configuration files, as one value: `RelayConfig`."""

from rtmprelay.config.relay import RelayConfig

__all__ = ["RelayConfig"]
