"""The commands of RTMP as values: what a client asks, and what a server answers.

Real encoders leave out trailing arguments, or send null where a value belongs, so reading is lenient: what is
missing takes its default. What cannot be understood at all is an `UnknownCommand`, never an error.

Names may carry a token in their query, and so no `repr` shows them.
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
    arguments: tuple[AmfValue, ...] = attrs.field(default=(), repr=False)

    def to_command(self) -> Command:
        return Command("connect", self.transaction_id, dict(self.properties), self.arguments)


@attrs.frozen
class CreateStream:
    """Make a message stream; the answer has its id."""

    transaction_id: float

    def to_command(self) -> Command:
        return Command("createStream", self.transaction_id)


@attrs.frozen
class _NamedCall:
    """The calls that only name a stream, which Flash Media Live Encoder introduced around publish and play."""

    transaction_id: float
    name: str = attrs.field(repr=False)


class ReleaseStream(_NamedCall):
    """Forget an earlier publisher of this name."""

    def to_command(self) -> Command:
        return Command("releaseStream", self.transaction_id, None, (self.name,))


class FCPublish(_NamedCall):
    """A publish of this name will follow."""

    def to_command(self) -> Command:
        return Command("FCPublish", self.transaction_id, None, (self.name,))


class FCUnpublish(_NamedCall):
    """The publish of this name is over, on purpose."""

    def to_command(self) -> Command:
        return Command("FCUnpublish", self.transaction_id, None, (self.name,))


class FCSubscribe(_NamedCall):
    """A play of this name will follow."""

    def to_command(self) -> Command:
        return Command("FCSubscribe", self.transaction_id, None, (self.name,))


class GetStreamLength(_NamedCall):
    """How many seconds long is this stream? A live one has no length: zero."""

    def to_command(self) -> Command:
        return Command("getStreamLength", self.transaction_id, None, (self.name,))


@attrs.frozen
class Publish:
    """Send media on this message stream under a name. `publish_type` may be missing; live is what everybody means."""

    transaction_id: float
    stream_id: int
    name: str = attrs.field(repr=False)
    publish_type: str = "live"

    def to_command(self) -> Command:
        return Command("publish", self.transaction_id, None, (self.name, self.publish_type), self.stream_id)


@attrs.frozen
class Play:
    """Receive a stream on this message stream. A start of -2 takes live before recorded, -1 only live."""

    transaction_id: float
    stream_id: int
    name: str = attrs.field(repr=False)
    start: float = -2.0
    duration: float = -1.0
    reset: bool = True

    def to_command(self) -> Command:
        arguments = (self.name, self.start, self.duration, self.reset)
        return Command("play", self.transaction_id, None, arguments, self.stream_id)


@attrs.frozen
class Play2:
    """Change to another stream of the same content."""

    transaction_id: float
    stream_id: int
    name: str = attrs.field(repr=False)

    def to_command(self) -> Command:
        return Command("play2", self.transaction_id, None, ({"streamName": self.name},), self.stream_id)


@attrs.frozen
class Pause:
    """Stop or go on with what this message stream plays."""

    transaction_id: float
    stream_id: int
    paused: bool
    position_ms: float = 0.0

    def to_command(self) -> Command:
        return Command("pause", self.transaction_id, None, (self.paused, self.position_ms), self.stream_id)


@attrs.frozen
class ReceiveAudio:
    """Whether the player wants audio."""

    transaction_id: float
    stream_id: int
    wanted: bool

    def to_command(self) -> Command:
        return Command("receiveAudio", self.transaction_id, None, (self.wanted,), self.stream_id)


@attrs.frozen
class ReceiveVideo:
    """Whether the player wants video."""

    transaction_id: float
    stream_id: int
    wanted: bool

    def to_command(self) -> Command:
        return Command("receiveVideo", self.transaction_id, None, (self.wanted,), self.stream_id)


@attrs.frozen
class CloseStream:
    """End what this message stream does; the message stream stays."""

    transaction_id: float
    stream_id: int

    def to_command(self) -> Command:
        return Command("closeStream", self.transaction_id, None, (), self.stream_id)


@attrs.frozen
class DeleteStream:
    """End what a message stream does, and the message stream with it."""

    transaction_id: float
    stream_id: int

    def to_command(self) -> Command:
        return Command("deleteStream", self.transaction_id, None, (float(self.stream_id),))


@attrs.frozen
class CheckBandwidth:
    """A bandwidth measurement that some encoders start unasked."""

    transaction_id: float

    def to_command(self) -> Command:
        return Command("_checkbw", self.transaction_id)


@attrs.frozen
class UnknownCommand:
    """Anything else."""

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


def _text(command: Command, index: int, default: str = "") -> str:
    value = command.arguments[index] if index < len(command.arguments) else default
    return value if isinstance(value, str) else default


def _number(command: Command, index: int, default: float) -> float:
    value = command.arguments[index] if index < len(command.arguments) else default
    return float(value) if isinstance(value, int | float) else default


def _flag(command: Command, index: int, default: bool) -> bool:
    value = command.arguments[index] if index < len(command.arguments) else default
    return bool(value) if isinstance(value, int | float) else default


def _read_connect(command: Command) -> Connect:
    properties = command.command_object if isinstance(command.command_object, dict) else {}
    return Connect(command.transaction_id, properties, command.arguments)


def _read_play(command: Command) -> Play:
    return Play(
        command.transaction_id,
        command.stream_id,
        _text(command, 0),
        _number(command, 1, -2.0),
        _number(command, 2, -1.0),
        _flag(command, 3, True),
    )


def _read_play2(command: Command) -> Play2:
    options = command.arguments[0] if command.arguments else None
    name = options.get("streamName") if isinstance(options, dict) else None
    return Play2(command.transaction_id, command.stream_id, name if isinstance(name, str) else "")


def _read_publish(command: Command) -> Publish:
    return Publish(command.transaction_id, command.stream_id, _text(command, 0), _text(command, 1, "live"))


def _read_pause(command: Command) -> Pause:
    return Pause(command.transaction_id, command.stream_id, _flag(command, 0, True), _number(command, 1, 0.0))


def _read_delete_stream(command: Command) -> DeleteStream:
    number = _number(command, 0, float(command.stream_id))
    # Not every double is an integer: NaN and infinity name no stream.
    stream_id = int(number) if 0 <= number < 2**32 else -1
    return DeleteStream(command.transaction_id, stream_id)


_READERS: dict[str, Callable[[Command], ClientCommand]] = {
    "connect": _read_connect,
    "createStream": lambda c: CreateStream(c.transaction_id),
    "releaseStream": lambda c: ReleaseStream(c.transaction_id, _text(c, 0)),
    "FCPublish": lambda c: FCPublish(c.transaction_id, _text(c, 0)),
    "FCUnpublish": lambda c: FCUnpublish(c.transaction_id, _text(c, 0)),
    "FCSubscribe": lambda c: FCSubscribe(c.transaction_id, _text(c, 0)),
    "getStreamLength": lambda c: GetStreamLength(c.transaction_id, _text(c, 0)),
    "publish": _read_publish,
    "play": _read_play,
    "play2": _read_play2,
    "pause": _read_pause,
    # Some old Flash players call it so.
    "pauseRaw": _read_pause,
    "receiveAudio": lambda c: ReceiveAudio(c.transaction_id, c.stream_id, _flag(c, 0, True)),
    "receiveVideo": lambda c: ReceiveVideo(c.transaction_id, c.stream_id, _flag(c, 0, True)),
    "closeStream": lambda c: CloseStream(c.transaction_id, c.stream_id),
    "deleteStream": _read_delete_stream,
    "_checkbw": lambda c: CheckBandwidth(c.transaction_id),
}


def read_client_command(command: Command) -> ClientCommand:
    """What a client's command asks for."""
    reader = _READERS.get(command.name)
    return reader(command) if reader else UnknownCommand(command.transaction_id, command.name)


# -- answers -------------------------------------------------------------------------------------------------


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
    PLAY_UNPUBLISH_NOTIFY = "NetStream.Play.UnpublishNotify"
    PAUSE_NOTIFY = "NetStream.Pause.Notify"
    UNPAUSE_NOTIFY = "NetStream.Unpause.Notify"


def result(transaction_id: float, command_object: AmfValue = None, *arguments: AmfValue) -> Command:
    """The answer to a call that went well."""
    return Command("_result", transaction_id, command_object, arguments)


def error(transaction_id: float, code: str, description: str) -> Command:
    """The answer to a call that did not."""
    return Command("_error", transaction_id, None, (_information("error", code, description),))


def on_status(stream_id: int, level: str, code: str, description: str, **more: AmfValue) -> Command:
    """News of a message stream; `level` is "status" or "error" (FFmpeg gives up only on "error")."""
    return Command("onStatus", 0.0, None, (_information(level, code, description, **more),), stream_id)


def _information(level: str, code: str, description: str, **more: AmfValue) -> dict[str, AmfValue]:
    return {"level": level, "code": code, "description": description, **more}


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
