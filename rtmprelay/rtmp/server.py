"""The RTMP server on Twisted: the protocol of one connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar, assert_never

from twisted.internet.interfaces import IAddress, IDelayedCall
from twisted.python.failure import Failure
from typing_extensions import override

from rtmprelay import events
from rtmprelay.access.request import AccessRequest, Action, Credentials, Verdict
from rtmprelay.media import MediaFrame
from rtmprelay.rtmp.addresses import describe_address, host_of
from rtmprelay.rtmp.connection import RtmpConnection
from rtmprelay.rtmp.node_pass import NodePass, NodeRefusedError
from rtmprelay.rtmp.permission import Permissions
from rtmprelay.rtmp.playing import Player, Playing
from rtmprelay.rtmp.publishing import Publishing
from rtmprelay.rtmp.reading_pace import Reading
from rtmprelay.session.adobe import LoginRefused, without_login
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
)
from rtmprelay.session.server import ServerSession
from rtmprelay.session.timeouts import RateLimit
from rtmprelay.wire.commands import StatusCode

if TYPE_CHECKING:
    from rtmprelay.rtmp.server_factory import RtmpServerFactory

#: Seconds between a refusal and the close, for the client to read the reason.
_TIME_TO_READ_REFUSAL = 1.0

#: Refused requests of one connection: a client with more of them is guessing keys.
_MOST_REFUSALS = 10

_Request = TypeVar("_Request", PublishRequested, PlayRequested)


class RtmpServerProtocol(RtmpConnection[ServerSession]):
    """The connection of one client, which may publish, play, or both.

    Bytes and time are handled in `RtmpConnection`, publishing in `Publishing`, playing in `Playing`. This class passes
    the reports of the session to the one that they are for.
    """

    factory: RtmpServerFactory

    def __init__(self, factory: RtmpServerFactory, connection_id: str, address: IAddress | None) -> None:
        settings = factory.settings
        now = factory.clock.seconds()
        session = ServerSession(now, settings.limits, settings.chunk_size)
        super().__init__(session, factory.clock, settings.limits, connection_id)
        self.factory = factory
        self.host = host_of(address)
        self.counts_as_unconnected = True
        self.peer = describe_address(address)
        # A failure after a verdict may be the client's: media that came before the verdict may exceed a limit.
        self.permissions = Permissions(factory.gate, self.handling_failed)
        self._publishing = Publishing(self)
        self._playing = Playing(self)
        self._began = now
        self._statistics_due = now + settings.statistics_interval
        self._close_timer: IDelayedCall | None = None
        self._reading: Reading | None = None
        most = settings.max_publisher_kbps
        self._bitrate = None if most is None else RateLimit("max_publisher_kbps", most * 125, now)
        # The user whose password the `connect` has proved.
        self._user: str | None = None
        # What the client has shown, if it is another relay.
        self._node: NodePass | None = None
        self._can_reconnect = False
        self._refusals = 0

    def emit(self, event: events.ConnectionEvent) -> None:
        self.factory.events.publish(event)

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
        reading = self._reading
        publications = self._publishing.publications
        try:
            for report in self.session.receive_data(data, now):
                if type(report) is not MediaReceived:
                    self.handle(report, now)
                elif (publication := publications.get(report.stream_id)) is None:
                    self.permissions.keep_early(report.stream_id, report.frames, self.transport)
                elif (stream := publication.stream) is not None:
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
        except Exception:
            self.handling_failed(Failure())
            return
        if self.session.outgoing:
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
                self._connect_requested(report, now)
            case StreamCreated(stream_id):
                self.emit(
                    events.MessageStreamCreated(connection=self.connection_id, message_stream=stream_id)
                )
            case CommandNotUnderstood(name):
                self.emit(events.CommandIgnored(connection=self.connection_id, command=name))
            case PublishRequested():
                self._publishing.requested(report)
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

    # -- the connection --------------------------------------------------------------------------------------

    @override
    def opened(self) -> None:
        self.emit(events.ConnectionOpened(connection=self.connection_id, peer=self.peer))

    @override
    def consumers(self) -> Iterable[Player]:
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
        if self._close_timer is not None:
            self._close_timer.cancel()
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
            )
        )
        # Last, because a caller that waits for the end expects all events to have come before.
        self.factory.forget(self)

    @property
    def is_cluster_node(self) -> bool:
        """Whether the client is a node of the cluster."""
        return self._node is not None and self._node.is_proved

    @property
    def publishes(self) -> bool:
        """Whether the client publishes now."""
        return bool(self._publishing.publications)

    def ask_to_reconnect(self) -> None:
        """Ask the client to connect anew, if it understands that; all others notice nothing."""
        if self._can_reconnect and not self.is_closing:
            self.session.request_reconnect("This server is about to stop")
            self.flush()

    def send_away(self) -> None:
        """End the connection with a word of goodbye."""
        self.shut_down()

    def shut_down(self) -> None:
        """Tell the client that the server stops, and close."""
        self._publishing.server_stops()
        self._playing.server_stops()
        self.close_politely("the server stops")

    # -- connecting ------------------------------------------------------------------------------------------

    def _handshake_done(self, report: HandshakeDone) -> None:
        self._note_proxy()
        form = "digest" if report.digest else "simple"
        self.emit(events.HandshakeCompleted(connection=self.connection_id, form=form))

    def _note_proxy(self) -> None:
        """Take the address from the PROXY protocol, which becomes known only with the first bytes."""
        address = self.transport.getPeer() if self.transport is not None else None
        if host_of(address) != self.host:
            self.factory.note_proxy(self.host)
            self.peer = describe_address(address)

    def _connect_requested(self, request: ConnectRequested, now: float) -> None:
        self._can_reconnect = request.can_reconnect
        if request.node_pass:
            try:
                self._node = self.factory.node.check(request.node_pass)
            except NodeRefusedError as refused:
                self._refuse_connect(request, str(refused), str(refused))
                return
        if self._node is not None and self._node.notice:
            self._take_notice(request, self._node)
            return
        if not self.is_cluster_node and not self._log_in(request, now):
            return
        self.session.accept(request.request_id)
        self.factory.has_connected(self)
        self.emit(
            events.ClientConnected(
                connection=self.connection_id, peer=self.peer, app=request.app, client=request.client
            )
        )

    def _take_notice(self, request: ConnectRequested, node: NodePass) -> None:
        """Another node tells something, or asks: accepting its `connect` means yes."""

        def answered(refusal: str | None) -> None:
            if self.is_closing:
                return
            if refusal is None:
                self.session.accept(request.request_id)
            else:
                self.session.reject(request.request_id, StatusCode.CONNECT_REJECTED, refusal)
            self.close_soon("a notice of another node")
            self.flush()

        self.factory.take_notice(node).addCallback(answered).addErrback(self.handling_failed)

    def _log_in(self, request: ConnectRequested, now: float) -> bool:
        """Whether the client may connect; if not, it is told why."""
        login = self.factory.logins.check(request.app, request.credentials, now)
        if isinstance(login, LoginRefused):
            reason = "the user or the password is wrong" if login.wrong else "it was asked for a user"
            self._refuse_connect(request, login.description, reason, is_told=login.wrong)
            return False
        if login is not None:
            self._user = login.user
        return True

    def _refuse_connect(
        self, request: ConnectRequested, description: str, reason: str, is_told: bool = True
    ) -> None:
        self.session.reject(request.request_id, StatusCode.CONNECT_REJECTED, description)
        if is_told:
            self.emit(events.ConnectRefused(connection=self.connection_id, app=request.app, reason=reason))
        self.close_soon(reason)

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
            # Not `self.host`, which may be a proxy's. A unix socket has no host.
            host=str(getattr(self.transport and self.transport.getPeer(), "host", "")),
            connection=self.connection_id,
            protocol="rtmp",
            credentials=Credentials(without_login(request.credentials), self._user),
            chain=() if self._node is None else self._node.chain,
            is_cluster_node=self.is_cluster_node,
        )

        def decided(verdict: Verdict) -> None:
            # The client may have gone or withdrawn its request.
            if self.is_closing or not self.session.is_pending(request.request_id):
                return
            if verdict.allowed:
                allowed(request, self._clock.seconds())
            else:
                refused(request, verdict)
            self.flush()

        self.permissions.ask(request.stream_id, access, decided)

    # -- closing ---------------------------------------------------------------------------------------------

    def request_refused(self, reason: str) -> None:
        """Close a client that was refused, unless it also publishes or plays. Most clients close by themselves."""
        self._refusals += 1
        if self._refusals > _MOST_REFUSALS:
            self.close_politely(f"it was refused {self._refusals} times")
        else:
            self.close_soon(reason)

    def close_soon(self, reason: str) -> None:
        """Close in a moment. A client that is cut off while it sends never reads the reason of the refusal."""
        self.flush()
        if self._close_timer is None:
            self._close_timer = self._clock.callLater(_TIME_TO_READ_REFUSAL, self.close_unless_used, reason)

    def close_unless_used(self, reason: str) -> None:
        """Close, unless the client publishes, plays or waits for a verdict."""
        self._close_timer = None
        if self._publishing.publications or self._playing.players or self.permissions.is_pending:
            self.flush()
        else:
            self.close_politely(reason)
