"""What the processes of the load generator are told to do, and what they report. All of it travels as JSON."""

from __future__ import annotations

from typing import TypeAlias

import attrs

#: Latencies are counted in steps of so many nanoseconds.
STEP_NS = 10_000

#: How often each latency occurred, by its number of steps.
Histogram: TypeAlias = dict[int, int]


@attrs.frozen
class PublishTask:
    """Publish so many streams, called bench0, bench1 and so on."""

    port: int
    streams: int
    chunk_size: int


@attrs.frozen
class PlayTask:
    """Play bench0, as many times as one is told to join."""

    port: int
    #: Whether every byte is compared with what was sent.
    verify: bool
    #: Seconds to sleep after each look at the sockets. A crowd looks now and then, as many machines together would not
    #: wake one processor for each frame; whoever measures latency does not sleep.
    rest: float


@attrs.frozen
class SinkTask:
    """Be the server of so many destinations."""

    destinations: int
    #: For how many of them every byte is compared.
    verify: int


@attrs.frozen
class JoinTask:
    """Join bench0 again and again, leave when the first keyframe has come."""

    port: int
    joins: int
    per_second: float


Task: TypeAlias = PublishTask | PlayTask | SinkTask | JoinTask


@attrs.frozen
class Sent:
    """What was published in the measured time; frames and bytes of all streams together."""

    frames: int
    bytes: int
    #: What the server's kernel had not acknowledged at the end.
    unsent: int
    #: How much later than planned frames were sent.
    lateness: Histogram
    lost_connections: int


@attrs.frozen
class Received:
    """What came of the frames of the measured time."""

    receivers: int
    frames: int
    bytes: int
    #: Frames that were not what was sent, among those that were compared.
    corrupt: int
    #: Frames that came twice or too late.
    disordered: int
    lost_connections: int
    latency: Histogram


@attrs.frozen
class Joined:
    """How long each join took until the first keyframe was there, in milliseconds."""

    milliseconds: list[float]
    failed: int


def add_up(histograms: list[Histogram]) -> Histogram:
    """One histogram of them all."""
    total: Histogram = {}
    for histogram in histograms:
        for step, count in histogram.items():
            total[step] = total.get(step, 0) + count
    return total


def percentile_ms(histogram: Histogram, share: float) -> float | None:
    """The latency that this share of all did not exceed; None if there was none."""
    wanted = share * sum(histogram.values())
    seen = 0
    for step in sorted(histogram):
        seen += histogram[step]
        if seen >= wanted:
            return (step + 1) * STEP_NS / 1e6
    return None
