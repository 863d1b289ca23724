"""The tasks of the load generator's processes, and their reports. All of it travels as JSON."""

from __future__ import annotations

from typing import TypeAlias

import attrs

#: The width of a histogram's step, in nanoseconds.
STEP_NS = 10_000

#: How often each latency occurred, by its number of STEP_NS.
Histogram: TypeAlias = dict[int, int]


@attrs.frozen
class PublishTask:
    """Publish streams called bench0, bench1 and so on."""

    port: int
    streams: int
    chunk_size: int
    tls: bool = False


@attrs.frozen
class PlayTask:
    """Play bench0; each order to join adds players."""

    port: int
    #: Whether every byte is compared with what was sent.
    verify: bool
    #: Seconds to sleep between two looks at the sockets. A crowd on many machines would not wake one processor for
    #: each frame, so a crowd sleeps; players that measure latency do not.
    rest: float
    tls: bool = False


@attrs.frozen
class SinkTask:
    """Be the server that a number of destinations lead to."""

    destinations: int
    #: How many of them compare every byte.
    verify: int


@attrs.frozen
class JoinTask:
    """Join bench0 again and again; each player leaves after its first keyframe."""

    port: int
    joins: int
    per_second: float


Task: TypeAlias = PublishTask | PlayTask | SinkTask | JoinTask


@attrs.frozen
class Sent:
    """What was published in the measured time; frames and bytes of all streams together."""

    frames: int
    bytes: int
    #: Bytes that the server's kernel had not acknowledged at the end.
    unsent: int
    #: How much later than planned each frame was sent.
    lateness: Histogram
    lost_connections: int


@attrs.frozen
class Received:
    """Which frames of the measured time arrived."""

    receivers: int
    frames: int
    bytes: int
    #: Compared frames that differ from what was sent.
    corrupt: int
    #: Frames that arrived twice or out of order.
    disordered: int
    lost_connections: int
    latency: Histogram


@attrs.frozen
class Joined:
    """How long each join took until the first keyframe was there, in milliseconds."""

    milliseconds: list[float]
    failed: int


def add_up(histograms: list[Histogram]) -> Histogram:
    total: Histogram = {}
    for histogram in histograms:
        for step, count in histogram.items():
            total[step] = total.get(step, 0) + count
    return total


def percentile_ms(histogram: Histogram, share: float) -> float | None:
    """The latency that this share of the frames did not exceed; None for an empty histogram."""
    wanted = share * sum(histogram.values())
    seen = 0
    for step in sorted(histogram):
        seen += histogram[step]
        if seen >= wanted:
            return (step + 1) * STEP_NS / 1e6
    return None
