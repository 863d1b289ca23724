"""Rates, measured once a second from plain counters: bitrate, frame rate, keyframe interval, and five minutes of history."""

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

#: Samples that a rate is averaged over: a GOP begins with a large frame.
_WINDOW = 5

#: Keyframes that the keyframe interval is averaged over.
_KEYFRAMES = 8

#: Streams that are gone and whose history is kept. Publishers of ever new streams must not fill the memory.
_MAX_GONE = 200


@attrs.frozen
class StreamRates:
    """What a stream receives per second. None until there is something to measure."""

    bitrate_kbps: float | None = None
    fps: float | None = None
    keyframe_interval: float | None = None


class Meter:
    """The rate of a counter of bytes, and its history in kbit/s."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int, int]] = deque(maxlen=_WINDOW + 1)
        self.history: deque[float | None] = deque(maxlen=HISTORY)

    def add_sample(self, now: float, size: int, frames: int = 0) -> None:
        """Record the total bytes and frames so far."""
        points = self._points
        if points and (size < points[-1][1] or frames < points[-1][2]):
            # The counter was reset.
            points.clear()
        value = None
        if points and now > points[-1][0]:
            value = round((size - points[-1][1]) / 125 / (now - points[-1][0]), 1)
        points.append((now, size, frames))
        self.history.append(value)

    def add_gap(self) -> None:
        """Record that there was nothing to measure."""
        self._points.clear()
        self.history.append(None)

    def restart(self) -> None:
        """Forget the previous samples: the next one is of another counter."""
        self._points.clear()

    @property
    def is_empty(self) -> bool:
        """Whether the history has only gaps."""
        return all(value is None for value in self.history)

    def rates(self) -> tuple[float | None, float | None]:
        """Kbit/s and frames per second, averaged over the last seconds."""
        if len(self._points) < 2:
            return None, None
        (begin, first, first_frames), (end, last, last_frames) = self._points[0], self._points[-1]
        seconds = end - begin
        if seconds <= 0:
            return None, None
        return round((last - first) / 125 / seconds, 1), round((last_frames - first_frames) / seconds, 2)


class StreamMeter(Meter):
    """The rates of a stream, and its keyframe interval in media time."""

    def __init__(self) -> None:
        super().__init__()
        self._counters: StreamCounters | None = None
        # The number of keyframes so far, and the timestamp of the last one.
        self._keyframes: deque[tuple[int, int]] = deque(maxlen=_KEYFRAMES)

    def sample(self, stream: LiveStream, now: float) -> None:
        if stream.publisher is None:
            self._keyframes.clear()
            self.add_gap()
            return
        counters = stream.counters
        if counters is not self._counters:
            self._counters = counters
            self._keyframes.clear()
            self.restart()
        self.add_sample(now, counters.bytes, counters.video_frames)
        gop = stream.gop
        if gop is not None and (not self._keyframes or self._keyframes[-1][0] != counters.keyframes):
            self._keyframes.append((counters.keyframes, gop[0]))

    def stream_rates(self) -> StreamRates:
        kbps, fps = self.rates()
        return StreamRates(kbps, fps, self._keyframe_interval())

    def _keyframe_interval(self) -> float | None:
        if len(self._keyframes) < 2:
            return None
        (first, begin), (last, end) = self._keyframes[0], self._keyframes[-1]
        seconds = milliseconds_between(begin, end) / 1000
        return round(seconds / (last - first), 3) if seconds > 0 and last > first else None


class RateSampler:
    """Samples the counters of all streams and destinations once a second."""

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
        self._sampling = LoopingCall(self.sample)
        self._sampling.clock = clock
        self._listeners: list[Callable[[], object]] = []
        #: How many samples were taken.
        self.samples = 0

    def add_listener(self, listener: Callable[[], object]) -> None:
        """Call this after each sample."""
        self._listeners.append(listener)

    def start(self) -> None:
        if not self._sampling.running:
            self._sampling.start(INTERVAL, now=True)

    def stop(self) -> None:
        if self._sampling.running:
            self._sampling.stop()

    def sample(self) -> None:
        now = self._clock.seconds()
        self.samples += 1
        live = {stream.key: stream for stream in self._registry}
        for key, stream in live.items():
            self._streams.setdefault(key, StreamMeter()).sample(stream, now)
        gone = [key for key in self._streams if key not in live]
        for number, key in enumerate(gone):
            meter = self._streams[key]
            meter.add_gap()
            if meter.is_empty or number < len(gone) - _MAX_GONE:
                del self._streams[key]
        self._sample_destinations(now)
        for listener in self._listeners:
            listener()

    def _sample_destinations(self, now: float) -> None:
        sent = self._destination_bytes()
        for name, size in sent.items():
            self._destinations.setdefault(name, Meter()).add_sample(now, size)
        for name in [name for name in self._destinations if name not in sent]:
            del self._destinations[name]

    def stream_rates(self, key: str) -> StreamRates:
        meter = self._streams.get(key)
        return StreamRates() if meter is None else meter.stream_rates()

    def destination_kbps(self, name: str) -> float | None:
        meter = self._destinations.get(name)
        return None if meter is None else meter.rates()[0]

    def histories(self) -> tuple[dict[str, list[float | None]], dict[str, list[float | None]]]:
        """The last five minutes of all streams and of all destinations, in kbit/s, oldest first."""
        return (
            {key: list(meter.history) for key, meter in self._streams.items()},
            {name: list(meter.history) for name, meter in self._destinations.items()},
        )
