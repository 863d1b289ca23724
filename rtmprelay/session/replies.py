"""What a server says: the answers and notices, as values."""

from __future__ import annotations

from rtmprelay import __version__
from rtmprelay.amf.amf0 import AmfValue, EcmaArray
from rtmprelay.wire import commands
from rtmprelay.wire.commands import StatusCode
from rtmprelay.wire.messages import Command, UserControl, UserControlType
from rtmprelay.wire.names import StreamKey

#: Enhanced RTMP: what a forwarder says of codecs ("*" is every one, 4 is "can forward") and of itself
#: (2 multitrack, 4 ModEx, 8 nanosecond offsets).
ENHANCED_CAPABILITIES: dict[str, AmfValue] = {
    "fourCcList": ["*"],
    "videoFourCcInfoMap": {"*": 4.0},
    "audioFourCcInfoMap": {"*": 4.0},
    "capsEx": 14.0,
}

#: Flash Media Server's version, in the form that old encoders look for.
_SERVER_VERSION = "FMS/3,5,7,7009"


def connect_result(transaction_id: float) -> Command:
    """Yes to `connect`.

    Clients look for the capabilities of Enhanced RTMP in either of the two objects: so both have them.
    """
    properties: dict[str, AmfValue] = {"fmsVer": _SERVER_VERSION, "capabilities": 31.0, "mode": 1.0}
    information: dict[str, AmfValue] = {
        "level": "status",
        "code": StatusCode.CONNECT_SUCCESS,
        "description": "Connection succeeded.",
        "objectEncoding": 0.0,
        "data": EcmaArray(version=f"rtmprelay {__version__}"),
    }
    return commands.result(
        transaction_id, properties | ENHANCED_CAPABILITIES, information | ENHANCED_CAPABILITIES
    )


def stream_begin(stream_id: int) -> UserControl:
    """Media may follow on this message stream."""
    return UserControl(UserControlType.STREAM_BEGIN, stream_id)


def stream_eof(stream_id: int) -> UserControl:
    """No media follows on this message stream for now."""
    return UserControl(UserControlType.STREAM_EOF, stream_id)


def status(stream_id: int, code: str, description: str) -> Command:
    """Good news of a message stream."""
    return commands.on_status(stream_id, "status", code, description)


def error_status(stream_id: int, code: str, description: str) -> Command:
    """Bad news of a message stream."""
    return commands.on_status(stream_id, "error", code, description)


def fc_notice(name: str, code: str) -> Command:
    """The notices around publish and play that Flash Media Live Encoder waits for."""
    return Command(name, 0.0, None, ({"level": "status", "code": code, "description": ""},))


def publish_started(stream_id: int, key: StreamKey) -> list[UserControl | Command]:
    """Yes to `publish`."""
    return [stream_begin(stream_id), status(stream_id, StatusCode.PUBLISH_START, f"Publishing {key}")]


def play_started(stream_id: int, key: StreamKey, reset: bool) -> list[UserControl | Command]:
    """Yes to `play`."""
    resets = [status(stream_id, StatusCode.PLAY_RESET, f"Playing and resetting {key}")] if reset else []
    return [stream_begin(stream_id), *resets, status(stream_id, StatusCode.PLAY_START, f"Playing {key}")]


def unpublished(stream_id: int, key: StreamKey) -> list[UserControl | Command]:
    """To a player: the publisher has gone."""
    notice = status(stream_id, StatusCode.PLAY_UNPUBLISH_NOTIFY, f"{key} is not published now")
    return [stream_eof(stream_id), notice]


def published_again(stream_id: int, key: StreamKey) -> list[UserControl | Command]:
    """To a player: the publisher is back."""
    notice = status(stream_id, StatusCode.PLAY_PUBLISH_NOTIFY, f"{key} is published now")
    return [stream_begin(stream_id), notice]
