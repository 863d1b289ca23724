"""Rates, measured once a second from plain counters: bitrate, frames, keyframes, and five minutes of history."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall

from rtmprelay.media import milliseconds_between
from rtmprelay.streams.live_stream import LiveStream, StreamCounters
from rtmprelay.streams.registry import StreamRegistry

#: Seconds between two samples, and samples that are kept: five minutes.
INTERVAL = 1.0
HISTORY = 300

#: Samples over which a rate is worked out: a group of pictures begins with a large one.
_WINDOW = 5

#: Keyframes over which their distance is worked out.
_KEYFRAMES = 8

#: Series that are kept for what is gone. Whoever makes streams up and leaves must not fill the memory.
_MOST_GONE = 200


@attrs.frozen
class StreamRates:
    """How fast a stream comes in. None until there is something to measure."""

    bitrate_kbps: float | None = None
    fps: float | None = None
    keyframe_interval: float | None = None


class Meter:
    """The rate of something that is counted, and its history in kbit/s."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int, int]] = deque(maxlen=_WINDOW + 1)
        self.history: deque[float | None] = deque(maxlen=HISTORY)

    def count(self, now: float, size: int, frames: int = 0) -> None:
        """So many bytes and frames have been counted until now."""
        points = self._points
        if points and (size < points[-1][1] or frames < points[-1][2]):
            # The count has begun anew.
            points.clear()
        value = None
        if points and now > points[-1][0]:
            value = round((size - points[-1][1]) / 125 / (now - points[-1][0]), 1)
        points.append((now, size, frames))
        self.history.append(value)

    def rest(self) -> None:
        """There is nothing to count."""
        self._points.clear()
        self.history.append(None)

    def restart(self) -> None:
        """What comes next is another count."""
        self._points.clear()

    @property
    def is_silent(self) -> bool:
        """Whether there is nothing left to show."""
        return all(value is None for value in self.history)

    def rates(self) -> tuple[float | None, float | None]:
        """Kbit/s and frames a second, over the last seconds."""
        if len(self._points) < 2:
            return None, None
        (begin, first, first_frames), (end, last, last_frames) = self._points[0], self._points[-1]
        seconds = end - begin
        if seconds <= 0:
            return None, None
        return round((last - first) / 125 / seconds, 1), round((last_frames - first_frames) / seconds, 2)


class StreamMeter(Meter):
    """The rates of a stream, and the distance of its keyframes in media time."""

    def __init__(self) -> None:
        super().__init__()
        self._counters: StreamCounters | None = None
        # How many keyframes had come, and the timestamp of the last one.
        self._keyframes: deque[tuple[int, int]] = deque(maxlen=_KEYFRAMES)

    def look(self, stream: LiveStream, now: float) -> None:
        """Take a sample."""
        if stream.publisher is None:
            self._keyframes.clear()
            self.rest()
            return
        counters = stream.counters
        if counters is not self._counters:
            self._counters = counters
            self._keyframes.clear()
            self.restart()
        self.count(now, counters.bytes, counters.video_frames)
        gop = stream.gop
        if gop is not None and (not self._keyframes or self._keyframes[-1][0] != counters.keyframes):
            self._keyframes.append((counters.keyframes, gop[0]))

    def stream_rates(self) -> StreamRates:
        """The rates now."""
        kbps, fps = self.rates()
        return StreamRates(kbps, fps, self._keyframe_interval())

    def _keyframe_interval(self) -> float | None:
        if len(self._keyframes) < 2:
            return None
        (first, begin), (last, end) = self._keyframes[0], self._keyframes[-1]
        seconds = milliseconds_between(begin, end) / 1000
        return round(seconds / (last - first), 3) if seconds > 0 and last > first else None


class RateSampler:
    """Looks at all streams and destinations once a second."""

    def __init__(
        self,
        registry: StreamRegistry,
        destination_bytes: Callable[[], Mapping[str, int]],
        clock: IReactorTime,
    ) -> None:
        self._registry = registry
        self._destination_bytes = destination_bytes
        self._clock = clock
        self._streams: dict[str, StreamMeter] = {}
        self._destinations: dict[str, Meter] = {}
        self._looking = LoopingCall(self.sample)
        self._looking.clock = clock
        self._listeners: list[Callable[[], object]] = []
        #: How many samples there have been.
        self.samples = 0

    def add_listener(self, listener: Callable[[], object]) -> None:
        """Call this after each sample."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Look from now on."""
        if not self._looking.running:
            self._looking.start(INTERVAL, now=True)

    def stop(self) -> None:
        """Look no more."""
        if self._looking.running:
            self._looking.stop()

    def sample(self) -> None:
        """Look once."""
        now = self._clock.seconds()
        self.samples += 1
        live = {stream.key: stream for stream in self._registry}
        for key, stream in live.items():
            self._streams.setdefault(key, StreamMeter()).look(stream, now)
        gone = [key for key in self._streams if key not in live]
        for number, key in enumerate(gone):
            meter = self._streams[key]
            meter.rest()
            if meter.is_silent or number < len(gone) - _MOST_GONE:
                del self._streams[key]
        self._sample_destinations(now)
        for listener in self._listeners:
            listener()

    def _sample_destinations(self, now: float) -> None:
        sent = self._destination_bytes()
        for name, size in sent.items():
            self._destinations.setdefault(name, Meter()).count(now, size)
        for name in [name for name in self._destinations if name not in sent]:
            del self._destinations[name]

    def stream_rates(self, key: str) -> StreamRates:
        """How fast a stream comes in."""
        meter = self._streams.get(key)
        return StreamRates() if meter is None else meter.stream_rates()

    def destination_kbps(self, name: str) -> float | None:
        """How fast a destination takes what it is sent."""
        meter = self._destinations.get(name)
        return None if meter is None else meter.rates()[0]

    def histories(self) -> tuple[dict[str, list[float | None]], dict[str, list[float | None]]]:
        """The last five minutes of all streams and of all destinations, in kbit/s, oldest first."""
        return (
            {key: list(meter.history) for key, meter in self._streams.items()},
            {name: list(meter.history) for name, meter in self._destinations.items()},
        )
