"""The server's side of an RTMP conversation: bytes and time in, events and bytes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.errors import LimitExceededError, RemoteProtocolError
from rtmprelay.media import MediaKind
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
)
from rtmprelay.session.timeouts import Timeouts
from rtmprelay.wire import commands
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.commands import StatusCode
from rtmprelay.wire.handshake import ServerHandshake
from rtmprelay.wire.limits import LARGEST_OUTGOING_CHUNK_SIZE, WINDOW_ACKNOWLEDGEMENT_SIZE, ConnectionLimits
from rtmprelay.wire.messages import BandwidthLimit, Command, SetPeerBandwidth, from_raw
from rtmprelay.wire.names import Application, StreamKey, read_application, read_stream_name

#: Answers to calls of ours: a client has none to answer, and they want no answer.
_ANSWER_NAMES = frozenset({"_result", "_error", "onStatus", "onBWDone"})


@attrs.frozen
class _ConnectRequest:
    transaction_id: float


@attrs.frozen
class _StreamRequest:
    stream: MessageStream
    key: StreamKey
    play: commands.Play | None = None


_Request: TypeAlias = _ConnectRequest | _StreamRequest


class ServerSession:
    """One client's conversation with the server.

    Give it what arrives with `receive_data` and act on the events; answer the `...Requested` ones with `accept` or
    `reject`, at once or later. After each call, write `bytes_to_send()`. `next_deadline` says when `check_time`
    wants to be called. Any error but `RemoteProtocolError` is a bug here.
    """

    def __init__(
        self,
        now: float,
        limits: ConnectionLimits | None = None,
        chunk_size: int = LARGEST_OUTGOING_CHUNK_SIZE,
    ) -> None:
        self._limits = limits or ConnectionLimits()
        self.channel = MessageChannel(ServerHandshake(), self._limits, chunk_size)
        #: What `bytes_to_send` would return, in parts: empty if there is nothing to send.
        self.outgoing = self.channel.outgoing
        self._shaken = False
        self._connection = Connection()
        self.channel.allow_messages_of(
            self._limits.message_size_before_connect, "message_size_before_connect"
        )
        self._timeouts = Timeouts(self._limits, now)
        self._intake = MediaIntake(self._limits)
        self._application = Application("", Secret(""))
        self._streams: dict[int, MessageStream] = {}
        self._requests: dict[int, _Request] = {}
        self._next_request_id = 1
        self._fc_publish_announced = False

    # -- what came in ----------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: float) -> list[SessionReport]:
        """Take what arrived and say what it means.

        A read that is one chunk with one media message takes four calls: this one, the channel's, the chunk reader's
        and the intake's. Everything else here is looked at in plain attributes, so that it takes no more.
        """
        events: list[SessionReport] = []
        channel = self.channel
        timeouts = self._timeouts
        messages = channel.receive(data)
        if channel.reader.chunks_read >= timeouts.chunks_due:
            timeouts.chunks_came(channel.reader.chunks_read, now)
        if channel.shaken and not self._shaken:
            self._shaken = True
            self._handshake_completed(now, events)
        if messages:
            timeouts.last_message = now
            take_media = self._intake.take
            count = len(messages)
            position = take_media(messages, 0, events)
            while position < count:
                self._take_message(messages[position], now, events)
                position = take_media(messages, position + 1, events)
        return events

    def _take_message(self, raw: RawMessage, now: float, events: list[SessionReport]) -> None:
        message = from_raw(raw, self._limits)
        if isinstance(message, Command):
            self._take_command(message, now, events)
        elif message is not None:
            self.channel.handle_control(message)

    def _handshake_completed(self, now: float, events: list[SessionReport]) -> None:
        self._connection.handshake_completed()
        self._timeouts.phase_began(now)
        self.channel.announce_window()
        self.channel.send(SetPeerBandwidth(WINDOW_ACKNOWLEDGEMENT_SIZE, BandwidthLimit.DYNAMIC))
        # Early, because FFmpeg takes over our chunk size for its own sending.
        self.channel.announce_chunk_size()
        events.append(HandshakeDone(self.channel.digest))

    def _take_command(self, command: Command, now: float, events: list[SessionReport]) -> None:
        self._timeouts.command_came(now)
        asked = commands.read_client_command(command)
        if isinstance(asked, commands.Connect):
            self._on_connect(asked, now, events)
            return
        self._connection.command_received(command.name)
        if self._connection.state.phase is not Phase.REFUSED:
            _HANDLERS[type(asked)](self, asked, events)

    # -- calls on the connection -----------------------------------------------------------------------------

    def _on_connect(self, asked: commands.Connect, now: float, events: list[SessionReport]) -> None:
        self._connection.connect_requested()
        self._timeouts.phase_began(now)
        self._application = read_application(asked.properties)
        client = asked.properties.get("flashVer")
        request_id = self._new_request(_ConnectRequest(asked.transaction_id))
        client_name = client[:80] if isinstance(client, str) else ""
        events.append(
            ConnectRequested(request_id, self._application.app, client_name, self._application.credentials)
        )

    def _on_create_stream(self, asked: commands.CreateStream, events: list[SessionReport]) -> None:
        stream_id = next(number for number in range(1, len(self._streams) + 2) if number not in self._streams)
        self._add_stream(stream_id)
        self.channel.send(commands.result(asked.transaction_id, None, float(stream_id)))
        events.append(StreamCreated(stream_id))

    def _on_release_stream(self, asked: commands.ReleaseStream, events: list[SessionReport]) -> None:
        self._answer(asked.transaction_id, None)

    def _on_fc_publish(self, asked: commands.FCPublish, events: list[SessionReport]) -> None:
        self._fc_publish_announced = True
        self._answer(asked.transaction_id, None)

    def _on_fc_unpublish(self, asked: commands.FCUnpublish, events: list[SessionReport]) -> None:
        self._answer(asked.transaction_id, None)
        self.channel.send(replies.fc_notice("onFCUnpublish", StatusCode.UNPUBLISH_SUCCESS))
        # The name can be written in more ways than one, but an encoder that says this has ended what it publishes.
        for stream_id in list(self._intake.open_streams):
            self._release(self._streams[stream_id], events)

    def _on_fc_subscribe(self, asked: commands.FCSubscribe, events: list[SessionReport]) -> None:
        self.channel.send(replies.fc_notice("onFCSubscribe", StatusCode.PLAY_START))

    def _on_get_stream_length(self, asked: commands.GetStreamLength, events: list[SessionReport]) -> None:
        self._answer(asked.transaction_id, 0.0)

    def _on_check_bandwidth(self, asked: commands.CheckBandwidth, events: list[SessionReport]) -> None:
        self._answer(asked.transaction_id, None)

    def _on_unknown(self, asked: commands.UnknownCommand, events: list[SessionReport]) -> None:
        if asked.name in _ANSWER_NAMES:
            return
        shown = asked.name[:40]
        if asked.transaction_id:
            sentence = f"There is no method {shown!r}"
            self.channel.send(commands.error(asked.transaction_id, StatusCode.CALL_FAILED, sentence))
        events.append(CommandNotUnderstood(shown))

    def _answer(self, transaction_id: float, value: AmfValue) -> None:
        # A transaction id of zero says that no answer is wanted.
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
        """The message stream that a call came on. Some encoders use one without making it: then it is made."""
        return self._streams.get(stream_id) or self._add_stream(stream_id)

    def _on_publish(self, asked: commands.Publish, events: list[SessionReport]) -> None:
        stream = self._stream(asked.stream_id)
        try:
            key, credentials = read_stream_name(self._application, asked.name)
        except RemoteProtocolError as bad_name:
            self._refuse(stream, StatusCode.PUBLISH_BAD_NAME, str(bad_name))
            return
        if not stream.publish_requested():
            self._refuse(stream, StatusCode.PUBLISH_BAD_NAME, f"This message stream is {stream.role.value}")
            return
        self._intake.open(stream.stream_id)
        request_id = self._new_request(_StreamRequest(stream, key))
        events.append(PublishRequested(request_id, stream.stream_id, key, credentials))

    def _on_play(self, asked: commands.Play, events: list[SessionReport]) -> None:
        stream = self._stream(asked.stream_id)
        try:
            key, credentials = read_stream_name(self._application, asked.name)
        except RemoteProtocolError as bad_name:
            self._refuse(stream, StatusCode.PLAY_STREAM_NOT_FOUND, str(bad_name))
            return
        if stream.role in (Role.PLAYING, Role.ASKING_TO_PLAY):
            # A player may change to another stream without closing the first.
            self._release(stream, events)
        if not stream.play_requested():
            self._refuse(stream, StatusCode.PLAY_FAILED, f"This message stream is {stream.role.value}")
            return
        request_id = self._new_request(_StreamRequest(stream, key, asked))
        events.append(PlayRequested(request_id, stream.stream_id, key, credentials))

    def _refuse(self, stream: MessageStream, code: str, description: str) -> None:
        self.channel.send(replies.error_status(stream.stream_id, code, description))

    def _on_play2(self, asked: commands.Play2, events: list[SessionReport]) -> None:
        self._on_play(commands.Play(asked.transaction_id, asked.stream_id, asked.name), events)

    def _on_pause(self, asked: commands.Pause, events: list[SessionReport]) -> None:
        stream = self._streams.get(asked.stream_id)
        if stream is None or stream.role is not Role.PLAYING:
            return
        if asked.paused:
            self.channel.send(replies.stream_eof(stream.stream_id))
            self.channel.send(replies.status(stream.stream_id, StatusCode.PAUSE_NOTIFY, "Paused"))
        else:
            self.channel.send(replies.stream_begin(stream.stream_id))
            self.channel.send(replies.status(stream.stream_id, StatusCode.UNPAUSE_NOTIFY, "Going on"))
        events.append(PlayPaused(stream.stream_id, asked.paused))

    def _on_receive_audio(self, asked: commands.ReceiveAudio, events: list[SessionReport]) -> None:
        self._on_reception(asked.stream_id, MediaKind.AUDIO, asked.wanted, events)

    def _on_receive_video(self, asked: commands.ReceiveVideo, events: list[SessionReport]) -> None:
        self._on_reception(asked.stream_id, MediaKind.VIDEO, asked.wanted, events)

    def _on_reception(
        self, stream_id: int, kind: MediaKind, wanted: bool, events: list[SessionReport]
    ) -> None:
        if stream_id in self._streams:
            events.append(ReceptionChanged(stream_id, kind, wanted))

    def _on_close_stream(self, asked: commands.CloseStream, events: list[SessionReport]) -> None:
        stream = self._streams.get(asked.stream_id)
        if stream is not None:
            self._release(stream, events)

    def _on_delete_stream(self, asked: commands.DeleteStream, events: list[SessionReport]) -> None:
        stream = self._streams.pop(asked.stream_id, None)
        if stream is not None:
            self._release(stream, events)

    def _release(self, stream: MessageStream, events: list[SessionReport]) -> None:
        """End what a message stream does, because the client wants it."""
        role = stream.role
        if role is Role.PUBLISHING:
            self.channel.send(
                replies.status(stream.stream_id, StatusCode.UNPUBLISH_SUCCESS, "Publishing ended")
            )
        elif role is Role.PLAYING:
            self.channel.send(replies.status(stream.stream_id, StatusCode.PLAY_STOP, "Playing ended"))
        self._make_idle(stream)
        if role in (Role.ASKING_TO_PUBLISH, Role.PUBLISHING):
            events.append(PublishEnded(stream.stream_id))
        elif role in (Role.ASKING_TO_PLAY, Role.PLAYING):
            events.append(PlayEnded(stream.stream_id))

    def _make_idle(self, stream: MessageStream) -> None:
        for request_id, request in list(self._requests.items()):
            if isinstance(request, _StreamRequest) and request.stream is stream:
                del self._requests[request_id]
        stream.released()
        self._intake.close(stream.stream_id)

    # -- answers ---------------------------------------------------------------------------------------------

    def is_wanted(self, request_id: int) -> bool:
        """Whether a wish still stands: a client may take it back before it is answered."""
        return request_id in self._requests

    def accept(self, request_id: int) -> None:
        """Grant a wish. An answer that comes too late, when the client has taken the wish back, is ignored."""
        request = self._requests.pop(request_id, None)
        if isinstance(request, _ConnectRequest):
            self._connection.connect_accepted()
            self.channel.allow_messages_of(self._limits.message_size)
            self.channel.send(replies.connect_result(request.transaction_id))
        elif isinstance(request, _StreamRequest):
            request.stream.accepted()
            if request.play is None:
                self._begin_publish(request)
            else:
                self._begin_play(request, request.play)

    def _begin_publish(self, request: _StreamRequest) -> None:
        if self._fc_publish_announced:
            self._fc_publish_announced = False
            self.channel.send(replies.fc_notice("onFCPublish", StatusCode.PUBLISH_START))
        for message in replies.publish_started(request.stream.stream_id, request.key):
            self.channel.send(message)

    def _begin_play(self, request: _StreamRequest, asked: commands.Play) -> None:
        stream_id = request.stream.stream_id
        for message in replies.play_started(stream_id, request.key, asked.reset):
            self.channel.send(message)

    def reject(self, request_id: int, code: str, description: str) -> None:
        """Refuse a wish with a code that encoders and players understand."""
        request = self._requests.pop(request_id, None)
        if isinstance(request, _ConnectRequest):
            self._connection.connect_refused()
            self.channel.send(commands.error(request.transaction_id, code, description))
            # An encoder that did not wait may have asked for more already: that is refused with it.
            for stream in self._streams.values():
                self._make_idle(stream)
        elif isinstance(request, _StreamRequest):
            request.stream.refused()
            self._intake.close(request.stream.stream_id)
            self._refuse(request.stream, code, description)

    # -- what the server tells on its own --------------------------------------------------------------------

    def tell_unpublished(self, stream_id: int, key: StreamKey) -> None:
        """The publisher of what this message stream plays has gone."""
        for message in replies.unpublished(stream_id, key):
            self.channel.send(message)

    def tell_published(self, stream_id: int, key: StreamKey) -> None:
        """The publisher of what this message stream plays is back."""
        for message in replies.published_again(stream_id, key):
            self.channel.send(message)

    def end_stream(self, stream_id: int, level: str, code: str, description: str) -> None:
        """End a publish or a play from our side, and say why; nothing is left to end if the client was faster."""
        stream = self._streams.get(stream_id)
        if stream is not None and stream.role is not Role.IDLE:
            self._make_idle(stream)
            self.channel.send(commands.on_status(stream_id, level, code, description))

    # -- time and state --------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When the client will have been too slow if nothing comes until then; None while it plays."""
        return None if self._plays else self._timeouts.deadline(self._connection.state.phase)

    def forget(self) -> None:
        """The client has gone: let go of what has come in part."""
        self.channel.forget()

    def check_time(self, now: float) -> None:
        """Raise if the client has been too slow."""
        if not self._plays:
            self._timeouts.check(self._connection.state.phase, now)

    @property
    def _plays(self) -> bool:
        return any(stream.role is Role.PLAYING for stream in self._streams.values())

    @property
    def phase(self) -> Phase:
        """How far the conversation has come."""
        return self._connection.state.phase

    def bytes_to_send(self) -> bytes:
        """What is to be written to the client now."""
        return self.channel.bytes_to_send()

    def _new_request(self, request: _Request) -> int:
        request_id = self._next_request_id
        self._next_request_id += 1
        self._requests[request_id] = request
        return request_id


#: Which method answers which command.
_HANDLERS: dict[type[Any], Callable[[ServerSession, Any, list[SessionReport]], None]] = {
    commands.CreateStream: ServerSession._on_create_stream,
    commands.ReleaseStream: ServerSession._on_release_stream,
    commands.FCPublish: ServerSession._on_fc_publish,
    commands.FCUnpublish: ServerSession._on_fc_unpublish,
    commands.FCSubscribe: ServerSession._on_fc_subscribe,
    commands.GetStreamLength: ServerSession._on_get_stream_length,
    commands.Publish: ServerSession._on_publish,
    commands.Play: ServerSession._on_play,
    commands.Play2: ServerSession._on_play2,
    commands.Pause: ServerSession._on_pause,
    commands.ReceiveAudio: ServerSession._on_receive_audio,
    commands.ReceiveVideo: ServerSession._on_receive_video,
    commands.CloseStream: ServerSession._on_close_stream,
    commands.DeleteStream: ServerSession._on_delete_stream,
    commands.CheckBandwidth: ServerSession._on_check_bandwidth,
    commands.UnknownCommand: ServerSession._on_unknown,
}
