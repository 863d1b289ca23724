"""The RTMP server on Twisted: the protocol of a connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from twisted.internet.interfaces import IAddress, IDelayedCall
from twisted.python.failure import Failure
from typing_extensions import override

from rtmprelay import events
from rtmprelay.access.request import AccessRequest, Action, Credentials, Verdict
from rtmprelay.errors import LimitExceededError, RemoteProtocolError
from rtmprelay.event_bus import EventBus
from rtmprelay.rtmp.addresses import describe_address, host_of
from rtmprelay.rtmp.asking import Asking
from rtmprelay.rtmp.connection import RtmpConnection
from rtmprelay.rtmp.playing import Player
from rtmprelay.rtmp.publishing import Publication
from rtmprelay.rtmp.reading_pace import Reading
from rtmprelay.session.adobe import LoginRefused, without_login
from rtmprelay.session.reports import (
    CommandNotUnderstood,
    ConnectRequested,
    HandshakeDone,
    MediaReceived,
    PlayEnded,
    PlayPaused,
    PlayRequested,
    PublishEnded,
    PublishRequested,
    ReceptionChanged,
    SessionReport,
    StreamCreated,
)
from rtmprelay.session.server import ServerSession
from rtmprelay.session.timeouts import RateLimit
from rtmprelay.streams.registry import StreamBusyError, StreamNotFoundError
from rtmprelay.wire.commands import StatusCode
from rtmprelay.wire.names import StreamKey

if TYPE_CHECKING:
    from rtmprelay.rtmp.server_factory import RtmpServerFactory

#: Seconds that an encoder has to read why it is sent away.
_FAREWELL = 1.0

#: Wishes of one connection that may be refused: whoever has more of them tries keys out.
_MOST_REFUSALS = 10


_Wish = TypeVar("_Wish", PublishRequested, PlayRequested)


class RtmpServerProtocol(RtmpConnection):
    """One client: an encoder that publishes, a player, or both."""

    factory: RtmpServerFactory

    def __init__(self, factory: RtmpServerFactory, connection_id: str, address: IAddress | None) -> None:
        settings = factory.settings
        now = factory.clock.seconds()
        self._session = ServerSession(now, settings.limits, settings.chunk_size)
        super().__init__(self._session, factory.clock, settings.limits, connection_id)
        self.factory = factory
        self.chunk_size = settings.chunk_size
        self.queue_limits = settings.queue
        self.host = host_of(address)
        self.counts_as_unconnected = True
        self.peer = describe_address(address)
        self._began = now
        self._statistics_due = now + settings.statistics_interval
        self._publications: dict[int, Publication] = {}
        self._players: dict[int, Player] = {}
        self._farewell: IDelayedCall | None = None
        self._reading: Reading | None = None
        most = settings.max_publisher_kbps
        self._bitrate = None if most is None else RateLimit("max_publisher_kbps", most * 125, now)
        # Who showed with the `connect` that they know their password.
        self._user: str | None = None
        self._asking = Asking(factory.gate, self._judging_failed)
        self._refusals = 0

    @property
    def event_bus(self) -> EventBus:
        """Whom to tell what happens."""
        return self.factory.events

    @property
    def reading_pause(self) -> float:
        """The seconds that what comes in may have been left in the socket."""
        return self._reading.pause if self._reading is not None else 0.0

    def _tell(self, event: events.ConnectionEvent) -> None:
        self.factory.events.publish(event)

    # -- the connection --------------------------------------------------------------------------------------

    @override
    def opened(self) -> None:
        self._tell(events.ConnectionOpened(connection=self.connection_id, peer=self.peer))

    @override
    def dataReceived(self, data: bytes) -> None:
        super().dataReceived(data)
        if self._publications and not self.is_closing:
            if self._reading is None:
                self._reading = Reading(self.factory.reading_pace, self.transport)
            hurry = min(publication.hurry for publication in self._publications.values())
            self._reading.took(len(data), *hurry)
        elif self._reading is not None:
            # It publishes nothing any more: what it asks for is answered at once.
            self._reading.took(len(data), 0.0, True)

    @override
    def handle(self, event: SessionReport, now: float) -> None:
        _HANDLERS[type(event)](self, event, now)

    @override
    def consumers(self) -> Iterable[Player]:
        return self._players.values()

    @override
    def release_consumers(self) -> None:
        for player in self._players.values():
            player.close()

    @override
    def pauseProducing(self) -> None:
        super().pauseProducing()
        now = self._clock.seconds()
        for player in self._players.values():
            player.stalls.transport_full(now)

    @override
    def resumeProducing(self) -> None:
        now = self._clock.seconds()
        for player in self._players.values():
            player.stalls.transport_ready(now)
        super().resumeProducing()

    @override
    def looked(self, now: float) -> float:
        if now >= self._statistics_due:
            self._statistics_due = now + self.factory.settings.statistics_interval
            for publication in self._publications.values():
                self._tell(publication.statistics(now))
            for player in self._players.values():
                self._tell(player.statistics(now))
        return self._statistics_due

    @override
    def closed(self, reason: str) -> None:
        self._asking.take_all_back()
        if self._farewell is not None:
            self._farewell.cancel()
        if self._reading is not None:
            self._reading.ended()
        for stream_id in list(self._publications):
            self._end_publication(stream_id, f"the connection was lost ({reason})", clean=False)
        for stream_id in list(self._players):
            self._end_player(stream_id, reason)
        self._tell(
            events.ConnectionClosed(
                connection=self.connection_id,
                peer=self.peer,
                reason=reason,
                limit=self.limit_exceeded,
                duration=self._clock.seconds() - self._began,
                bytes_in=self._session.channel.bytes_received,
                bytes_out=self.bytes_out,
            )
        )
        # Last: whoever waits for the end is to have heard everything.
        self.factory.forget(self)

    def shut_down(self) -> None:
        """The server stops: tell the client, and close."""
        for stream_id in list(self._publications):
            self._session.end_stream(stream_id, "status", StatusCode.UNPUBLISH_SUCCESS, "The server stops")
            self._end_publication(stream_id, "the server stops", clean=True)
        for stream_id, player in list(self._players.items()):
            if player.stream.publisher is not None:
                player.publisher_left()
            self._end_player(stream_id, "the server stops")
        self.close_politely("the server stops")

    # -- what the client asks --------------------------------------------------------------------------------

    def _on_handshake(self, event: HandshakeDone, now: float) -> None:
        self._notice_proxy()
        form = "digest" if event.digest else "simple"
        self._tell(events.HandshakeCompleted(connection=self.connection_id, form=form))

    def _notice_proxy(self) -> None:
        """Behind the PROXY protocol, who the peer is becomes known only with its first bytes."""
        address = self.transport.getPeer() if self.transport is not None else None
        if host_of(address) != self.host:
            self.factory.came_through(self.host)
            self.peer = describe_address(address)

    def _on_connect(self, event: ConnectRequested, now: float) -> None:
        login = self.factory.login_desk.judge(event.app, event.credentials, now)
        if isinstance(login, LoginRefused):
            self._refuse_login(event, login)
            return
        if login is not None:
            self._user = login.user
        self._session.accept(event.request_id)
        self.factory.has_connected(self)
        self._tell(
            events.ClientConnected(
                connection=self.connection_id, peer=self.peer, app=event.app, client=event.client
            )
        )

    def _refuse_login(self, event: ConnectRequested, login: LoginRefused) -> None:
        self._session.reject(event.request_id, StatusCode.CONNECT_REJECTED, login.description)
        reason = "the user or the password is wrong" if login.wrong else "it was asked for a user"
        if login.wrong:
            self._tell(events.ConnectRefused(connection=self.connection_id, app=event.app, reason=reason))
        self._part_soon(reason)

    def _on_stream_created(self, event: StreamCreated, now: float) -> None:
        self._tell(events.MessageStreamCreated(connection=self.connection_id, message_stream=event.stream_id))

    def _on_not_understood(self, event: CommandNotUnderstood, now: float) -> None:
        self._tell(events.CommandIgnored(connection=self.connection_id, command=event.name))

    # -- asking whether it may ---------------------------------------------------------------------------------

    def _ask(
        self,
        action: Action,
        event: _Wish,
        allowed: Callable[[_Wish], None],
        not_allowed: Callable[[_Wish, str], None],
    ) -> None:
        """Do what a client wants if the gate lets it through, now or when it has made up its mind."""
        request = AccessRequest(
            action=action,
            stream=str(event.key),
            # Not the host that was seen first: that may be a proxy's. A unix socket has none.
            host=str(getattr(self.transport and self.transport.getPeer(), "host", "")),
            connection=self.connection_id,
            protocol="rtmp",
            credentials=Credentials(without_login(event.credentials), self._user),
        )
        self._asking.ask(
            event.stream_id, request, lambda verdict: self._judged(verdict, event, allowed, not_allowed)
        )

    def _judged(
        self,
        verdict: Verdict,
        event: _Wish,
        allowed: Callable[[_Wish], None],
        not_allowed: Callable[[_Wish, str], None],
    ) -> None:
        # The client may have gone, or taken the wish back.
        if self.is_closing or not self._session.is_pending(event.request_id):
            return
        if verdict.allowed:
            allowed(event)
        else:
            not_allowed(event, verdict.reason)
        self.flush()

    def _judging_failed(self, failure: Failure) -> None:
        if isinstance(failure.value, RemoteProtocolError):
            # What the client sent meanwhile was too much.
            self._abort(failure.value)
            return
        self._log.failure(
            "A bug in handling {connection}: it is closed", failure, connection=self.connection_id
        )
        self.close_now("an internal error")

    def _wish_refused(self, reason: str) -> None:
        """Clients close when they are refused; one that does not, and has nothing else to do here, is closed."""
        self._refusals += 1
        if self._refusals > _MOST_REFUSALS:
            self.close_politely(f"it was refused {self._refusals} times")
        else:
            self._part_soon(reason)

    def _part_soon(self, reason: str) -> None:
        """Close in a moment. A client that is cut off in the middle of what it sends reports that, and never reads why."""
        self.flush()
        if self._farewell is None:
            self._farewell = self._clock.callLater(_FAREWELL, self._close_unless_used, reason)

    # -- publishing ------------------------------------------------------------------------------------------

    def _on_publish(self, event: PublishRequested, now: float) -> None:
        self._ask(Action.PUBLISH, event, self._publish_allowed, self._publish_refused)

    def _publish_refused(self, event: PublishRequested, reason: str) -> None:
        self._session.reject(event.request_id, StatusCode.PUBLISH_DENIED, reason)
        self._tell(events.PublishRefused(connection=self.connection_id, stream=str(event.key), reason=reason))
        self._wish_refused(reason)

    def _publish_allowed(self, event: PublishRequested) -> None:
        now = self._clock.seconds()
        key = str(event.key)
        stream_id = event.stream_id
        publication = Publication(self, stream_id, key, now)
        self._publications[stream_id] = publication
        try:
            publication.stream = self.factory.registry.publish(key, publication, now)
        except StreamBusyError as busy:
            del self._publications[stream_id]
            self._session.reject(event.request_id, StatusCode.PUBLISH_BAD_NAME, str(busy))
            self._tell(events.PublishRefused(connection=self.connection_id, stream=key, reason=str(busy)))
            return
        self._session.accept(event.request_id)
        self._tell(events.PublishStarted(connection=self.connection_id, stream=key))
        early = self._asking.take_early(stream_id)
        if early:
            self._on_media(MediaReceived(stream_id, early), now)

    def _on_media(self, event: MediaReceived, now: float) -> None:
        publication = self._publications.get(event.stream_id)
        if publication is not None:
            if self._bitrate is not None:
                self._bitrate.spend(sum(len(frame.payload) for frame in event.frames), now)
            publication.frames_received(event.frames, now)
        else:
            self._asking.keep(event.stream_id, event.frames, self.transport)

    def _on_publish_stopped(self, event: PublishEnded, now: float) -> None:
        self._asking.take_back(event.stream_id)
        self._end_publication(event.stream_id, "the publisher ended it", clean=True)

    def publish_superseded(self, stream_id: int) -> None:
        """Another publisher took over; this one may not be dead after all."""
        reason = "another publisher took over because this one was silent"
        self._session.end_stream(stream_id, "error", StatusCode.PUBLISH_BAD_NAME, reason)
        self._end_publication(stream_id, reason, clean=False)
        self._close_unless_used(reason)

    def end_publish(self, stream_id: int, reason: str) -> None:
        """End a publish from our side. It is meant, so destinations do not wait for its return."""
        self._session.end_stream(stream_id, "error", StatusCode.PUBLISH_DENIED, reason)
        self._end_publication(stream_id, reason, clean=True)
        self._part_soon(reason)

    def _close_unless_used(self, reason: str) -> None:
        self._farewell = None
        if self._publications or self._players or self._asking.is_busy:
            # The rest of what the client does goes on.
            self.flush()
        else:
            self.close_politely(reason)

    def _end_publication(self, stream_id: int, reason: str, clean: bool) -> None:
        publication = self._publications.pop(stream_id, None)
        if publication is not None and publication.stream is not None:
            self._tell(publication.stopped(reason, clean, self._clock.seconds()))
            self.factory.registry.unpublish(publication.stream, publication, clean)

    # -- playing ---------------------------------------------------------------------------------------------

    def _on_play(self, event: PlayRequested, now: float) -> None:
        self._ask(Action.PLAY, event, self._play_allowed, self._play_refused)

    def _play_refused(self, event: PlayRequested, reason: str) -> None:
        self._session.reject(event.request_id, StatusCode.PLAY_FAILED, reason)
        self._tell(events.PlayRefused(connection=self.connection_id, stream=str(event.key), reason=reason))
        self._wish_refused(reason)

    def _play_allowed(self, event: PlayRequested) -> None:
        now = self._clock.seconds()
        key = str(event.key)
        try:
            stream = self.factory.registry.watchable(key)
        except StreamNotFoundError as missing:
            self._session.reject(event.request_id, StatusCode.PLAY_STREAM_NOT_FOUND, str(missing))
            self._tell(events.PlayRefused(connection=self.connection_id, stream=key, reason=str(missing)))
            return
        except LimitExceededError as full:
            self._play_refused(event, str(full))
            return
        self._session.accept(event.request_id)
        # The client must hear that the play starts before the first frame comes.
        self.flush()
        player = Player(self, event.stream_id, event.key, stream, now)
        if self._transport_full:
            player.transport_full()
        self._players[event.stream_id] = player
        self._tell(events.PlayStarted(connection=self.connection_id, stream=key))
        stream.subscribe(player)

    def _on_play_stopped(self, event: PlayEnded, now: float) -> None:
        self._asking.take_back(event.stream_id)
        self._end_player(event.stream_id, "the viewer stopped")

    def _end_player(self, stream_id: int, reason: str) -> None:
        player = self._players.pop(stream_id, None)
        if player is not None:
            player.close()
            self.factory.registry.leave(player.stream, player)
            self._tell(player.stopped(self._clock.seconds(), reason))

    def _on_paused(self, event: PlayPaused, now: float) -> None:
        self._players[event.stream_id].hold(event.paused)

    def _on_reception(self, event: ReceptionChanged, now: float) -> None:
        player = self._players.get(event.stream_id)
        if player is not None:
            player.want(event.kind, event.wanted)

    def tell_unpublished(self, stream_id: int, key: StreamKey) -> None:
        """Tell the client that the publisher of what it plays has gone."""
        self._session.notify_unpublished(stream_id, key)
        self.flush()

    def tell_published(self, stream_id: int, key: StreamKey) -> None:
        """Tell the client that the publisher of what it plays is back."""
        self._session.notify_published(stream_id, key)
        self.flush()


#: What each report of a session leads to.
_HANDLERS: dict[type[Any], Callable[[RtmpServerProtocol, Any, float], None]] = {
    HandshakeDone: RtmpServerProtocol._on_handshake,
    ConnectRequested: RtmpServerProtocol._on_connect,
    StreamCreated: RtmpServerProtocol._on_stream_created,
    CommandNotUnderstood: RtmpServerProtocol._on_not_understood,
    PublishRequested: RtmpServerProtocol._on_publish,
    MediaReceived: RtmpServerProtocol._on_media,
    PublishEnded: RtmpServerProtocol._on_publish_stopped,
    PlayRequested: RtmpServerProtocol._on_play,
    PlayEnded: RtmpServerProtocol._on_play_stopped,
    PlayPaused: RtmpServerProtocol._on_paused,
    ReceptionChanged: RtmpServerProtocol._on_reception,
}
