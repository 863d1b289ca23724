"""The server's side of an RTMP conversation: bytes and time in, reports and bytes out."""

from __future__ import annotations

from typing import assert_never

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.errors import LimitExceededError
from rtmprelay.media import MediaKind
from rtmprelay.memory import MemoryPool
from rtmprelay.secret import Secret
from rtmprelay.session import replies
from rtmprelay.session.channel import MessageChannel
from rtmprelay.session.intake import MediaIntake
from rtmprelay.session.lifecycle import Connection, MessageStream, Phase, Role
from rtmprelay.session.reports import (
    CommandNotUnderstood,
    ConnectRequested,
    HandshakeDone,
    PlayEnded,
    PlayPaused,
    PlayRequested,
    PublishEnded,
    PublishRequested,
    ReceptionChanged,
    SessionReport,
    StreamCreated,
    StreamNameRefused,
)
from rtmprelay.session.requests import ConnectRequest, PendingRequests, StreamRequest
from rtmprelay.session.timeouts import Timeouts
from rtmprelay.session.trust import Trust
from rtmprelay.wire import commands
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.commands import StatusCode
from rtmprelay.wire.handshake import ServerHandshake
from rtmprelay.wire.limits import LARGEST_OUTGOING_CHUNK_SIZE, WINDOW_ACKNOWLEDGEMENT_SIZE, ConnectionLimits
from rtmprelay.wire.messages import BandwidthLimit, Command, SetPeerBandwidth, from_raw
from rtmprelay.wire.names import Application, StreamKey, UnusableNameError, read_application, read_stream_name

#: The names of answers. A server makes no calls, so a client has none to answer; they get no reply.
_ANSWER_NAMES = frozenset({"_result", "_error", "onStatus", "onBWDone"})

_Named = commands.Publish | commands.Play


class ServerSession:
    """One client's conversation with the server.

    Pass the bytes that arrive to `receive_data` and act on the reports; answer those named `...Requested` with `accept`
    or `reject`, at once or later. After each call, write `bytes_to_send()`. At `next_deadline()`, call
    `check_deadline`. Any error other than `RemoteProtocolError` is a bug in this package.

    Until the first publish is accepted, the client may send little, and what it sends after a `publish` waits for the
    answer: an encoder may send media at once, and the answer says how much that may be. Leave its socket unread if you
    can, and call `receive_data` again after the answer, with no bytes, if `has_held_data`.
    """

    def __init__(
        self,
        now: float,
        limits: ConnectionLimits | None = None,
        chunk_size: int = LARGEST_OUTGOING_CHUNK_SIZE,
        strangers: MemoryPool | None = None,
        publishers: MemoryPool | None = None,
    ) -> None:
        """Args:
        strangers, publishers: Count the unfinished messages of all connections before and after a publish is accepted.
        """
        self._limits = limits or ConnectionLimits()
        self.channel = MessageChannel(ServerHandshake(), self._limits, chunk_size)
        #: What `bytes_to_send` would return, in parts: empty if there is nothing to send.
        self.outgoing = self.channel.outgoing
        self._connection = Connection()
        self._timeouts = Timeouts(self._limits, now)
        self.trust = Trust(self._limits, self.channel.reader, self._timeouts, strangers, publishers)
        self.requests = PendingRequests()
        self._intake = MediaIntake(self._limits)
        self._application = Application("", Secret(""))
        self._streams: dict[int, MessageStream] = {}
        self._fc_publish_announced = False

    # -- input -----------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: float) -> list[SessionReport]:
        """Take the bytes of one read and report what they mean.

        One media message in one chunk takes four calls: this one, the channel's, the chunk reader's, and the intake's.
        """
        reports: list[SessionReport] = []
        channel = self.channel
        if self.requests.awaited is not None:
            channel.hold(data)
            return reports
        timeouts = self._timeouts
        messages = channel.receive(data)
        if channel.reader.chunks_read >= timeouts.chunks_due:
            timeouts.count_chunks(channel.reader.chunks_read, now)
        if channel.handshake_done and self._connection.state.phase is Phase.HANDSHAKE:
            self._handshake_completed(now, reports)
        if messages:
            timeouts.last_message = now
            take_media = self._intake.take
            count = len(messages)
            position = take_media(messages, 0, reports)
            while position < count:
                self._take_message(messages[position], now, reports)
                position = take_media(messages, position + 1, reports)
                if position == count and channel.reader.held and self.requests.awaited is None:
                    messages = channel.reader.feed(b"")
                    count = len(messages)
                    position = take_media(messages, 0, reports)
        if not self.trust.may_publish:
            timeouts.note_unfinished(self.requests.awaited is None and channel.reader.unfinished > 0, now)
        return reports

    @property
    def has_held_data(self) -> bool:
        return self.channel.reader.held > 0

    def _handshake_completed(self, now: float, reports: list[SessionReport]) -> None:
        self._connection.handshake_completed()
        self._timeouts.phase_began(now)
        self.channel.announce_window()
        self.channel.send(SetPeerBandwidth(WINDOW_ACKNOWLEDGEMENT_SIZE, BandwidthLimit.DYNAMIC))
        # Early, because FFmpeg adopts our chunk size for its own chunks.
        self.channel.announce_chunk_size()
        reports.append(HandshakeDone(self.channel.digest))

    def _take_message(self, raw: RawMessage, now: float, reports: list[SessionReport]) -> None:
        budget = self.trust.budget()
        message = from_raw(raw, budget)
        if isinstance(message, Command):
            self.trust.spent(budget, now)
            self._take_command(message, now, reports)
        elif message is not None:
            self.channel.handle_control(message)

    def _take_command(self, command: Command, now: float, reports: list[SessionReport]) -> None:
        self._timeouts.count_command(now)
        request = commands.read_client_command(command)
        if isinstance(request, commands.Connect):
            self._on_connect(request, now, reports)
            return
        self._connection.command_received(command.name)
        if self._connection.state.phase is Phase.REFUSED:
            return
        match request:
            case commands.CreateStream(transaction_id):
                self._on_create_stream(transaction_id, reports)
            case commands.ReleaseStream(transaction_id) | commands.CheckBandwidth(transaction_id):
                self._answer(transaction_id, None)
            case commands.FCPublish(transaction_id):
                self._fc_publish_announced = True
                self._answer(transaction_id, None)
            case commands.FCUnpublish(transaction_id):
                self._on_fc_unpublish(transaction_id, reports)
            case commands.FCSubscribe():
                self.channel.send(replies.fc_notice("onFCSubscribe", StatusCode.PLAY_START))
            case commands.GetStreamLength(transaction_id):
                self._answer(transaction_id, 0.0)
            case commands.Publish():
                self._on_publish(request, reports)
            case commands.Play():
                self._on_play(request, reports)
            case commands.Play2(transaction_id, stream_id, name):
                self._on_play(commands.Play(transaction_id, stream_id, name), reports)
            case commands.Pause(_, stream_id, paused):
                self._on_pause(stream_id, paused, reports)
            case commands.ReceiveAudio(_, stream_id, wanted):
                self._on_reception(stream_id, MediaKind.AUDIO, wanted, reports)
            case commands.ReceiveVideo(_, stream_id, wanted):
                self._on_reception(stream_id, MediaKind.VIDEO, wanted, reports)
            case commands.CloseStream(_, stream_id):
                self._release(self._streams.get(stream_id), reports)
            case commands.DeleteStream(_, stream_id):
                self._release(self._streams.pop(stream_id, None), reports)
            case commands.UnknownCommand(transaction_id, name):
                self._on_unknown(transaction_id, name, reports)
            case _:
                assert_never(request)

    # -- calls on the connection -----------------------------------------------------------------------------

    def _on_connect(self, request: commands.Connect, now: float, reports: list[SessionReport]) -> None:
        self._connection.connect_requested()
        self._timeouts.phase_began(now)
        self._application = read_application(request.properties, *self._limits.name_sizes)
        self.channel.reader.keep(len(self._application.credentials.reveal()))
        client = request.properties.get("flashVer")
        node_pass = request.properties.get(commands.NODE_PROPERTY)
        request_id = self.requests.add(ConnectRequest(request.transaction_id))
        reports.append(
            ConnectRequested(
                request_id,
                self._application.app,
                client[:80] if isinstance(client, str) else "",
                self._application.credentials,
                commands.can_reconnect(request.properties),
                Secret(node_pass if isinstance(node_pass, str) else ""),
            )
        )

    def _on_create_stream(self, transaction_id: float, reports: list[SessionReport]) -> None:
        stream_id = next(number for number in range(1, len(self._streams) + 2) if number not in self._streams)
        self._add_stream(stream_id)
        self.channel.send(commands.result(transaction_id, None, float(stream_id)))
        reports.append(StreamCreated(stream_id))

    def _on_fc_unpublish(self, transaction_id: float, reports: list[SessionReport]) -> None:
        self._answer(transaction_id, None)
        self.channel.send(replies.fc_notice("onFCUnpublish", StatusCode.UNPUBLISH_SUCCESS))
        # The name in the command may be spelled differently, but an encoder that sends it has ended what it publishes.
        for stream_id in list(self._intake.open_streams):
            self._release(self._streams[stream_id], reports)

    def _on_unknown(self, transaction_id: float, name: str, reports: list[SessionReport]) -> None:
        if name in _ANSWER_NAMES:
            return
        shown = name[:40]
        if transaction_id:
            sentence = f"There is no method {shown!r}"
            self.channel.send(commands.error(transaction_id, StatusCode.CALL_FAILED, sentence))
        reports.append(CommandNotUnderstood(shown))

    def _answer(self, transaction_id: float, value: AmfValue) -> None:
        # A transaction id of zero means that the client expects no answer.
        if transaction_id:
            self.channel.send(commands.result(transaction_id, None, value))

    # -- calls on a message stream ---------------------------------------------------------------------------

    def _add_stream(self, stream_id: int) -> MessageStream:
        most = self._limits.message_streams
        if len(self._streams) >= most:
            raise LimitExceededError("message_streams", f"the peer uses more than {most} message streams")
        stream = self._streams[stream_id] = MessageStream(stream_id)
        return stream

    def _stream(self, stream_id: int) -> MessageStream:
        """The message stream of a call. Some encoders use one without createStream: then it is created here."""
        return self._streams.get(stream_id) or self._add_stream(stream_id)

    def _on_publish(self, request: commands.Publish, reports: list[SessionReport]) -> None:
        stream = self._stream(request.stream_id)
        if (named := self._read_name(stream, request, StatusCode.PUBLISH_BAD_NAME, reports)) is None:
            return
        key, credentials = named
        if not stream.publish_requested():
            self._refuse(stream, StatusCode.PUBLISH_BAD_NAME, f"This message stream is {stream.role.value}")
            return
        request_id = self.requests.add(StreamRequest(stream, key))
        reports.append(PublishRequested(request_id, stream.stream_id, key, credentials))

    def _on_play(self, request: commands.Play, reports: list[SessionReport]) -> None:
        stream = self._stream(request.stream_id)
        if (named := self._read_name(stream, request, StatusCode.PLAY_STREAM_NOT_FOUND, reports)) is None:
            return
        key, credentials = named
        if stream.role in (Role.PLAYING, Role.REQUESTING_PLAY):
            # A player may change to another stream without closing the first.
            self._release(stream, reports)
        if not stream.play_requested():
            self._refuse(stream, StatusCode.PLAY_FAILED, f"This message stream is {stream.role.value}")
            return
        request_id = self.requests.add(StreamRequest(stream, key, request))
        reports.append(PlayRequested(request_id, stream.stream_id, key, credentials))

    def _read_name(
        self, stream: MessageStream, request: _Named, code: str, reports: list[SessionReport]
    ) -> tuple[StreamKey, Secret] | None:
        try:
            return read_stream_name(self._application, request.name, *self._limits.name_sizes)
        except UnusableNameError as bad:
            self._refuse(stream, code, str(bad))
            reports.append(StreamNameRefused(self._application.app, code, str(bad)))
            return None

    def _refuse(self, stream: MessageStream, code: str, description: str) -> None:
        self.channel.send(commands.on_status(stream.stream_id, "error", code, description))

    def _on_pause(self, stream_id: int, paused: bool, reports: list[SessionReport]) -> None:
        stream = self._streams.get(stream_id)
        if stream is None or stream.role is not Role.PLAYING:
            return
        self.channel.send_all(replies.paused(stream_id) if paused else replies.resumed(stream_id))
        reports.append(PlayPaused(stream_id, paused))

    def _on_reception(
        self, stream_id: int, kind: MediaKind, wanted: bool, reports: list[SessionReport]
    ) -> None:
        if stream_id in self._streams:
            reports.append(ReceptionChanged(stream_id, kind, wanted))

    def _release(self, stream: MessageStream | None, reports: list[SessionReport]) -> None:
        """End the publish or play on a message stream at the client's request."""
        if stream is None:
            return
        stream_id, role = stream.stream_id, stream.role
        if role is Role.PUBLISHING:
            self.channel.send(replies.status(stream_id, StatusCode.UNPUBLISH_SUCCESS, "Publishing ended"))
        elif role is Role.PLAYING:
            self.channel.send(replies.status(stream_id, StatusCode.PLAY_STOP, "Playing ended"))
        self._make_idle(stream)
        if role in (Role.REQUESTING_PUBLISH, Role.PUBLISHING):
            reports.append(PublishEnded(stream_id))
        elif role in (Role.REQUESTING_PLAY, Role.PLAYING):
            reports.append(PlayEnded(stream_id))

    def _make_idle(self, stream: MessageStream) -> None:
        self.requests.withdraw(stream)
        stream.released()
        self._intake.close(stream.stream_id)

    # -- answers to requests ---------------------------------------------------------------------------------

    def is_pending(self, request_id: int) -> bool:
        """Whether a request still needs an answer: the client may have cancelled it."""
        return request_id in self.requests

    def request_reconnect(self, description: str) -> None:
        """Ask the client to connect anew, perhaps to another server of the same name."""
        self.channel.send(replies.status(0, StatusCode.RECONNECT_REQUEST, description))

    def accept(self, request_id: int) -> None:
        """Grant a request. If the client has cancelled it, nothing happens."""
        request = self.requests.take(request_id)
        if isinstance(request, ConnectRequest):
            self._connection.connect_accepted()
            self.trust.connect_accepted()
            self.channel.send(replies.connect_result(request.transaction_id))
        elif isinstance(request, StreamRequest):
            request.stream.accepted()
            if request.play is not None:
                self.channel.send_all(
                    replies.play_started(request.stream.stream_id, request.key, request.play.reset)
                )
                return
            self._intake.open(request.stream.stream_id)
            self.trust.publish_accepted()
            if self._fc_publish_announced:
                self._fc_publish_announced = False
                self.channel.send(replies.fc_notice("onFCPublish", StatusCode.PUBLISH_START))
            self.channel.send_all(replies.publish_started(request.stream.stream_id, request.key))

    def reject(self, request_id: int, code: str, description: str) -> None:
        """Refuse a request, with a code that encoders and players understand."""
        request = self.requests.take(request_id)
        if isinstance(request, ConnectRequest):
            self._connection.connect_refused()
            self.channel.send(commands.error(request.transaction_id, code, description))
            # An encoder that did not wait may have sent more requests already: they are refused as well.
            for stream in self._streams.values():
                self._make_idle(stream)
        elif isinstance(request, StreamRequest):
            request.stream.refused()
            self._refuse(request.stream, code, description)

    # -- notices ---------------------------------------------------------------------------------------------

    def notify_unpublished(self, stream_id: int, key: StreamKey) -> None:
        """Tell a player that the publisher of its stream has gone."""
        self.channel.send_all(replies.unpublished(stream_id, key))

    def notify_published(self, stream_id: int, key: StreamKey) -> None:
        """Tell a player that the publisher of its stream is back."""
        self.channel.send_all(replies.published_again(stream_id, key))

    def end_stream(self, stream_id: int, level: str, code: str, description: str) -> None:
        """End a publish or play from our side and give the reason, unless the client has ended it already."""
        stream = self._streams.get(stream_id)
        if stream is not None and stream.role is not Role.IDLE:
            self._make_idle(stream)
            self.channel.send(commands.on_status(stream_id, level, code, description))

    # -- time and state --------------------------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        return self._connection.state.phase

    def next_deadline(self) -> float | None:
        """When the client will have been too slow if nothing arrives until then; None while it plays."""
        return self._timeouts.next_deadline(self.phase, self._plays)

    def check_deadline(self, now: float) -> None:
        """Raise if the client has been too slow."""
        self._timeouts.check(self.phase, self._plays, now)

    @property
    def _plays(self) -> bool:
        return any(stream.role is Role.PLAYING for stream in self._streams.values())

    def bytes_to_send(self) -> bytes:
        """Return and remove the bytes to write to the client now."""
        return self.channel.bytes_to_send()

    def forget(self) -> None:
        """Free the memory of unfinished messages: the client has gone."""
        self.channel.reader.forget()
