"""All live streams of a server, by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from twisted.logger import Logger

from rtmprelay.errors import LimitExceededError, RtmpRelayError
from rtmprelay.interfaces import IFrameSubscriber, IStreamObserver, IStreamPublisher
from rtmprelay.streams.accounting import AudienceAccount
from rtmprelay.streams.consumer import Player, players
from rtmprelay.streams.limits import StreamLimits
from rtmprelay.streams.live_stream import LiveStream, StreamCounters, StreamOrigin
from rtmprelay.streams.merging import Merging


class StreamBusyError(RtmpRelayError):
    """Somebody publishes this stream already."""


class StreamNotFoundError(RtmpRelayError):
    """Nobody publishes this stream."""


class StreamRegistry:
    """Knows which streams there are, and who may publish. Streams that nobody uses are forgotten."""

    _log = Logger()

    def __init__(self, limits: StreamLimits | None = None, merging: Merging | None = None) -> None:
        """Args:
        merging: How frames are joined under load; without it nothing ever waits.
        """
        self._limits = limits or StreamLimits()
        self._merging = merging
        #: How many players were refused because a stream had too many.
        self.players_refused = 0
        self._streams: dict[str, LiveStream] = {}
        self._observers: list[IStreamObserver] = []
        #: What publishers that have left sent, and what players that have left got: totals never go down.
        self.received = StreamCounters()
        self.departed = AudienceAccount()

    def add_observer(self, observer: IStreamObserver) -> None:
        """Notify this observer of streams that begin and end."""
        self._observers.append(observer)

    def __iter__(self) -> Iterator[LiveStream]:
        return iter(list(self._streams.values()))

    def __len__(self) -> int:
        return len(self._streams)

    def get(self, key: str) -> LiveStream | None:
        """The stream of this key, if there is one."""
        return self._streams.get(key)

    def publish(
        self,
        key: str,
        publisher: IStreamPublisher,
        now: float,
        origin: StreamOrigin = StreamOrigin.PUBLISHED,
    ) -> LiveStream:
        """Make this the publisher of a stream, in place of one that has gone silent."""
        stream = self._streams.get(key)
        if stream is None:
            stream = LiveStream(key, self._limits, self._merging)
        elif (
            stream.publisher is not None
            and stream.origin is StreamOrigin.CLUSTER
            and origin is not stream.origin
        ):
            # It was fetched from another node until now. Its viewers go on without noticing.
            fetched = stream.publisher
            self.received.add(stream.counters)
            stream.publisher_replaced(publisher, now)
            stream.origin = origin
            fetched.publish_superseded()
            for observer in self._observers:
                self._notify(observer.stream_started, stream)
            return stream
        elif stream.publisher is not None:
            if not stream.is_silent(now):
                raise StreamBusyError(f"{key} has a publisher already ({stream.publisher.connection_id})")
            silent = stream.publisher
            self._stop(stream, clean=False)
            silent.publish_superseded()
        self._streams[key] = stream
        stream.origin = origin
        stream.publisher_joined(publisher, now)
        for observer in self._observers:
            self._notify(observer.stream_started, stream)
        return stream

    def unpublish(self, stream: LiveStream, publisher: IStreamPublisher, clean: bool) -> None:
        """The publisher has gone, on purpose or not. Nothing happens for one that was superseded."""
        if stream.publisher is publisher:
            self._stop(stream, clean)
            self._forget_if_unused(stream)

    def _stop(self, stream: LiveStream, clean: bool) -> None:
        stream.publisher_left()
        self.received.add(stream.counters)
        for observer in self._observers:
            self._notify(observer.stream_stopped, stream, clean)

    def _notify(self, notify: Callable[..., None], *arguments: object) -> None:
        """One observer's failure is its own: publishers and the other observers do not notice."""
        try:
            notify(*arguments)
        except Exception:
            self._log.failure("An observer of live streams failed")

    def live(self, key: str) -> LiveStream:
        """The stream of this key, which must have a publisher."""
        stream = self._streams.get(key)
        if stream is None or stream.publisher is None:
            raise StreamNotFoundError(f"{key} is not published")
        return stream

    def watchable(self, key: str) -> LiveStream:
        """The stream of this key for one more viewer: it must be live, and must not have too many already."""
        stream = self.live(key)
        self.refuse_if_full(stream)
        return stream

    def refuse_if_full(self, stream: LiveStream) -> None:
        """Raise LimitExceededError if a stream has no room for one more viewer."""
        most = self._limits.max_players
        if most is not None and stream.viewers >= most:
            self.players_refused += 1
            raise LimitExceededError("max_players", f"{stream.key} has {most} players already")

    def visitor_left(self, stream: LiveStream, visitor: Player) -> None:
        """A visitor has gone; what it got stays in the totals."""
        if visitor in stream.visitors:
            stream.departed.add(visitor.account)
            self.departed.add(visitor.account)
            stream.visitors.discard(visitor)
            self._forget_if_unused(stream)

    def leave(self, stream: LiveStream, subscriber: IFrameSubscriber) -> None:
        """A subscriber has gone; what it got stays in the totals."""
        for player in players(other for other in stream.subscribers if other is subscriber):
            stream.departed.add(player.account)
            self.departed.add(player.account)
        stream.unsubscribe(subscriber)
        self._forget_if_unused(stream)

    def _forget_if_unused(self, stream: LiveStream) -> None:
        if stream.is_unused and self._streams.get(stream.key) is stream:
            del self._streams[stream.key]
