"""The playing side of a server's connection: requests, permission, the publisher's absences and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override
from zope.interface import implementer

from rtmprelay import events
from rtmprelay.access.request import Action, Verdict, refused
from rtmprelay.errors import LimitExceededError
from rtmprelay.interfaces import IFrameSubscriber
from rtmprelay.rtmp.encoding import shared_encoder
from rtmprelay.session.reports import PlayRequested, ReceptionChanged
from rtmprelay.streams.accounting import PlayReport
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamNotFoundError
from rtmprelay.wire.commands import StatusCode

if TYPE_CHECKING:
    from rtmprelay.rtmp.server import RtmpServerProtocol


@implementer(IFrameSubscriber)
class RtmpPlayer(Consumer):
    """One `play` of a client: a consumer that also tells the client when the publisher leaves and returns."""

    audience = "rtmp"
    report: PlayReport

    def __init__(self, playing: Playing, request: PlayRequested, stream: LiveStream, now: float) -> None:
        connection = playing.connection
        settings = connection.factory.settings
        encoder = shared_encoder(settings.chunk_size, request.stream_id)
        super().__init__(connection.write_media, encoder, settings.queue)
        self.stream = stream
        self.report = PlayReport(connection.connection_id, str(request.key), self, now, connection.peer)
        self._playing = playing
        self._request = request
        # Whether the client has yet to be told that the publisher has left.
        self._end_unsent = False

    def publisher_left(self) -> None:
        """Tell the client that the publisher has left, after the queued media: many players stop when they are told."""
        self._end_unsent = True
        if not self.messages_queued:
            self.drained()

    @override
    def drained(self) -> None:
        if self._end_unsent:
            self._end_unsent = False
            self._playing.notify_unpublished(self._request)

    def publisher_returned(self) -> None:
        """Tell the client that the publisher is back."""
        if self._end_unsent:
            self._end_unsent = False
            self._playing.notify_unpublished(self._request)
        self._playing.notify_published(self._request)


class Playing:
    """The plays of one connection.

    Attributes:
        players: By message stream.
    """

    def __init__(self, connection: RtmpServerProtocol) -> None:
        self.connection = connection
        self.players: dict[int, RtmpPlayer] = {}

    def has(self, stream_id: int) -> bool:
        """Whether the client plays on this message stream."""
        return stream_id in self.players

    def requested(self, request: PlayRequested) -> None:
        """Ask the gate whether the client may play."""
        self.connection.ask_permission(Action.PLAY, request, self._allowed, self._refused)

    def _refused(self, request: PlayRequested, verdict: Verdict) -> None:
        self._reject(request, StatusCode.PLAY_FAILED, verdict.reason)
        self.connection.goodbye.request_refused(verdict.reason)

    def _reject(self, request: PlayRequested, code: str, reason: str) -> None:
        connection = self.connection
        connection.reject(request.request_id, code, reason)
        connection.report_refusal(
            events.PlayRefused(
                connection=connection.connection_id,
                stream=str(request.key),
                peer=connection.peer,
                reason=reason,
            )
        )

    def _allowed(self, request: PlayRequested, now: float) -> None:
        connection = self.connection
        key = str(request.key)
        try:
            stream = connection.factory.registry.watchable(key)
        except StreamNotFoundError as missing:
            self._reject(request, StatusCode.PLAY_STREAM_NOT_FOUND, str(missing))
            connection.goodbye.count_refusal()
            return
        except LimitExceededError as full:
            self._refused(request, refused(str(full)))
            return
        connection.session.accept(request.request_id)
        # The answer must arrive before the first frame.
        connection.flush()
        player = RtmpPlayer(self, request, stream, now)
        if connection.is_transport_full:
            player.transport_full()
        self.players[request.stream_id] = player
        connection.emit(events.PlayStarted(connection=connection.connection_id, stream=key))
        stream.subscribe(player)

    # -- requests during a play -------------------------------------------------------------------------------

    def paused(self, stream_id: int, paused: bool) -> None:
        """Stop or resume sending media, as the client asks."""
        self.players[stream_id].hold(paused)

    def reception_changed(self, change: ReceptionChanged) -> None:
        """Send one kind of media or leave it out, as the client asks."""
        player = self.players.get(change.stream_id)
        if player is not None:
            player.want(change.kind, change.wanted)

    def ended_by_client(self, stream_id: int) -> None:
        """Called when the client stopped or withdrew its request."""
        self.connection.permissions.withdraw(stream_id)
        self._end(stream_id, "the viewer stopped")

    # -- notices to the client -------------------------------------------------------------------------------

    def notify_unpublished(self, request: PlayRequested) -> None:
        self.connection.session.notify_unpublished(request.stream_id, request.key)
        self.connection.flush()

    def notify_published(self, request: PlayRequested) -> None:
        self.connection.session.notify_published(request.stream_id, request.key)
        self.connection.flush()

    # -- back-pressure and time ------------------------------------------------------------------------------

    def transport_full(self, now: float) -> None:
        """Begin a stall in the account of each play."""
        for player in self.players.values():
            player.report.stalls.transport_full(now)

    def transport_ready(self, now: float) -> None:
        """End the stall in the account of each play."""
        for player in self.players.values():
            player.report.stalls.transport_ready(now)

    def emit_statistics(self, now: float) -> None:
        """Emit an event for each play with what was delivered since the previous one."""
        for player in self.players.values():
            self.connection.emit(player.report.statistics(now))

    # -- the end ---------------------------------------------------------------------------------------------

    def server_stops(self) -> None:
        """End all plays, and tell the client that the publisher has left."""
        for stream_id, player in list(self.players.items()):
            if player.stream.publisher is not None:
                player.publisher_left()
            self._end(stream_id, "the server stops")

    def end(self, stream_id: int, reason: str) -> None:
        """End a play for the operator, or because it is not allowed any more."""
        self.connection.session.end_stream(stream_id, "error", StatusCode.PLAY_FAILED, reason)
        self._end(stream_id, reason)
        self.connection.goodbye.close_soon(reason)

    def connection_lost(self, reason: str) -> None:
        """End all plays because the client is gone."""
        for stream_id in list(self.players):
            self._end(stream_id, reason)

    def _end(self, stream_id: int, reason: str) -> None:
        player = self.players.pop(stream_id, None)
        if player is not None:
            player.close()
            self.connection.factory.registry.leave(player.stream, player)
            self.connection.emit(player.report.stopped(self.connection.now(), reason))
