"""The errors of rtmprelay. Their messages tell the user what to do."""

from __future__ import annotations


class RtmpRelayError(Exception):
    """The base of all errors that rtmprelay raises on purpose."""


class ProtocolError(RtmpRelayError):
    """A violation of RTMP, AMF or FLV."""


class LocalProtocolError(ProtocolError):
    """The caller requested something that the protocol does not allow: a bug."""


class RemoteProtocolError(ProtocolError):
    """The input is wrong, in its bytes or in their order: the peer, or the program that wrote the file, is at fault."""


class LimitExceededError(RemoteProtocolError):
    """A peer exceeded a limit; `limit` is its name in the configuration."""

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(f"{message} (limit: {limit})")
        self.limit = limit


class DestinationRefusedError(RtmpRelayError):
    """Another server refuses our publish."""


class RelayedToItselfError(DestinationRefusedError):
    """The destination is this relay, or leads back to it."""


class ConfigError(RtmpRelayError):
    """An option or a configuration value is wrong."""


class NotThereError(ConfigError):
    """There is nothing of this name."""


class ConflictError(ConfigError):
    """The change conflicts with what there is already."""


class BusyError(ConfigError):
    """There is too much of this going on already."""


class BadRecordingError(RtmpRelayError):
    """A recording cannot be read as FLV."""
