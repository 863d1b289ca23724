"""How much many HTTP clients add to the latency of live streams.

Each of 200 clients in a separate process reads the event stream and polls /metrics once a second. Rounds with and
without them alternate on the same connections. Two figures are printed (`pytest -s` is not needed):

- the age of frames at the destinations, in wall-clock time. Other load on the machine can only make frames older, so
  the best rounds are compared; when rounds without clients differ much, the machine is too busy for a comparison.
- how long frames wait because the reactor is working on something else, in the relay's own processor time. A busy
  machine changes little in it, so this is always checked.

RTMPRELAY_LOAD_SECONDS makes it longer.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from rtmprelay.client import publish
from rtmprelay.rtmp.client import RtmpPublisherProtocol
from tests.helpers import free_port, real_reactor_test, the_reactor, until
from tests.rounds import rounds
from tests.service import measured_relay
from tests.service.harness import HEADER, Harness, Sink
from tests.service.measured_relay import read_turns, waiting_p99
from tests.service.test_relay_load import FRAME_RATE, SECONDS, Stopwatches, accepts, picture

CLIENTS = rounds(50, full=200)
DESTINATIONS = 10

#: Milliseconds that the clients may add to the 99th percentile.
MAX_ADDED = 5.0

#: Rounds of each kind, and the most there may be until one was not disturbed by the rest of the machine.
ROUNDS = rounds(2, full=4)
MAX_ROUNDS = 2 * ROUNDS


@attrs.frozen
class Round:
    """One round of measuring: when it was, and percentiles of the frames' ages."""

    began_ns: int
    ended_ns: int
    p50: float
    p99: float

    def waited(self, turns: list[tuple[int, float]]) -> float:
        """The 99th percentile of the milliseconds that frames waited for the reactor."""
        of_round = [took for ended, took in turns if self.began_ns <= ended <= self.ended_ns]
        return waiting_p99(of_round, (self.ended_ns - self.began_ns) / 1e9)


class Measurement:
    """Sends frames through a relay and measures how old they are when they arrive."""

    def __init__(self, publisher: RtmpPublisherProtocol, watches: Stopwatches) -> None:
        self._publisher = publisher
        self._watches = watches
        self._sent = 0

    async def run(self, seconds: float) -> Round:
        """Send frames for so many seconds, and wait until all of them have arrived at every destination."""
        for watch in self._watches.all:
            watch.ages_ms.clear()
        count = int(seconds * FRAME_RATE)
        clock = IReactorTime(the_reactor())
        began, began_ns = clock.seconds(), time.monotonic_ns()
        for number in range(count):
            self._publisher.send(picture(self._sent + number))
            await deferLater(clock, max(0.0, began + (number + 1) / FRAME_RATE - clock.seconds()))
        self._sent += count
        arrived = "all frames"
        await until(lambda: all(len(watch.ages_ms) == count for watch in self._watches.all), arrived, 30)
        ages = sorted(age for watch in self._watches.all for age in watch.ages_ms)
        return Round(began_ns, time.monotonic_ns(), ages[len(ages) // 2], ages[len(ages) * 99 // 100])


@asynccontextmanager
async def crowd(port: int, counts: dict[str, int]) -> AsyncIterator[None]:
    """Run the HTTP clients, from when each has a response, and add up what they received."""
    program = Path(__file__).with_name("http_crowd.py")
    process = subprocess.Popen(
        [sys.executable, str(program), str(port), str(CLIENTS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    output = process.stdout
    assert output is not None
    try:
        await until(lambda: select.select([output], [], [], 0)[0], "all clients", within=60)
        assert output.readline() == "ready\n"
        yield
        out, _ = process.communicate("stop\n", timeout=30)
        got: dict[str, Any] = json.loads(out)
        assert got["broken"] == []
        for name in counts:
            counts[name] += got[name]
    finally:
        process.kill()
        process.wait(10)


@attrs.define
class Result:
    """The rounds of both kinds."""

    quiet: list[Round] = attrs.field(factory=list)
    crowded: list[Round] = attrs.field(factory=list)

    @property
    def added(self) -> float:
        """The difference of the age of frames between the best rounds of both kinds."""
        return min(one.p99 for one in self.crowded) - min(one.p99 for one in self.quiet)

    @property
    def is_conclusive(self) -> bool:
        """Whether rounds without clients are so alike that a difference means something."""
        best, *_, worst = sorted(one.p99 for one in self.quiet)
        return worst - best <= MAX_ADDED / 2

    @property
    def is_done(self) -> bool:
        """Whether no more rounds are needed."""
        count = len(self.crowded)
        return count >= ROUNDS and (self.added <= MAX_ADDED or not self.is_conclusive or count >= MAX_ROUNDS)


async def measure(relay_port: int, http_port: int, watches: Stopwatches, counts: dict[str, int]) -> Result:
    """Publish through the relay, with and without the clients in alternation."""
    publisher = await publish(the_reactor(), f"rtmp://127.0.0.1:{relay_port}/live/load")
    publisher.send(HEADER)
    await until(lambda: len(watches.all) == DESTINATIONS, "all destinations", within=20)
    measurement = Measurement(publisher, watches)
    await measurement.run(1)
    result = Result()
    while not result.is_done:
        result.quiet.append(await measurement.run(SECONDS / ROUNDS))
        async with crowd(http_port, counts):
            result.crowded.append(await measurement.run(SECONDS / ROUNDS))
    publisher.end()
    return result


@pytest.mark.fewer_rounds
@real_reactor_test
async def test_many_http_clients_add_little_latency(
    harness: Harness, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sink = harness.start_sink(Sink("tcp:0:interface=127.0.0.1:backlog=200"))
    watches = Stopwatches()
    sink.service.registry.add_observer(watches)
    port, http_port = free_port(), free_port()
    turns_file = tmp_path / "turns"
    command = [sys.executable, "-m", measured_relay.__name__, str(turns_file)]
    command += [
        "--log-level=warn",
        "rtmprelay",
        "--listen",
        f"127.0.0.1:{port}",
        "--http-status",
        f"127.0.0.1:{http_port}",
    ]
    for number in range(DESTINATIONS):
        command += ["--relay-to", f"rtmp://127.0.0.1:{sink.port}/live/d{number}"]
    folder = Path(__file__).parents[2]
    relay = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    counts = {"events": 0, "metrics": 0}
    try:
        await until(lambda: accepts(port) and accepts(http_port), "the relay to listen", within=20)
        result = await measure(port, http_port, watches, counts)
    finally:
        relay.terminate()
        relay.wait(20)
    turns = read_turns(turns_file)
    waited = sorted(one.waited(turns) for one in result.quiet)
    waited_crowded = sorted(one.waited(turns) for one in result.crowded)
    added_waiting = waited_crowded[len(waited_crowded) // 2] - waited[len(waited) // 2]
    with capsys.disabled():
        print_figures(result, waited, waited_crowded, counts)
    assert counts["metrics"] >= CLIENTS * len(result.crowded)
    assert counts["events"] >= CLIENTS * len(result.crowded)
    assert turns, "nothing was measured"
    assert added_waiting <= MAX_ADDED
    if result.is_conclusive:
        assert result.added <= MAX_ADDED


def print_figures(
    result: Result, waited: list[float], waited_crowded: list[float], counts: dict[str, int]
) -> None:
    """Print everything that was measured."""

    def shown(figures: list[float]) -> str:
        return ", ".join(f"{figure:.2f}" for figure in sorted(figures))

    doubt = "" if result.is_conclusive else "; the machine is too busy for a comparison"
    sys.stdout.write(
        f"\n{CLIENTS} HTTP clients, {DESTINATIONS} destinations, {len(result.crowded)} rounds of each kind,"
        f" {counts['metrics']} responses of /metrics, {counts['events']} events:\n"
        f"  age of frames, p99 in ms: without {shown([one.p99 for one in result.quiet])};"
        f" with {shown([one.p99 for one in result.crowded])} (added {result.added:+.2f}{doubt})\n"
        f"  waiting for the reactor, p99 in ms of processor time: without {shown(waited)};"
        f" with {shown(waited_crowded)}\n"
    )


def test_waiting_p99_is_the_wait_that_one_frame_in_a_hundred_exceeds() -> None:
    """An iteration of 30 ms in a second: 1 % of all frames wait longer than 20 ms for its end."""
    assert waiting_p99([30.0], 1) == pytest.approx(20)
    assert waiting_p99([30.0, 30.0, 1.0], 1) == pytest.approx(25)
    assert waiting_p99([2.0] * 100, 1) == pytest.approx(1.9)
    assert waiting_p99([2.0, 3.0], 1) == 0
    assert waiting_p99([], 1) == 0
