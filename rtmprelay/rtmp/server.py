"""The RTMP server on Twisted: the protocol of one connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar, assert_never

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IAddress
from twisted.python.failure import Failure
from typing_extensions import override

from rtmprelay import events
from rtmprelay.access.refusals import Refusal
from rtmprelay.access.request import AccessRequest, Action, Credentials, Verdict
from rtmprelay.errors import LimitExceededError
from rtmprelay.media import MediaFrame
from rtmprelay.rtmp.addresses import describe_address, host_of
from rtmprelay.rtmp.connecting import Connecting
from rtmprelay.rtmp.connection import RtmpConnection
from rtmprelay.rtmp.goodbye import Goodbye
from rtmprelay.rtmp.permission import Permissions
from rtmprelay.rtmp.playing import Playing, RtmpPlayer
from rtmprelay.rtmp.publishing import Publishing
from rtmprelay.rtmp.reading_pace import Reading, UnreadSocket
from rtmprelay.rtmp.recheck import Granted
from rtmprelay.session.adobe import without_login
from rtmprelay.session.reports import (
    CommandNotUnderstood,
    ConnectAccepted,
    ConnectRequested,
    HandshakeDone,
    MediaReceived,
    PlayAccepted,
    PlayEnded,
    PlayPaused,
    PlayRequested,
    PublishAccepted,
    PublishEnded,
    PublishRequested,
    ReceptionChanged,
    SessionReport,
    StatusReceived,
    StreamCreated,
    StreamNameRefused,
)
from rtmprelay.session.server import ServerSession
from rtmprelay.session.timeouts import RateLimit

if TYPE_CHECKING:
    from rtmprelay.rtmp.server_factory import RtmpServerFactory

#: Events about new message streams and unknown commands of one connection: real clients cause two or three.
_MOST_SMALL_EVENTS = 20

#: The limits that a frame may exceed while its client may not publish yet.
_FRAME_LIMITS = ("message_size_before_publish", "assembly_size_before_publish")

_Request = TypeVar("_Request", PublishRequested, PlayRequested)


def _discard(data: bytes) -> None:
    """Read no more of what a client sends."""


class RtmpServerProtocol(RtmpConnection[ServerSession]):
    """The connection of one client, which may publish, play, or both.

    Bytes and time are handled in `RtmpConnection`, publishing in `Publishing`, playing in `Playing`. This class passes
    the reports of the session to the one that they are for.
    """

    factory: RtmpServerFactory

    def __init__(self, factory: RtmpServerFactory, connection_id: str, address: IAddress | None) -> None:
        settings = factory.settings
        now = factory.clock.seconds()
        session = ServerSession(
            now, settings.limits, settings.chunk_size, factory.strangers_memory, factory.publishers_memory
        )
        super().__init__(session, factory.clock, settings.limits, connection_id)
        self.factory = factory
        self.host = host_of(address)
        self.counts_as_unconnected = True
        self.peer = describe_address(address)
        # A failure after a verdict may be the client's: media that came before the verdict may exceed a limit.
        self.permissions = Permissions(factory.gate, self.handling_failed)
        self._connecting = Connecting(self)
        self._publishing = Publishing(self)
        self._playing = Playing(self)
        self.unread = UnreadSocket(self, self._publishing)
        self._began = now
        self._statistics_due = now + settings.statistics_interval
        self.goodbye = Goodbye(self, factory.clock)
        self._reading: Reading | None = None
        most = settings.max_publisher_kbps
        self._bitrate = None if most is None else RateLimit("max_publisher_kbps", most * 125, now)
        self._was_rejected = False
        self._small_events = 0
        self._granted: dict[int, AccessRequest] = {}  # What was allowed last on each message stream.

    def emit(self, event: events.ConnectionEvent) -> None:
        self.factory.events.publish(event)

    @property
    def client_host(self) -> str:
        """Not `host`, which may be a proxy's. A unix socket has none."""
        return str(getattr(self.transport and self.transport.getPeer(), "host", ""))

    def report_refusal(self, refusal: Refusal) -> None:
        """Report a refusal as an event, or count it for the next report."""
        self.factory.refusals.report(self.client_host, refusal)

    def now(self) -> float:
        return self._clock.seconds()

    @property
    def is_transport_full(self) -> bool:
        return self._transport_full

    # -- frames ----------------------------------------------------------------------------------------------

    @override
    def dataReceived(self, data: bytes) -> None:
        """Pass media straight to its live stream, and other reports to `handle`. This is the frame path."""
        if self._closing is not None:
            return
        now = self._clock.seconds()
        session = self.session
        reading = self._reading
        publications = self._publishing.publications
        unread = data
        try:
            while True:
                for report in session.receive_data(unread, now):
                    if type(report) is not MediaReceived:
                        self.handle(report, now)
                    elif (publication := publications.get(report.stream_id)) is not None and (
                        stream := publication.stream
                    ) is not None:
                        if self._bitrate is not None:
                            self.count_bitrate(report.frames, now)
                        stream.publish_frames(report.frames, now, 0.0 if reading is None else reading.waited)
                        # Codecs are shared values, so two comparisons of identity are enough.
                        if (
                            stream.video_codec is not publication.video_codec
                            or stream.audio_codec is not publication.audio_codec
                        ):
                            publication.report_codecs(stream, now)
                    if self.is_closing:
                        return
                if session.requests.awaited is not None or not session.channel.reader.held:
                    break
                # A publish has been answered at once: what the client sent after it is taken now.
                unread = b""
        except Exception:
            self.handling_failed(Failure())
            return
        if session.outgoing:
            self.flush()
        if publications:
            if reading is None:
                reading = self._reading = Reading(self.factory.reading_pace, self.transport)
            reading.note_read(len(data), *self._publishing.reading_pause())
        elif reading is not None:
            # The client does not publish any more: requests are answered at once.
            reading.note_read(len(data), 0.0, True)

    def count_bitrate(self, frames: Sequence[MediaFrame], now: float) -> None:
        """Raise `LimitExceededError` if the client publishes more than `max_publisher_kbps`."""
        if self._bitrate is not None:
            self._bitrate.spend(sum([len(frame.payload) for frame in frames]), now)

    @override
    def handle(self, report: SessionReport, now: float) -> None:
        match report:
            case HandshakeDone():
                self._handshake_done(report)
            case ConnectRequested():
                self._connecting.requested(report, now)
            case StreamCreated(stream_id):
                self._emit_once_more(
                    events.MessageStreamCreated(connection=self.connection_id, message_stream=stream_id)
                )
            case CommandNotUnderstood(name):
                self._emit_once_more(events.CommandIgnored(connection=self.connection_id, command=name))
            case PublishRequested():
                self._publishing.requested(report)
            case StreamNameRefused():
                self._publishing.name_refused(report)
            case PublishEnded(stream_id):
                self._publishing.ended_by_client(stream_id)
            case PlayRequested():
                self._playing.requested(report)
            case PlayPaused(stream_id, paused):
                self._playing.paused(stream_id, paused)
            case ReceptionChanged():
                self._playing.reception_changed(report)
            case PlayEnded(stream_id):
                self._playing.ended_by_client(stream_id)
            case MediaReceived():
                raise AssertionError("media goes straight to its stream")
            case ConnectAccepted() | PublishAccepted() | PlayAccepted() | StatusReceived():
                raise AssertionError("only the session of a client reports this")
            case _:
                assert_never(report)

    def _emit_once_more(self, event: events.ConnectionEvent) -> None:
        """Emit an event that a client can cause with a few bytes, unless it has caused too many."""
        self._small_events += 1
        if self._small_events <= _MOST_SMALL_EVENTS:
            self.emit(event)

    # -- the connection --------------------------------------------------------------------------------------

    @override
    def opened(self) -> None:
        self.emit(events.ConnectionOpened(connection=self.connection_id, peer=self.peer))

    @override
    def consumers(self) -> Iterable[RtmpPlayer]:
        return self._playing.players.values()

    @override
    def release_consumers(self) -> None:
        for player in self._playing.players.values():
            player.close()

    @override
    def pauseProducing(self) -> None:
        super().pauseProducing()
        self._playing.transport_full(self._clock.seconds())

    @override
    def resumeProducing(self) -> None:
        self._playing.transport_ready(self._clock.seconds())
        super().resumeProducing()

    @override
    def do_due_work(self, now: float) -> float:
        if now >= self._statistics_due:
            self._statistics_due = now + self.factory.settings.statistics_interval
            self._publishing.emit_statistics(now)
            self._playing.emit_statistics(now)
        return self._statistics_due

    @override
    def closed(self, reason: str) -> None:
        self.permissions.withdraw_all()
        self._connecting.cancel()
        self.goodbye.cancel()
        if self._reading is not None:
            self._reading.ended()
        self._publishing.connection_lost(reason)
        self._playing.connection_lost(reason)
        self.emit(
            events.ConnectionClosed(
                connection=self.connection_id,
                peer=self.peer,
                reason=reason,
                limit=self.limit_exceeded,
                duration=self._clock.seconds() - self._began,
                bytes_in=self.session.channel.bytes_received,
                bytes_out=self.bytes_out,
                broke_protocol=self._error is not None,
            )
        )
        # Last, because a caller that waits for the end expects all events to have come before.
        self.factory.forget(self)

    @property
    def is_cluster_node(self) -> bool:
        return self._connecting.is_cluster_node

    @property
    def relay_chain(self) -> tuple[str, ...]:
        """The relays that what the client publishes has come through."""
        return self._connecting.chain

    @property
    def publishes(self) -> bool:
        return bool(self._publishing.publications)

    @property
    def is_used(self) -> bool:
        """Whether the client publishes, plays or waits for a verdict."""
        return self.publishes or bool(self._playing.players) or self.permissions.is_pending

    def ask_to_reconnect(self) -> None:
        """Ask the client to connect anew, if it understands that; all others notice nothing."""
        if self._connecting.can_reconnect and not self.is_closing:
            self.session.request_reconnect("This server is about to stop")
            self.flush()

    def send_away(self) -> None:
        """Called by a drain."""
        self.shut_down()

    def end_plays(self, reason: str) -> bool:
        """End all plays of the client. Returns whether there were any."""
        playing = list(self._playing.players)
        for stream_id in playing:
            self._playing.end(stream_id, reason)
        return bool(playing)

    def granted(self) -> list[Granted]:
        """What the client was allowed and still does, each with what ends it for a reason."""
        return [
            (access, partial(self._end_granted, access, stream_id))
            for stream_id, access in self._granted.items()
            if self._publishing.has(stream_id) or self._playing.has(stream_id)
        ]

    def _end_granted(self, access: AccessRequest, stream_id: int, reason: str) -> None:
        part = self._publishing if self._publishing.has(stream_id) else self._playing
        if self._granted.get(stream_id) is access and part.has(stream_id):
            part.end(stream_id, reason)

    def shut_down(self) -> None:
        """Tell the client that the server stops, and close."""
        self._publishing.server_stops()
        self._playing.server_stops()
        self.close_politely("the server stops")

    # -- connecting ------------------------------------------------------------------------------------------

    def _handshake_done(self, report: HandshakeDone) -> None:
        # The address from the PROXY protocol becomes known only with the first bytes.
        address = self.transport.getPeer() if self.transport is not None else None
        if host_of(address) != self.host:
            proxy, self.host, self.peer = self.host, host_of(address), describe_address(address)
            self.factory.moved(self, proxy)
        form = "digest" if report.digest else "simple"
        self.emit(events.HandshakeCompleted(connection=self.connection_id, form=form))

    # -- permission ------------------------------------------------------------------------------------------

    def ask_permission(
        self,
        action: Action,
        request: _Request,
        allowed: Callable[[_Request, float], None],
        refused: Callable[[_Request, Verdict], None],
    ) -> None:
        """Ask the gate, and call `allowed` or `refused` with its verdict, at once or later."""
        access = AccessRequest(
            action=action,
            stream=str(request.key),
            host=self.client_host,
            connection=self.connection_id,
            protocol="rtmp",
            credentials=Credentials(without_login(request.credentials), self._connecting.user),
            chain=self._connecting.chain,
            is_cluster_node=self.is_cluster_node,
        )

        def decided(verdict: Verdict) -> None:
            # The client may have gone or withdrawn its request.
            if self.is_closing or not self.session.is_pending(request.request_id):
                return
            if verdict.allowed:
                if self.factory.settings.keeps_requests:
                    self._granted[request.stream_id] = access
                allowed(request, self._clock.seconds())
            else:
                refused(request, verdict)
            self.flush()
            self.unread.resume()

        self.permissions.ask(request.stream_id, access, decided)
        self.unread.pause_for(request.request_id)

    def reject(self, request_id: int, code: str, reason: str) -> None:
        """Refuse a request of the client."""
        self._was_rejected = True
        self.session.reject(request_id, code, reason)

    @override
    def handling_failed(self, failure: Failure) -> None:
        """A client that was refused may still be sending a frame. It is not cut off before it could read the reason."""
        error = failure.value
        if isinstance(error, CancelledError):
            return
        if (
            self._was_rejected
            and (isinstance(error, LimitExceededError) and error.limit in _FRAME_LIMITS)
            and not self._playing.players
        ):
            self.dataReceived = _discard  # type: ignore[method-assign]
            self.session.forget()
            self.goodbye.close_soon(str(error))
            return
        super().handling_failed(failure)

    @override
    def most_unread_replies(self) -> tuple[str, int]:
        if self.session.trust.may_publish:
            return super().most_unread_replies()
        return "unread_replies_before_publish", self._limits.unread_replies_before_publish
