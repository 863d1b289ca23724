"""The client's side of an RTMP conversation: connect, then publish or play."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.errors import LocalProtocolError
from rtmprelay.media import MediaFrame
from rtmprelay.session.channel import MessageChannel
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
from rtmprelay.wire.chunk_writer import MEDIA_CHUNK_STREAMS, encode_standalone
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.commands import StatusCode
from rtmprelay.wire.handshake import ClientHandshake
from rtmprelay.wire.limits import LARGEST_OUTGOING_CHUNK_SIZE, ConnectionLimits
from rtmprelay.wire.messages import Command, from_raw

_AnswerHandler = Callable[[Command, list[SessionReport]], None]


class ClientSession:
    """A conversation with a server.

    Pass the bytes that arrive to `receive_data` and act on the reports. After `ConnectAccepted` call `publish` or
    `play`; after `PublishAccepted` call `send_media`. After each call, write `bytes_to_send()`.
    """

    def __init__(
        self,
        app: str,
        tc_url: str,
        chunk_size: int = LARGEST_OUTGOING_CHUNK_SIZE,
        use_digest: bool = True,
        properties: Mapping[str, AmfValue] | None = None,
    ) -> None:
        """Args:
        properties: More properties of `connect`.
        """
        limits = ConnectionLimits()
        self.channel = MessageChannel(ClientHandshake(use_digest=use_digest), limits, chunk_size)
        #: What `bytes_to_send` would return, in parts: empty if there is nothing to send.
        self.outgoing = self.channel.outgoing
        #: The message stream that the server created for us; 0 before.
        self.stream_id = 0
        self._connect_properties: dict[str, AmfValue] = {
            "app": app,
            "type": "nonprivate",
            "flashVer": "FMLE/3.0 (compatible; rtmprelay)",
            "tcUrl": tc_url,
            **(properties or {}),
        }
        self._intake = MediaIntake(limits)
        self._connect_sent = False
        # The calls whose answers are expected.
        self._answer_handlers: dict[float, _AnswerHandler] = {}
        self._last_transaction = 0.0
        self._create_stream_transaction = 0.0
        self._published_name = ""

    # -- requests --------------------------------------------------------------------------------------------

    def publish(self, name: str) -> None:
        """Request to publish; the name is sent as it is, including its query."""
        self._published_name = name
        # Flash Media Live Encoder sends these two: some platforms expect them, and no server minds.
        self._call("releaseStream", name)
        self._call("FCPublish", name)
        self._create_stream("publish", name, "live")

    def play(self, name: str) -> None:
        """Request to play; a start of -2 means live or else recorded, a duration of -1 means to the end."""
        self._create_stream("play", name, -2.0, -1.0, True)

    def send_media(self, frame: MediaFrame) -> bytes:
        """Encode a media frame. Its bytes are not queued here: write `bytes_to_send()` before them."""
        if not self.stream_id:
            raise LocalProtocolError("media cannot be sent before there is a message stream")
        message = RawMessage(frame.kind, frame.timestamp_ms, self.stream_id, frame.payload)
        return encode_standalone(message, MEDIA_CHUNK_STREAMS[frame.kind], self.channel.chunk_size)

    def end(self) -> None:
        """End a publish or play on purpose, so that the server does not take it for a lost connection."""
        if self._published_name:
            self._call("FCUnpublish", self._published_name)
        # If the server has not created the stream yet, it must not be used when it comes.
        self._answer_handlers.pop(self._create_stream_transaction, None)
        if self.stream_id:
            self._call("deleteStream", float(self.stream_id))
            self._intake.close(self.stream_id)
            self.stream_id = 0

    def _create_stream(self, next_call: str, *arguments: AmfValue) -> None:
        """Create a message stream, and make the next call on it."""

        def created(answer: Command, reports: list[SessionReport]) -> None:
            number = answer.arguments[0] if answer.arguments else None
            # Message stream 0 belongs to the connection: it carries no media.
            if answer.name == "_error" or not isinstance(number, float) or not 1 <= number < 2**32:
                self._report_refusal(answer, reports, "no stream")
                return
            self.stream_id = int(number)
            self._intake.open(self.stream_id)
            self._call(next_call, *arguments, stream_id=self.stream_id, on_answer=self._stream_call_answered)

        self._call("createStream", on_answer=created)
        self._create_stream_transaction = self._last_transaction

    def _stream_call_answered(self, answer: Command, reports: list[SessionReport]) -> None:
        # Most servers answer `publish` and `play` with onStatus alone.
        if answer.name == "_error":
            self._report_refusal(answer, reports, "refused")

    @staticmethod
    def _report_refusal(answer: Command, reports: list[SessionReport], default: str) -> None:
        _, code, description = commands.status_of(answer)
        reports.append(StatusReceived("error", code or StatusCode.CALL_FAILED, description or default))

    def _call(
        self,
        name: str,
        *arguments: AmfValue,
        command_object: AmfValue = None,
        stream_id: int = 0,
        on_answer: _AnswerHandler | None = None,
    ) -> None:
        self._last_transaction += 1
        if on_answer is not None:
            self._answer_handlers[self._last_transaction] = on_answer
        self.channel.send(Command(name, self._last_transaction, command_object, arguments, stream_id))

    # -- input -----------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: float) -> list[SessionReport]:
        """Take the bytes of one read and report what they mean. The time is not used: see `next_deadline`."""
        reports: list[SessionReport] = []
        channel = self.channel
        messages = channel.receive(data)
        if channel.handshake_done and not self._connect_sent:
            self._connect_sent = True
            reports.append(HandshakeDone(channel.digest))
            channel.announce_chunk_size()
            self._call("connect", command_object=self._connect_properties, on_answer=self._connect_answered)
        if messages:
            take_media = self._intake.take
            count = len(messages)
            position = take_media(messages, 0, reports)
            while position < count:
                self._take_message(messages[position], reports)
                position = take_media(messages, position + 1, reports)
        return reports

    def _take_message(self, raw: RawMessage, reports: list[SessionReport]) -> None:
        message = from_raw(raw)
        if isinstance(message, Command):
            self._take_command(message, reports)
        elif message is not None:
            self.channel.handle_control(message)

    def _take_command(self, command: Command, reports: list[SessionReport]) -> None:
        if command.name in ("_result", "_error"):
            on_answer = self._answer_handlers.pop(command.transaction_id, None)
            if on_answer is not None:
                on_answer(command, reports)
        elif command.name == "onStatus":
            self._take_status(command, reports)
        elif command.name in ("onBWDone", "ping") and command.transaction_id:
            self.channel.send(commands.result(command.transaction_id))

    @staticmethod
    def _connect_answered(answer: Command, reports: list[SessionReport]) -> None:
        _, code, description = commands.status_of(answer)
        if answer.name == "_error":
            # Whatever level it has, there is no connection.
            reports.append(StatusReceived("error", code, description))
        else:
            reports.append(ConnectAccepted())

    def _take_status(self, command: Command, reports: list[SessionReport]) -> None:
        level, code, description = commands.status_of(command)
        starts = code in (StatusCode.PUBLISH_START, StatusCode.PLAY_START)
        if starts and not self.stream_id:
            # It is about a message stream that we have deleted.
            return
        if code == StatusCode.PUBLISH_START:
            reports.append(PublishAccepted(self.stream_id))
        elif code == StatusCode.PLAY_START:
            reports.append(PlayAccepted(self.stream_id))
        else:
            reports.append(StatusReceived(level, code, description))

    # -- output and state ------------------------------------------------------------------------------------

    def bytes_to_send(self) -> bytes:
        """Return and remove the bytes to write to the server now."""
        return self.channel.bytes_to_send()

    def next_deadline(self) -> float | None:
        """A client session has no timeouts: the caller that opened the connection has them."""
        return None

    def check_deadline(self, now: float) -> None:
        """Do nothing: see `next_deadline`."""

    def forget(self) -> None:
        """Free the memory of unfinished messages: the server has gone."""
        self.channel.reader.forget()
