"""Many destinations at once: nothing is lost, memory stays small, and the relay adds little delay.

Runs for 2 s, in the full run for 8 s; set RTMPRELAY_LOAD_SECONDS for longer. The figures are printed, also without `pytest -s`. The age of a frame
includes the time that other programs took: on a busy machine most frames are older, but not the fastest. The time for
which frames wait for the relay itself is measured in its CPU time.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from zope.interface import implementer

from rtmprelay.client import publish
from rtmprelay.interfaces import IFrameSubscriber, IStreamObserver
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.streams.frames import FrameBatch, FrameRole, LiveFrame
from rtmprelay.streams.live_stream import LiveStream
from tests.helpers import free_port, real_reactor_test, the_reactor, until
from tests.rounds import rounds
from tests.service import measured_relay
from tests.service.harness import HEADER, Harness, Sink
from tests.service.measured_relay import read_turns, waiting_p99

SECONDS = rounds(2, full=8, variable="RTMPRELAY_LOAD_SECONDS")
FRAME_RATE = 30
FRAME_SIZE = 10_000

#: Milliseconds that the relay may add.
MOST_WAITING = 20.0
MOST_FOR_THE_FASTEST = 100.0


@implementer(IFrameSubscriber)
class Stopwatch:
    """The age of each frame of one stream when it arrives."""

    def __init__(self) -> None:
        self.ages_ms: list[float] = []

    def begin(self, startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        self._take(startup)

    def frames_arrived(self, batch: FrameBatch) -> None:
        self._take(batch.frames)

    def write(self, data: bytes) -> None:
        """Never called: there is nothing to write."""

    def _take(self, frames: Sequence[LiveFrame]) -> None:
        now = time.monotonic_ns()
        for live in frames:
            if live.role is not FrameRole.STARTUP:
                sent = int.from_bytes(live.frame.payload[5:13])
                self.ages_ms.append((now - sent) / 1e6)

    def publisher_left(self) -> None:
        """Nothing to do."""

    def publisher_returned(self) -> None:
        """Nothing to do."""


@implementer(IStreamObserver)
class Stopwatches:
    """Starts a stopwatch for each stream."""

    def __init__(self) -> None:
        self.all: list[Stopwatch] = []

    def stream_started(self, stream: LiveStream) -> None:
        watch = Stopwatch()
        self.all.append(watch)
        stream.subscribe(watch)

    def stream_stopped(self, stream: LiveStream, clean: bool) -> None:
        """Nothing to do."""


def picture(number: int) -> MediaFrame:
    """A frame that holds the time at which it was made."""
    first = b"\x17\x01\x00\x00\x00" if number % 60 == 0 else b"\x27\x01\x00\x00\x00"
    payload = first + time.monotonic_ns().to_bytes(8) + bytes(FRAME_SIZE)
    return MediaFrame(MediaKind.VIDEO, number * 1000 // FRAME_RATE, payload)


def resident_mb(pid: int) -> float:
    """The resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the process shows no size")


def accepts(port: int) -> bool:
    """Whether a server listens on this port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@attrs.frozen
class Run:
    """What was measured of a relay.

    Attributes:
        growth: MB of memory that it needed for the stream.
        waited_p99: Milliseconds for which frames waited for its reactor.
    """

    growth: float
    watches: list[Stopwatch]
    frames: int
    waited_p99: float


async def run_relay(harness: Harness, count: int, turns_file: Path) -> Run:
    """Send a stream to so many destinations, and measure."""
    sink = harness.start_sink(Sink("tcp:0:interface=127.0.0.1:backlog=200"))
    watches = Stopwatches()
    sink.service.registry.add_observer(watches)
    port = free_port()
    command = [sys.executable, "-m", measured_relay.__name__, str(turns_file)]
    command += ["--log-level=warn", "rtmprelay", "--listen", f"127.0.0.1:{port}"]
    for number in range(count):
        command += ["--relay-to", f"rtmp://127.0.0.1:{sink.port}/live/d{number}"]
    folder = Path(__file__).parents[2]
    relay = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    try:
        await until(lambda: accepts(port), "the relay to listen", within=20)
        before = resident_mb(relay.pid)
        publisher = await publish(the_reactor(), f"rtmp://127.0.0.1:{port}/live/load")
        publisher.send(HEADER)
        await until(lambda: len(watches.all) == count, "all destinations", within=20)
        frames = int(SECONDS * FRAME_RATE)
        clock = IReactorTime(the_reactor())
        began, began_ns = clock.seconds(), time.monotonic_ns()
        for number in range(frames):
            publisher.send(picture(number))
            await deferLater(clock, max(0.0, began + (number + 1) / FRAME_RATE - clock.seconds()))
        await until(
            lambda: all(len(watch.ages_ms) == frames for watch in watches.all), "every frame", within=20
        )
        seconds = clock.seconds() - began
        growth = resident_mb(relay.pid) - before
        publisher.end()
    finally:
        relay.terminate()
        relay.wait(20)
    turns = [took for ended, took in read_turns(turns_file) if ended >= began_ns]
    assert turns, "nothing was measured"
    return Run(growth, watches.all, frames, waiting_p99(turns, seconds))


@pytest.mark.fewer_rounds
@pytest.mark.parametrize("count", [10, 50])
@real_reactor_test
async def test_many_destinations_lose_nothing_and_add_little_delay(
    harness: Harness, count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At most 10 MB for each destination."""
    run = await run_relay(harness, count, tmp_path / "turns")
    ages = sorted(age for watch in run.watches for age in watch.ages_ms)
    p50, p99 = ages[len(ages) // 2], ages[len(ages) * 99 // 100]
    fastest = max(min(watch.ages_ms) for watch in run.watches)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{count} destinations, {SECONDS:g} s: +{run.growth:.1f} MB, p50 {p50:.1f} ms, p99 {p99:.1f} ms;"
            f" waiting for the reactor, p99 in ms of its own work: {run.waited_p99:.2f};"
            f" the fastest frame of the slowest destination: {fastest:.1f} ms\n"
        )
    assert len(ages) == count * run.frames
    assert run.growth <= 10 * count
    assert run.waited_p99 <= MOST_WAITING
    assert fastest <= MOST_FOR_THE_FASTEST
