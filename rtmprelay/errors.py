"""The errors of rtmprelay; each message is a sentence that a person can act on."""

from __future__ import annotations


class RtmpRelayError(Exception):
    """Everything that rtmprelay raises on purpose."""


class ProtocolError(RtmpRelayError):
    """The rules of RTMP, AMF or FLV were broken."""


class LocalProtocolError(ProtocolError):
    """This side asked for something that the protocol does not allow: a bug of the caller."""


class RemoteProtocolError(ProtocolError):
    """The bytes or the order of what came in are wrong: the one who produced them is at fault."""


class LimitExceededError(RemoteProtocolError):
    """A peer went over one of the limits; `limit` is its name as the configuration knows it."""

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(f"{message} (limit: {limit})")
        self.limit = limit


class DestinationRefusedError(RtmpRelayError):
    """Another server does not accept what we want to publish there."""


class ConfigError(RtmpRelayError):
    """An option or a configuration value cannot be used."""


class BadRecordingError(RtmpRelayError):
    """A recording cannot be read as FLV."""
