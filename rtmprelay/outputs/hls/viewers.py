"""Viewers of HLS: each is a session that lasts for as long as it asks for playlists."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from rtmprelay import events
from rtmprelay.errors import LimitExceededError
from rtmprelay.event_bus import EventBus
from rtmprelay.hls.cmcd import Cmcd
from rtmprelay.streams.accounting import DeliveryAccount, PlayReport
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamRegistry

#: Seconds between two looks for sessions that are over.
_CHECK_EVERY = 1.0

#: Seconds between two `media_statistics` events of a session.
_STATISTICS_EVERY = 60.0

#: Target durations without a request for a playlist after which a viewer has left.
_SILENT_TARGETS = 3

#: Seconds that a session lasts at least: players pause for so long when they are told to wait.
_SHORTEST_SILENCE = 6.0

#: Stalls that are counted for a session: a player may send anything.
_MOST_STALLS = 100_000


@attrs.frozen
class HlsClient:
    """Where requests come from. Requests for media name no session, so that they are the same for all."""

    host: str
    peer: str
    agent: str

    @property
    def same(self) -> tuple[str, str]:
        return self.host, self.agent


class HlsViewer:
    """One session. The account counts playlists, parts and segments as messages."""

    audience = "hls"
    messages_queued = 0
    bytes_queued = 0

    def __init__(self, connection: str, stream: LiveStream, client: HlsClient, now: float) -> None:
        self.account = DeliveryAccount()
        self.stream = stream
        self.client = client
        self.connection = connection
        self.began = self.asked_at = now
        self.waiting = 0
        self.report = PlayReport(connection, stream.key, self, now, client.peer)
        self.startup: float | None = None
        self.starvations = 0
        self.throughput_kbps: int | None = None
        self._told_starvations = 0

    def note(self, cmcd: Cmcd, now: float) -> None:
        """What the player tells of itself."""
        self.starvations = min(self.starvations + cmcd.starved, _MOST_STALLS)
        if cmcd.throughput_kbps is not None:
            self.throughput_kbps = cmcd.throughput_kbps
        if self.startup is None and not cmcd.starting:
            self.startup = now - self.began

    def sent(self, size: int) -> None:
        self.account.messages_in += 1
        self.account.messages_sent += 1
        self.account.bytes_sent += size

    def stopped(self, reason: str) -> events.PlayStopped:
        return attrs.evolve(
            self.report.stopped(self.asked_at, reason),
            stalls=self.starvations,
            startup=self.startup,
            throughput_kbps=self.throughput_kbps,
        )

    def statistics(self, now: float) -> events.MediaStatistics:
        stalls, self._told_starvations = self.starvations - self._told_starvations, self.starvations
        return attrs.evolve(self.report.statistics(now), stalls=stalls, throughput_kbps=self.throughput_kbps)


class HlsViewers:
    """All sessions of a relay.

    Args:
        most: Sessions at the same time.
        target_duration: That of a stream, by its key, in seconds.
    """

    def __init__(
        self,
        registry: StreamRegistry,
        event_bus: EventBus,
        clock: IReactorTime,
        most: int,
        target_duration: Callable[[str], float],
    ) -> None:
        self._registry = registry
        self._events = event_bus
        self._clock = clock
        self._most = most
        self._target_duration = target_duration
        self._numbers = count(1)
        self._sessions: dict[tuple[str, str], HlsViewer] = {}
        # The session of a client that asked for a playlist last.
        self._latest: dict[tuple[str, tuple[str, str]], HlsViewer] = {}
        self._timer: IDelayedCall | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    def refuse_if_full(self, stream: LiveStream) -> None:
        """Raise LimitExceededError if one more viewer is too many."""
        self._registry.refuse_if_full(stream)
        if len(self._sessions) >= self._most:
            raise LimitExceededError("hls_viewers", f"{self._most} viewers watch already")

    def asks_for_playlist(self, stream: LiveStream, session: str, client: HlsClient) -> HlsViewer:
        """The viewer with this session, which begins with its first playlist.

        Raises:
            LimitExceededError: There are too many already.
        """
        now = self._clock.seconds()
        viewer = self._sessions.get((stream.key, session))
        if viewer is None:
            self.refuse_if_full(stream)
            viewer = HlsViewer(f"l{next(self._numbers):06d}", stream, client, now)
            self._sessions[stream.key, session] = viewer
            stream.visitors.add(viewer)
            self._events.publish(events.ConnectionOpened(connection=viewer.connection, peer=client.peer))
            self._events.publish(
                events.PlayStarted(connection=viewer.connection, stream=stream.key, protocol="hls")
            )
            if self._timer is None:
                self._timer = self._clock.callLater(_CHECK_EVERY, self._check)
        viewer.asked_at = now
        self._latest[stream.key, client.same] = viewer
        return viewer

    def knows(self, key: str, session: str) -> bool:
        """Whether this session goes on."""
        return (key, session) in self._sessions

    def still_asks(self, viewer: HlsViewer) -> None:
        """A playlist is sent to this viewer, who may have waited for it."""
        viewer.asked_at = self._clock.seconds()

    def note(self, viewer: HlsViewer, cmcd: Cmcd) -> None:
        """A player tells of itself."""
        viewer.note(cmcd, self._clock.seconds())

    def of_client(self, key: str, client: HlsClient) -> HlsViewer | None:
        """The viewer who asks for media: the one of the same address and program that asked for a playlist last."""
        return self._latest.get((key, client.same))

    def stop(self) -> None:
        """End all sessions."""
        for name in list(self._sessions):
            self._end(name, "the server stops")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        now = self._clock.seconds()
        for name, viewer in list(self._sessions.items()):
            longest = max(_SHORTEST_SILENCE, _SILENT_TARGETS * self._target_duration(name[0]))
            if not viewer.waiting and now - viewer.asked_at > longest:
                self._end(name, f"no playlist was asked for in {longest:g} s")
            elif now - viewer.report.last_at >= _STATISTICS_EVERY:
                self._events.publish(viewer.statistics(now))
        self._timer = self._clock.callLater(_CHECK_EVERY, self._check) if self._sessions else None

    def _end(self, name: tuple[str, str], reason: str) -> None:
        viewer = self._sessions.pop(name)
        client = name[0], viewer.client.same
        if self._latest.get(client) is viewer:
            del self._latest[client]
        self._registry.visitor_left(viewer.stream, viewer)
        self._events.publish(viewer.stopped(reason))
        self._events.publish(
            events.ConnectionClosed(
                connection=viewer.connection,
                peer=viewer.client.peer,
                reason=reason,
                limit=None,
                duration=viewer.asked_at - viewer.began,
                bytes_in=0,
                bytes_out=viewer.account.bytes_sent,
            )
        )
