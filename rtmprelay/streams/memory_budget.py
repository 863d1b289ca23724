"""The memory that all streams and connections use together, and what is cut back when it gets scarce.

First no more publishers are accepted, then the caches for late joiners shrink, then the largest queues drop frames.
Publishers that were accepted go on: room for the frames that they send is kept free. One of them is closed only if the
unfinished messages of all together are as large as the whole budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from rtmprelay.machine import memory_of_machine
from rtmprelay.memory import MemoryPool
from rtmprelay.quantities import KIBIBYTE, MEBIBYTE, format_size
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamRegistry

#: The shares of the budget from which each thing is cut back; below the last one everything is as usual again.
_REFUSE_FROM = 0.75
_SHRINK_FROM = 0.85
_DROP_FROM = 0.95
_RELAX_BELOW = 0.7

#: Seconds between two looks; while memory is scarce, they are closer together.
_INTERVAL = 0.5
_SCARCE_INTERVAL = 0.1

#: What a queued or cached frame costs beside its payload.
_FRAME_COST = 400

#: What a receiver that does not read has in the buffers of its transport.
_STALLED_COST = 128 * KIBIBYTE

#: What a publisher is expected to send at once, before it has shown that: a keyframe in 4K, and its copy.
_RESERVE = 2 * MEBIBYTE

#: The share of the budget that caches and queues leave for publishers that were accepted.
_MOST_KEPT_FREE = 0.6

#: Bytes of a message that a publisher may always have in assembly, however scarce memory is.
_FAIR_SHARE = 64 * KIBIBYTE

#: A cache with less than this is not worth having.
_SMALLEST_CACHE = 64 * KIBIBYTE


@attrs.frozen
class MemoryLimits:
    """What the whole relay may use for streams."""

    #: Bytes of unfinished messages, queues, caches and outputs of all streams and connections together. None for half of
    #: the machine's memory, or of what the cgroup allows.
    memory_budget: int | None = None


class Scarcity(Enum):
    """What is cut back now; the value is the name in JSON."""

    NONE = "none"
    NO_NEW_PUBLISHERS = "no_new_publishers"
    CACHES_SHRINK = "caches_shrink"
    QUEUES_DROP = "queues_drop"


@attrs.frozen
class MemoryUse:
    """Bytes, by what they are used for."""

    assembly: int = 0
    caches: int = 0
    queues: int = 0
    outputs: int = 0

    @property
    def total(self) -> int:
        return self.assembly + self.caches + self.queues + self.outputs


class MemoryBudget:
    """Looks at the memory from time to time, and makes room.

    Args:
        pools: Unfinished messages; that of publishers is the last one.

    Attributes:
        most: Bytes that all together may have.
        used: What they had at the last look.
        refuses_publishers: Whether no more publishers are accepted now.
    """

    _log = Logger()

    def __init__(
        self,
        limits: MemoryLimits,
        registry: StreamRegistry,
        clock: IReactorTime,
        pools: Sequence[MemoryPool],
    ) -> None:
        self.most = limits.memory_budget or memory_of_machine() // 2
        self.used = MemoryUse()
        self.scarcity = Scarcity.NONE
        self.refuses_publishers = False
        self._registry = registry
        self._clock = clock
        self._pools = pools
        self._publishers = pools[-1]
        self._publishers.fair_share = _FAIR_SHARE
        self._publishers.most = self.most
        self._outputs: list[Callable[[], int]] = []
        self._cache_size: float | None = None
        self._expected = 0
        self._looked_at = clock.seconds()
        self._timer: IDelayedCall | None = None

    def add_output(self, bytes_used: Callable[[], int]) -> None:
        """Count what an output keeps for itself, such as segments or frames that wait for a disk."""
        self._outputs.append(bytes_used)

    def start(self) -> None:
        if self._timer is None:
            self._timer = self._clock.callLater(_INTERVAL, self._look_again)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_again(self) -> None:
        self.look()
        scarce = self.scarcity is not Scarcity.NONE
        self._timer = self._clock.callLater(_SCARCE_INTERVAL if scarce else _INTERVAL, self._look_again)

    def look(self) -> None:
        """Add everything up, and make room if there is too little."""
        self._looked_at = self._clock.seconds()
        streams = list(self._registry)
        self.used = self._measure(streams)
        self._expected = sum(_expected(stream) for stream in streams)
        self._shrink_caches(streams)
        self._shrink_queues(streams)
        self._note_scarcity(self._taken / self.most, self._wanted / self.most)

    @property
    def _taken(self) -> float:
        """What is used, and what accepted publishers may need for the frames that they send."""
        kept_free = min(self._expected, self.most * _MOST_KEPT_FREE)
        return self.used.total - self.used.assembly + max(self.used.assembly, kept_free)

    @property
    def _wanted(self) -> int:
        """The same, without the caches, which shrink when publishers need the memory."""
        return max(self.used.total, self.used.total - self.used.assembly - self.used.caches + self._expected)

    def take_publisher(self) -> bool:
        """Whether there is memory for one more publisher. Between two looks, each new one is expected to need a reserve."""
        if self._is_full() and self._clock.seconds() - self._looked_at >= _SCARCE_INTERVAL:
            # Publishers may have gone since the last look.
            self.look()
        if self._is_full():
            return False
        self._expected += _RESERVE
        return True

    def _is_full(self) -> bool:
        return self.refuses_publishers or self._wanted + _RESERVE >= self.most * _REFUSE_FROM

    def _measure(self, streams: Sequence[LiveStream]) -> MemoryUse:
        return MemoryUse(
            assembly=sum(pool.used for pool in self._pools),
            caches=sum(stream.cache_bytes + stream.cache_frames * _FRAME_COST for stream in streams),
            queues=sum(_queue_cost(stream) for stream in streams),
            outputs=sum(bytes_used() for bytes_used in self._outputs),
        )

    # -- cutting back ----------------------------------------------------------------------------------------

    def _shrink_caches(self, streams: Sequence[LiveStream]) -> None:
        """Let the caches have what is left beside everything else, in equal shares."""
        share = self._taken / self.most
        if share >= _SHRINK_FROM:
            left = self.most * _SHRINK_FROM - (self._taken - self.used.caches)
            size = max(0.0, left) / max(1, len(streams))
            self._cache_size = size if size >= _SMALLEST_CACHE else 0.0
        elif self._cache_size is not None and share < _RELAX_BELOW:
            self._cache_size = max(_SMALLEST_CACHE, self._cache_size * 2)
        if self._cache_size is None:
            return
        whole = True
        for stream in streams:
            whole = stream.limit_cache(int(self._cache_size)) and whole
        if whole and share < _RELAX_BELOW:
            self._cache_size = None
        self.used = self._measure(streams)

    def _shrink_queues(self, streams: Sequence[LiveStream]) -> None:
        """Drop frames from the largest queues. Frames are shared, so all queues of a stream have to let them go."""
        if self._taken < self.most * _DROP_FROM:
            return
        queued = [stream for stream in streams if _largest_queue(stream)]
        left = self.most * _SHRINK_FROM - (self._taken - self.used.queues)
        size = int(max(0.0, left) / (2 * max(1, len(queued))))
        for stream in queued:
            for consumer in _consumers(stream):
                if consumer.bytes_queued > size:
                    consumer.shrink_queue(size)
        self.used = self._measure(streams)

    def _note_scarcity(self, share: float, expected: float) -> None:
        """Set `scarcity`, and log when it begins and when it is over.

        Args:
            share: What is used, and `expected`, what publishers may need at any moment; of the whole budget.
        """
        before = self.scarcity
        wanted = max(share, expected)
        if share >= _DROP_FROM:
            self.scarcity = Scarcity.QUEUES_DROP
        elif self._cache_size is not None:
            self.scarcity = Scarcity.CACHES_SHRINK
        elif wanted >= _REFUSE_FROM or (self.refuses_publishers and wanted >= _RELAX_BELOW):
            self.scarcity = Scarcity.NO_NEW_PUBLISHERS
        else:
            self.scarcity = Scarcity.NONE
        self.refuses_publishers = self.scarcity is not Scarcity.NONE
        if (before is Scarcity.NONE) != (self.scarcity is Scarcity.NONE):
            self._log.warn(
                "Memory is {how} ({used} of {most} bytes, limit: memory_budget)",
                how="no longer scarce"
                if self.scarcity is Scarcity.NONE
                else "scarce: no more publishers are accepted, then caches shrink, then the largest queues drop",
                used=self.used.total,
                most=self.most,
            )

    @property
    def refusal(self) -> str:
        """Why a publisher is not accepted."""
        return f"the server has no memory for more streams ({format_size(self.most)}, limit: memory_budget)"


def _consumers(stream: LiveStream) -> list[Consumer]:
    return [subscriber for subscriber in stream.subscribers if isinstance(subscriber, Consumer)]


def _largest_queue(stream: LiveStream) -> int:
    return max((consumer.bytes_queued for consumer in _consumers(stream)), default=0)


def _queue_cost(stream: LiveStream) -> int:
    """The frames of the fullest queue, with their encoded copies, and the buffers of all receivers that do not read."""
    stalled = largest = frames = 0
    for consumer in _consumers(stream):
        count = consumer.messages_queued
        if count:
            stalled += 1
            largest = max(largest, consumer.bytes_queued)
            frames += count
    # Each queue has its own reference to a frame, which is little beside the frame.
    return 2 * largest + stalled * _STALLED_COST + frames * 16


def _expected(stream: LiveStream) -> int:
    """What the publisher of a stream may send at any moment."""
    return 0 if stream.publisher is None else max(_RESERVE, 2 * stream.largest_frame)
