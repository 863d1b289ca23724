"""The commands that clients send, as values, and the answers of servers.

Real encoders omit trailing arguments, or send null in place of a value. So reading is lenient: what is missing gets
its default, and a command that is not known becomes an `UnknownCommand`, never an error.

Stream names may contain a token in their query, so no `repr` shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import attrs

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.wire.messages import Command


@attrs.frozen
class Connect:
    """Open the connection to an application. `properties` is the whole command object."""

    transaction_id: float
    properties: Mapping[str, AmfValue] = attrs.field(repr=False)


@attrs.frozen
class CreateStream:
    """Create a message stream; the answer contains its id."""

    transaction_id: float


@attrs.frozen
class ReleaseStream:
    """Forget an earlier publisher of a name. Flash Media Live Encoder sends it before publish."""

    transaction_id: float


@attrs.frozen
class FCPublish:
    """A publish will follow."""

    transaction_id: float


@attrs.frozen
class FCUnpublish:
    """The publish is over, on purpose."""

    transaction_id: float


@attrs.frozen
class FCSubscribe:
    """A play will follow."""

    transaction_id: float


@attrs.frozen
class GetStreamLength:
    """How many seconds long is a stream? A live one has no length: zero."""

    transaction_id: float


@attrs.frozen
class Publish:
    """Send media on this message stream under a name."""

    transaction_id: float
    stream_id: int
    name: str = attrs.field(repr=False)


@attrs.frozen
class Play:
    """Receive a stream on this message stream. `reset` ends what the client played before."""

    transaction_id: float
    stream_id: int
    name: str = attrs.field(repr=False)
    reset: bool = True


@attrs.frozen
class Play2:
    """Change to another stream of the same content."""

    transaction_id: float
    stream_id: int
    name: str = attrs.field(repr=False)


@attrs.frozen
class Pause:
    """Pause or resume the play on this message stream."""

    transaction_id: float
    stream_id: int
    paused: bool


@attrs.frozen
class ReceiveAudio:
    """Whether the player wants audio."""

    transaction_id: float
    stream_id: int
    wanted: bool


@attrs.frozen
class ReceiveVideo:
    """Whether the player wants video."""

    transaction_id: float
    stream_id: int
    wanted: bool


@attrs.frozen
class CloseStream:
    """End the publish or play on this message stream, and keep the message stream."""

    transaction_id: float
    stream_id: int


@attrs.frozen
class DeleteStream:
    """End the publish or play on a message stream, and delete the message stream."""

    transaction_id: float
    stream_id: int


@attrs.frozen
class CheckBandwidth:
    """Start a bandwidth measurement. Some encoders send it without need."""

    transaction_id: float


@attrs.frozen
class UnknownCommand:
    """Any other command."""

    transaction_id: float
    name: str


ClientCommand: TypeAlias = (
    Connect
    | CreateStream
    | ReleaseStream
    | FCPublish
    | FCUnpublish
    | FCSubscribe
    | GetStreamLength
    | Publish
    | Play
    | Play2
    | Pause
    | ReceiveAudio
    | ReceiveVideo
    | CloseStream
    | DeleteStream
    | CheckBandwidth
    | UnknownCommand
)


# -- reading -------------------------------------------------------------------------------------------------


def _text(command: Command, index: int) -> str:
    value = command.arguments[index] if index < len(command.arguments) else None
    return value if isinstance(value, str) else ""


def _flag(command: Command, index: int) -> bool:
    value = command.arguments[index] if index < len(command.arguments) else None
    return bool(value) if isinstance(value, int | float) else True


def can_reconnect(properties: Mapping[str, AmfValue]) -> bool:
    """Whether the properties of `connect` say that the client understands a request to reconnect."""
    capabilities = properties.get("capsEx")
    return (
        isinstance(capabilities, float)
        and 0 <= capabilities < 256
        and bool(int(capabilities) & CAN_RECONNECT)
    )


def _read_connect(command: Command) -> Connect:
    properties = command.command_object if isinstance(command.command_object, dict) else {}
    return Connect(command.transaction_id, properties)


def _read_publish(command: Command) -> Publish:
    # The second argument, live or record, makes no difference here.
    return Publish(command.transaction_id, command.stream_id, _text(command, 0))


def _read_play(command: Command) -> Play:
    # The second and third arguments, start and duration, have no meaning for a live stream.
    return Play(command.transaction_id, command.stream_id, _text(command, 0), _flag(command, 3))


def _read_play2(command: Command) -> Play2:
    options = command.arguments[0] if command.arguments else None
    name = options.get("streamName") if isinstance(options, dict) else None
    return Play2(command.transaction_id, command.stream_id, name if isinstance(name, str) else "")


def _read_pause(command: Command) -> Pause:
    return Pause(command.transaction_id, command.stream_id, _flag(command, 0))


def _read_delete_stream(command: Command) -> DeleteStream:
    number = command.arguments[0] if command.arguments else None
    if not isinstance(number, int | float):
        return DeleteStream(command.transaction_id, command.stream_id)
    # A double may be negative, NaN or infinite: none of them is a message stream.
    return DeleteStream(command.transaction_id, int(number) if 0 <= number < 2**32 else -1)


_READERS: dict[str, Callable[[Command], ClientCommand]] = {
    "connect": _read_connect,
    "createStream": lambda c: CreateStream(c.transaction_id),
    "releaseStream": lambda c: ReleaseStream(c.transaction_id),
    "FCPublish": lambda c: FCPublish(c.transaction_id),
    "FCUnpublish": lambda c: FCUnpublish(c.transaction_id),
    "FCSubscribe": lambda c: FCSubscribe(c.transaction_id),
    "getStreamLength": lambda c: GetStreamLength(c.transaction_id),
    "publish": _read_publish,
    "play": _read_play,
    "play2": _read_play2,
    "pause": _read_pause,
    # The name that some old Flash players use.
    "pauseRaw": _read_pause,
    "receiveAudio": lambda c: ReceiveAudio(c.transaction_id, c.stream_id, _flag(c, 0)),
    "receiveVideo": lambda c: ReceiveVideo(c.transaction_id, c.stream_id, _flag(c, 0)),
    "closeStream": lambda c: CloseStream(c.transaction_id, c.stream_id),
    "deleteStream": _read_delete_stream,
    "_checkbw": lambda c: CheckBandwidth(c.transaction_id),
}


def read_client_command(command: Command) -> ClientCommand:
    """What a client's command asks for."""
    reader = _READERS.get(command.name)
    return reader(command) if reader else UnknownCommand(command.transaction_id, command.name)


# -- answers -------------------------------------------------------------------------------------------------


#: The property of `connect` in which a relay shows another relay its pass; `rtmp/node_pass.py` reads it.
NODE_PROPERTY = "relayNodes"


#: The bit of `capsEx` in `connect` by which a client says that it understands a request to reconnect (Enhanced RTMP).
CAN_RECONNECT = 1


class StatusCode:
    """The codes of answers and of `onStatus`."""

    CONNECT_SUCCESS = "NetConnection.Connect.Success"
    CONNECT_REJECTED = "NetConnection.Connect.Rejected"
    CALL_FAILED = "NetConnection.Call.Failed"
    PUBLISH_START = "NetStream.Publish.Start"
    PUBLISH_BAD_NAME = "NetStream.Publish.BadName"
    PUBLISH_DENIED = "NetStream.Publish.Denied"
    UNPUBLISH_SUCCESS = "NetStream.Unpublish.Success"
    PLAY_RESET = "NetStream.Play.Reset"
    PLAY_START = "NetStream.Play.Start"
    PLAY_STOP = "NetStream.Play.Stop"
    PLAY_FAILED = "NetStream.Play.Failed"
    PLAY_STREAM_NOT_FOUND = "NetStream.Play.StreamNotFound"
    PLAY_PUBLISH_NOTIFY = "NetStream.Play.PublishNotify"
    RECONNECT_REQUEST = "NetConnection.Connect.ReconnectRequest"
    PLAY_UNPUBLISH_NOTIFY = "NetStream.Play.UnpublishNotify"
    PAUSE_NOTIFY = "NetStream.Pause.Notify"
    UNPAUSE_NOTIFY = "NetStream.Unpause.Notify"


def result(transaction_id: float, command_object: AmfValue = None, *arguments: AmfValue) -> Command:
    """The answer to a call that succeeded."""
    return Command("_result", transaction_id, command_object, arguments)


def error(transaction_id: float, code: str, description: str) -> Command:
    """The answer to a call that failed."""
    return Command("_error", transaction_id, None, (_information("error", code, description),))


def on_status(stream_id: int, level: str, code: str, description: str) -> Command:
    """A notice about a message stream; `level` is "status" or "error" (FFmpeg gives up only on "error")."""
    return Command("onStatus", 0.0, None, (_information(level, code, description),), stream_id)


def _information(level: str, code: str, description: str) -> dict[str, AmfValue]:
    return {"level": level, "code": code, "description": description}


def status_of(command: Command) -> tuple[str, str, str]:
    """Level, code and description of an `onStatus`, `_result` or `_error`; empty where they are missing."""
    for value in command.arguments:
        if isinstance(value, dict):
            level, code, description = (value.get(key) for key in ("level", "code", "description"))
            return (
                level if isinstance(level, str) else "",
                code if isinstance(code, str) else "",
                description if isinstance(description, str) else "",
            )
    return "", "", ""
