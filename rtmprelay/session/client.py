"""The client's side of an RTMP conversation: connect, then publish or play."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.errors import LocalProtocolError
from rtmprelay.media import MediaFrame
from rtmprelay.session.channel import MessageChannel, media_chunk_stream
from rtmprelay.session.intake import MediaIntake
from rtmprelay.session.reports import (
    ConnectAccepted,
    HandshakeDone,
    PlayAccepted,
    PublishAccepted,
    SessionReport,
    StatusReceived,
)
from rtmprelay.wire import commands
from rtmprelay.wire.chunk_writer import encode_standalone
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.commands import StatusCode
from rtmprelay.wire.handshake import ClientHandshake
from rtmprelay.wire.limits import LARGEST_OUTGOING_CHUNK_SIZE, ConnectionLimits
from rtmprelay.wire.messages import Command, from_raw

_Answer = Callable[[Command, list[SessionReport]], None]


class ClientSession:
    """A conversation with a server.

    Give it what arrives with `receive_data` and act on the events. After `ConnectAccepted` call `publish` or
    `play`; after `PublishAccepted` call `send_media`. After each call, write `bytes_to_send()`.
    """

    def __init__(
        self,
        app: str,
        tc_url: str,
        properties: Mapping[str, AmfValue] | None = None,
        chunk_size: int = LARGEST_OUTGOING_CHUNK_SIZE,
        use_digest: bool = True,
    ) -> None:
        limits = ConnectionLimits()
        self.channel = MessageChannel(ClientHandshake(use_digest=use_digest), limits, chunk_size)
        #: What `bytes_to_send` would return, in parts: empty if there is nothing to send.
        self.outgoing = self.channel.outgoing
        self._shaken = False
        self._properties: dict[str, AmfValue] = {
            "app": app,
            "type": "nonprivate",
            "flashVer": "FMLE/3.0 (compatible; rtmprelay)",
            "tcUrl": tc_url,
            **(properties or {}),
        }
        self._intake = MediaIntake(limits)
        self._waiting: dict[float, _Answer] = {}
        self._last_transaction = 0.0
        self._creation = 0.0
        self._published_name = ""
        #: The message stream that the server gave us; 0 before.
        self.stream_id = 0

    # -- asking ----------------------------------------------------------------------------------------------

    def publish(self, name: str, publish_type: str = "live") -> None:
        """Ask to publish; the name is sent as it is, with whatever query it has."""
        self._published_name = name
        # These two are what Flash Media Live Encoder sends; platforms expect them, and nobody minds.
        self._call(lambda transaction: commands.ReleaseStream(transaction, name).to_command())
        self._call(lambda transaction: commands.FCPublish(transaction, name).to_command())
        self._create_stream(
            lambda transaction: commands.Publish(transaction, self.stream_id, name, publish_type).to_command()
        )

    def play(self, name: str) -> None:
        """Ask to play."""
        self._create_stream(lambda transaction: commands.Play(transaction, self.stream_id, name).to_command())

    def send_command(self, command: Command) -> None:
        """Send any other command."""
        self.channel.send(command)

    def send_media(self, frame: MediaFrame) -> bytes:
        """A media frame as bytes for the transport: they are not kept here, so write `bytes_to_send()` before."""
        if not self.stream_id:
            raise LocalProtocolError("media cannot be sent before there is a message stream")
        message = RawMessage(frame.kind, frame.timestamp_ms, self.stream_id, frame.payload)
        return encode_standalone(message, media_chunk_stream(frame.kind), self.channel.chunk_size)

    def end(self) -> None:
        """End a publish or a play on purpose, so that the server does not take it for a lost connection."""
        if self._published_name:
            self._call(
                lambda transaction: commands.FCUnpublish(transaction, self._published_name).to_command()
            )
        # If the stream is still being made, it is not to be published on when it comes.
        self._waiting.pop(self._creation, None)
        if self.stream_id:
            stream_id = self.stream_id
            self._call(lambda transaction: commands.DeleteStream(transaction, stream_id).to_command())
            self._intake.close(stream_id)
            self.stream_id = 0

    def _create_stream(self, then: Callable[[float], Command]) -> None:
        def created(answer: Command, events: list[SessionReport]) -> None:
            number = answer.arguments[0] if answer.arguments else None
            # Message stream 0 is the connection's own: it carries no media.
            if answer.name == "_error" or not isinstance(number, float) or not 1 <= number < 2**32:
                self._report_refusal(answer, events, "no stream")
                return
            self.stream_id = int(number)
            self._intake.open(self.stream_id)
            self._call(then, self._stream_call_answered)

        self._call(lambda transaction: commands.CreateStream(transaction).to_command(), created)
        self._creation = self._last_transaction

    def _stream_call_answered(self, answer: Command, events: list[SessionReport]) -> None:
        # Most servers answer `publish` and `play` with onStatus alone.
        if answer.name == "_error":
            self._report_refusal(answer, events, "refused")

    @staticmethod
    def _report_refusal(answer: Command, events: list[SessionReport], default: str) -> None:
        _, code, description = commands.status_of(answer)
        events.append(StatusReceived("error", code or StatusCode.CALL_FAILED, description or default))

    def _call(self, make: Callable[[float], Command], answered: _Answer | None = None) -> None:
        self._last_transaction += 1
        if answered is not None:
            self._waiting[self._last_transaction] = answered
        self.channel.send(make(self._last_transaction))

    # -- what came in ----------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: float) -> list[SessionReport]:
        """Take what arrived and say what it means."""
        events: list[SessionReport] = []
        channel = self.channel
        messages = channel.receive(data)
        if channel.shaken and not self._shaken:
            self._shaken = True
            events.append(HandshakeDone(channel.digest))
            channel.announce_chunk_size()
            self._call(self._connect, self._connect_answered)
        if messages:
            take_media = self._intake.take
            count = len(messages)
            position = take_media(messages, 0, events)
            while position < count:
                self._take_message(messages[position], events)
                position = take_media(messages, position + 1, events)
        return events

    def _take_message(self, raw: RawMessage, events: list[SessionReport]) -> None:
        message = from_raw(raw)
        if isinstance(message, Command):
            self._take_command(message, events)
        elif message is not None:
            self.channel.handle_control(message)

    def _take_command(self, command: Command, events: list[SessionReport]) -> None:
        if command.name in ("_result", "_error"):
            answered = self._waiting.pop(command.transaction_id, None)
            if answered is not None:
                answered(command, events)
        elif command.name == "onStatus":
            self._take_status(command, events)
        elif command.name in ("onBWDone", "ping") and command.transaction_id:
            self.channel.send(commands.result(command.transaction_id))

    def _connect(self, transaction_id: float) -> Command:
        return commands.Connect(transaction_id, self._properties).to_command()

    @staticmethod
    def _connect_answered(answer: Command, events: list[SessionReport]) -> None:
        _, code, description = commands.status_of(answer)
        if answer.name == "_error":
            # Whatever level it says: the connection is not to be had.
            events.append(StatusReceived("error", code, description))
        else:
            events.append(ConnectAccepted())

    def _take_status(self, command: Command, events: list[SessionReport]) -> None:
        level, code, description = commands.status_of(command)
        starts = code in (StatusCode.PUBLISH_START, StatusCode.PLAY_START)
        if starts and not self.stream_id:
            # It belongs to a message stream that we have given up.
            return
        if code == StatusCode.PUBLISH_START:
            events.append(PublishAccepted(self.stream_id))
        elif code == StatusCode.PLAY_START:
            events.append(PlayAccepted(self.stream_id))
        else:
            events.append(StatusReceived(level, code, description))

    # -- the rest --------------------------------------------------------------------------------------------

    def bytes_to_send(self) -> bytes:
        """What is to be written to the server now."""
        return self.channel.bytes_to_send()

    def next_deadline(self) -> float | None:
        """Clients are timed by whoever opened the connection."""
        return None

    def forget(self) -> None:
        """The server has gone: let go of what has come in part."""
        self.channel.forget()

    def check_time(self, now: float) -> None:
        """See `next_deadline`."""
