"""The answers and notices of a server, as messages."""

from __future__ import annotations

from rtmprelay import __version__
from rtmprelay.amf.amf0 import AmfValue, EcmaArray
from rtmprelay.wire import commands
from rtmprelay.wire.commands import StatusCode
from rtmprelay.wire.messages import Command, Message, UserControl, UserControlType
from rtmprelay.wire.names import StreamKey

#: What Enhanced RTMP wants a forwarder to announce about codecs ("*" is any codec, 4 is "can forward") and about
#: itself (2 multitrack, 4 ModEx, 8 nanosecond offsets).
ENHANCED_CAPABILITIES: dict[str, AmfValue] = {
    "fourCcList": ["*"],
    "videoFourCcInfoMap": {"*": 4.0},
    "audioFourCcInfoMap": {"*": 4.0},
    "capsEx": 14.0,
}

#: The version of Flash Media Server, in the form that old encoders look for.
_SERVER_VERSION = "FMS/3,5,7,7009"


def connect_result(transaction_id: float) -> Command:
    """Accept `connect`.

    Clients look for the capabilities of Enhanced RTMP in either of the two objects, so both contain them.
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


def status(stream_id: int, code: str, description: str) -> Command:
    """A notice that is no error."""
    return commands.on_status(stream_id, "status", code, description)


def fc_notice(name: str, code: str) -> Command:
    """A notice around publish and play that Flash Media Live Encoder waits for."""
    return Command(name, 0.0, None, ({"level": "status", "code": code, "description": ""},))


def _stream_begin(stream_id: int) -> UserControl:
    return UserControl(UserControlType.STREAM_BEGIN, stream_id)


def _stream_eof(stream_id: int) -> UserControl:
    return UserControl(UserControlType.STREAM_EOF, stream_id)


def publish_started(stream_id: int, key: StreamKey) -> list[Message]:
    """Accept `publish`."""
    return [_stream_begin(stream_id), status(stream_id, StatusCode.PUBLISH_START, f"Publishing {key}")]


def play_started(stream_id: int, key: StreamKey, reset: bool) -> list[Message]:
    """Accept `play`."""
    resets = [status(stream_id, StatusCode.PLAY_RESET, f"Playing and resetting {key}")] if reset else []
    return [_stream_begin(stream_id), *resets, status(stream_id, StatusCode.PLAY_START, f"Playing {key}")]


def paused(stream_id: int) -> list[Message]:
    """Confirm that a player has paused."""
    return [_stream_eof(stream_id), status(stream_id, StatusCode.PAUSE_NOTIFY, "Paused")]


def resumed(stream_id: int) -> list[Message]:
    """Confirm that a player has resumed."""
    return [_stream_begin(stream_id), status(stream_id, StatusCode.UNPAUSE_NOTIFY, "Resumed")]


def unpublished(stream_id: int, key: StreamKey) -> list[Message]:
    """Tell a player that the publisher has gone."""
    notice = status(stream_id, StatusCode.PLAY_UNPUBLISH_NOTIFY, f"{key} is not published now")
    return [_stream_eof(stream_id), notice]


def published_again(stream_id: int, key: StreamKey) -> list[Message]:
    """Tell a player that the publisher is back."""
    notice = status(stream_id, StatusCode.PLAY_PUBLISH_NOTIFY, f"{key} is published now")
    return [_stream_begin(stream_id), notice]
