"""What the log says while all goes well: one line for each stream, and one for each destination that keeps failing."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from rtmprelay.destinations.manager import DestinationManager
from rtmprelay.destinations.status import DestinationState, OutletStatus
from rtmprelay.events.destinations import FAILURES_LOGGED
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamRegistry

#: With the namespace of the events: log readers look for it.
_log = Logger(namespace="rtmprelay")

#: Streams that have a line of their own, and destinations that are named in it.
_MOST_STREAMS = 20
_MOST_DESTINATIONS = 8


@attrs.frozen
class _Counted:
    """What a stream had counted at the last summary."""

    at: float
    bytes: int
    frames: int


class StreamSummaries:
    """Logs a summary of each live stream from time to time.

    Args:
        interval: Seconds between two summaries.
    """

    def __init__(
        self, registry: StreamRegistry, destinations: DestinationManager, clock: IReactorTime, interval: float
    ) -> None:
        self._registry = registry
        self._destinations = destinations
        self._clock = clock
        self._interval = interval
        self._counted: dict[tuple[str, str], _Counted] = {}
        self._loop = LoopingCall(self._summarize)
        self._loop.clock = clock

    def start(self) -> None:
        if not self._loop.running:
            self._loop.start(self._interval, now=False)

    def stop(self) -> None:
        if self._loop.running:
            self._loop.stop()

    def _summarize(self) -> None:
        before, self._counted = self._counted, {}
        live = [stream for stream in self._registry if stream.publisher is not None]
        for number, stream in enumerate(live):
            outlets = [*self._outlets_of(stream.key)]
            kbps, fps = self._rates(before, stream)
            sent = [self._describe(before, name, outlet) for name, outlet in outlets]
            if number < _MOST_STREAMS:
                _log.info(
                    "{stream}: {kbps:.0f} kbit/s, {fps:.3g} fps, {viewers}{sent}",
                    stream=stream.key,
                    kbps=kbps,
                    fps=fps,
                    viewers="1 player" if stream.viewers == 1 else f"{stream.viewers} players",
                    sent=_sent_words(sent),
                )
            for name, outlet in outlets:
                self._tell_failing(name, outlet)
        if len(live) > _MOST_STREAMS:
            _log.info("{count} more streams are live", count=len(live) - _MOST_STREAMS)

    def _outlets_of(self, key: str) -> Iterator[tuple[str, OutletStatus]]:
        for destination in self._destinations:
            outlet = destination.outlet_status(key)
            if outlet is not None:
                yield destination.name, outlet

    def _rates(self, before: dict[tuple[str, str], _Counted], stream: LiveStream) -> tuple[float, float]:
        counters = stream.counters
        return self._since(before, (stream.key, ""), counters.bytes, counters.video_frames, stream.started_at)

    def _describe(self, before: dict[tuple[str, str], _Counted], name: str, outlet: OutletStatus) -> str:
        since = self._clock.seconds() - self._interval
        kbps, _ = self._since(before, (outlet.stream, name), outlet.bytes_sent, 0, since)
        if outlet.state is not DestinationState.CONNECTED:
            return f"{name} ({'given up' if outlet.given_up else 'not connected'})"
        return f"{name} ({kbps:.0f} kbit/s)"

    def _since(
        self,
        before: dict[tuple[str, str], _Counted],
        key: tuple[str, str],
        size: int,
        frames: int,
        began: float,
    ) -> tuple[float, float]:
        """Kbit/s and frames a second since the last summary."""
        now = self._clock.seconds()
        last = before.get(key)
        if last is None or size < last.bytes or frames < last.frames:
            # It is new, or another publisher counts from zero.
            last = _Counted(began, 0, 0)
        self._counted[key] = _Counted(now, size, frames)
        seconds = now - last.at
        if seconds <= 0:
            return 0.0, 0.0
        return (size - last.bytes) / 125 / seconds, (frames - last.frames) / seconds

    def _tell_failing(self, name: str, outlet: OutletStatus) -> None:
        if (
            outlet.failures > FAILURES_LOGGED
            and outlet.state is DestinationState.ERROR
            and not outlet.given_up
        ):
            _log.warn(
                "Destination {destination}: {stream} is still failing after {failures} attempts: {reason}",
                destination=name,
                stream=outlet.stream,
                failures=outlet.failures,
                reason=outlet.last_error,
            )


def _sent_words(sent: list[str]) -> str:
    if not sent:
        return ""
    more = f" and {len(sent) - _MOST_DESTINATIONS} more" if len(sent) > _MOST_DESTINATIONS else ""
    return f"; sent to {', '.join(sent[:_MOST_DESTINATIONS])}{more}"
