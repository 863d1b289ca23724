"""What one RTMP connection plays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override
from zope.interface import implementer

from rtmprelay import events
from rtmprelay.access.request import Action
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
class Player(Consumer):
    """One `play`: a consumer that tells its client when the publisher goes and returns."""

    audience = "rtmp"

    def __init__(self, playing: Playing, request: PlayRequested, stream: LiveStream, now: float) -> None:
        connection = playing.connection
        settings = connection.factory.settings
        encoder = shared_encoder(settings.chunk_size, request.stream_id)
        super().__init__(connection.write_media, encoder, settings.queue)
        self.stream = stream
        self.report = PlayReport(connection.connection_id, str(request.key), self, now)
        self._playing = playing
        self._request = request
        # Whether the client is still to be told that the publisher is gone.
        self._owes_end = False

    def publisher_left(self) -> None:
        """Tell the client that no media comes for now; after what is still queued, since many players stop there."""
        self._owes_end = True
        if not self.messages_queued:
            self.drained()

    @override
    def drained(self) -> None:
        if self._owes_end:
            self._owes_end = False
            self._playing.tell_unpublished(self._request)

    def publisher_returned(self) -> None:
        """Tell the client that media comes again."""
        if self._owes_end:
            self._owes_end = False
            self._playing.tell_unpublished(self._request)
        self._playing.tell_published(self._request)


class Playing:
    """All that one connection plays: requests, verdicts and ends.

    Attributes:
        players: By message stream.
    """

    def __init__(self, connection: RtmpServerProtocol) -> None:
        self.connection = connection
        self.players: dict[int, Player] = {}

    def requested(self, request: PlayRequested) -> None:
        """The client asks to play."""
        self.connection.ask_permission(Action.PLAY, request, self._allowed, self._refused)

    def _refused(self, request: PlayRequested, reason: str) -> None:
        self._reject(request, StatusCode.PLAY_FAILED, reason)
        self.connection.was_refused(reason)

    def _reject(self, request: PlayRequested, code: str, reason: str) -> None:
        connection = self.connection
        connection.session.reject(request.request_id, code, reason)
        connection.tell(
            events.PlayRefused(connection=connection.connection_id, stream=str(request.key), reason=reason)
        )

    def _allowed(self, request: PlayRequested, now: float) -> None:
        connection = self.connection
        key = str(request.key)
        try:
            stream = connection.factory.registry.watchable(key)
        except StreamNotFoundError as missing:
            self._reject(request, StatusCode.PLAY_STREAM_NOT_FOUND, str(missing))
            return
        except LimitExceededError as full:
            self._refused(request, str(full))
            return
        connection.session.accept(request.request_id)
        # The client must be told that the play starts before the first frame comes.
        connection.flush()
        player = Player(self, request, stream, now)
        if connection.is_transport_full:
            player.transport_full()
        self.players[request.stream_id] = player
        connection.tell(events.PlayStarted(connection=connection.connection_id, stream=key))
        stream.subscribe(player)

    # -- what the client wants -------------------------------------------------------------------------------

    def paused(self, stream_id: int, paused: bool) -> None:
        """The client pauses or resumes."""
        self.players[stream_id].hold(paused)

    def reception_changed(self, change: ReceptionChanged) -> None:
        """The client does or does not want one kind of media."""
        player = self.players.get(change.stream_id)
        if player is not None:
            player.want(change.kind, change.wanted)

    def ended_by_client(self, stream_id: int) -> None:
        """The client stopped, or withdrew its request."""
        self.connection.permissions.withdraw(stream_id)
        self._end(stream_id, "the viewer stopped")

    # -- what the client is told -----------------------------------------------------------------------------

    def tell_unpublished(self, request: PlayRequested) -> None:
        """Tell the client that the publisher of what it plays is gone."""
        self.connection.session.notify_unpublished(request.stream_id, request.key)
        self.connection.flush()

    def tell_published(self, request: PlayRequested) -> None:
        """Tell the client that the publisher of what it plays is back."""
        self.connection.session.notify_published(request.stream_id, request.key)
        self.connection.flush()

    # -- back-pressure and time ------------------------------------------------------------------------------

    def transport_full(self, now: float) -> None:
        """The transport's buffer is full."""
        for player in self.players.values():
            player.report.stalls.transport_full(now)

    def transport_ready(self, now: float) -> None:
        """The transport's buffer is empty."""
        for player in self.players.values():
            player.report.stalls.transport_ready(now)

    def tell_statistics(self, now: float) -> None:
        """Report what was delivered since the last statistics."""
        for player in self.players.values():
            self.connection.tell(player.report.statistics(now))

    # -- the end ---------------------------------------------------------------------------------------------

    def server_stops(self) -> None:
        """End every play, and tell the client that nothing more comes."""
        for stream_id, player in list(self.players.items()):
            if player.stream.publisher is not None:
                player.publisher_left()
            self._end(stream_id, "the server stops")

    def connection_lost(self, reason: str) -> None:
        """The client is gone."""
        for stream_id in list(self.players):
            self._end(stream_id, reason)

    def _end(self, stream_id: int, reason: str) -> None:
        player = self.players.pop(stream_id, None)
        if player is not None:
            player.close()
            self.connection.factory.registry.leave(player.stream, player)
            self.connection.tell(player.report.stopped(self.connection.now(), reason))
