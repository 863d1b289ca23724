"""Viewers of HLS: each is a session that lasts for as long as it asks for playlists."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import partial
from itertools import count

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from rtmprelay import events
from rtmprelay.access.request import AccessRequest
from rtmprelay.addresses import address_group
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

#: Sessions that were ended on purpose and are remembered.
_MOST_ENDED = 10_000

#: Stalls that are counted for a session: a player may send anything.
_MOST_STALLS = 100_000


class SessionEndedError(Exception):
    """The session was ended on purpose; the text says why."""


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
        self.has_ended = False
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
        most_of_address: Those of one address.
        target_duration: That of a stream, by its key, in seconds.
        addresses_last: Seconds for which addresses that a session got are good.

    Attributes:
        note_refused: Called with an address that has too many sessions, and the name of the limit.
    """

    def __init__(
        self,
        registry: StreamRegistry,
        event_bus: EventBus,
        clock: IReactorTime,
        most: int,
        target_duration: Callable[[str], float],
        most_of_address: int | None = None,
        addresses_last: float = 600.0,
    ) -> None:
        self._registry = registry
        self._events = event_bus
        self._clock = clock
        self._most = most
        self._target_duration = target_duration
        self._most_of_address = most_of_address
        self._addresses_last = addresses_last
        self.note_refused: Callable[[str, str], None] = lambda host, limit: None
        self._by_address: Counter[str] = Counter()
        # What was permitted at index.m3u8, by the session that it handed out; those that asked last are at the end.
        self._permitted: OrderedDict[str, AccessRequest] = OrderedDict()
        # Sessions that were ended on purpose: why, and until when their addresses would be good.
        self._ended: dict[str, tuple[str, float]] = {}
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

    def permit(self, session: str, access: AccessRequest) -> None:
        """A session was handed out for what was permitted. It may be asked about again."""
        self._permitted[session] = access
        while len(self._permitted) > 2 * self._most:
            self._permitted.popitem(last=False)

    def is_permitted(self, session: str) -> bool:
        """Whether this session was handed out here, and is not forgotten."""
        return session in self._permitted

    def asks_for_playlist(self, stream: LiveStream, session: str, client: HlsClient) -> HlsViewer:
        """The viewer with this session, which begins with its first playlist.

        Raises:
            LimitExceededError: There are too many already.
            SessionEndedError: It was ended on purpose.
        """
        now = self._clock.seconds()
        if session in self._permitted:
            self._permitted.move_to_end(session)
        viewer = self._sessions.get((stream.key, session))
        if viewer is None:
            reason, until = self._ended.get(session, ("", 0.0))
            if now < until:
                raise SessionEndedError(reason)
            self.refuse_if_full(stream)
            self._count(client)
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

    def _count(self, client: HlsClient) -> None:
        group = address_group(client.host)
        if self._most_of_address is not None and self._by_address[group] >= self._most_of_address:
            self.note_refused(client.host, "hls_viewers_per_address")
            raise LimitExceededError(
                "hls_viewers_per_address", f"{self._most_of_address} viewers of your address watch already"
            )
        self._by_address[group] += 1

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

    def end(self, connection: str, reason: str) -> bool:
        """End the session with this name, for good; whether there is one."""
        session = next(
            (name[1] for name, one in self._sessions.items() if one.connection == connection), None
        )
        if session is not None:
            self._end_session(session, reason)
        return session is not None

    def granted(self) -> list[tuple[AccessRequest, Callable[[str], object]]]:
        """What was permitted to those who watch, each with what ends it for a reason."""
        sessions = dict.fromkeys(session for _, session in self._sessions)
        return [
            (access, partial(self._end_granted, access, session))
            for session in sessions
            if (access := self._permitted.get(session)) is not None
        ]

    def _end_granted(self, access: AccessRequest, session: str, reason: str) -> None:
        if self._permitted.get(session) is access:
            self._end_session(session, reason)

    def _end_session(self, session: str, reason: str) -> None:
        """End a session on purpose. Its addresses are good for nothing any more."""
        now = self._clock.seconds()
        self._permitted.pop(session, None)
        self._ended = {name: one for name, one in self._ended.items() if now < one[1]}
        if len(self._ended) >= _MOST_ENDED:
            del self._ended[next(iter(self._ended))]
        self._ended[session] = reason, now + self._addresses_last
        for name in [name for name in self._sessions if name[1] == session]:
            self._end(name, reason)

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
        viewer.has_ended = True
        group = address_group(viewer.client.host)
        self._by_address[group] -= 1
        if not self._by_address[group]:
            del self._by_address[group]
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
