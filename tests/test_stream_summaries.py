"""How much the log says while all goes well, and while a destination is down."""

from __future__ import annotations

import io

import pytest
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher

from rtmprelay.event_bus import LogSink
from rtmprelay.logs import make_observer
from rtmprelay.stream_summaries import StreamSummaries
from tests.destinations.harness import MemoryRelay
from tests.helpers import audio, inter, keyframe, start_frames

#: Lines that two minutes of a stream with one player and two destinations may have, the first ones included.
MOST_LINES = 12


@pytest.fixture
def relay() -> MemoryRelay:
    relay = MemoryRelay()
    relay.server.factory.events.add_sink(LogSink())
    return relay


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


def two_minutes(relay: MemoryRelay, log: io.StringIO) -> list[str]:
    """The lines of the log from just before the publish on."""
    observer = make_observer(log, "info", "text")
    summaries = StreamSummaries(relay.server.registry, relay.destinations, relay.clock, 30.0)
    globalLogPublisher.addObserver(observer)
    try:
        summaries.start()
        encoder = relay.publish()
        relay.send(encoder, *start_frames())
        player = relay.server.connect()
        player.play("cam")
        for second in range(121):
            time = second * 1000
            relay.send(encoder, keyframe(time), audio(time), inter(time + 500), audio(time + 500))
            relay.advance(1)
        summaries.stop()
    finally:
        globalLogPublisher.removeObserver(observer)
    return log.getvalue().splitlines()


def test_two_minutes_with_a_player_and_two_destinations_are_a_dozen_lines(
    relay: MemoryRelay, log: io.StringIO
) -> None:
    for name in ("one", "two"):
        relay.add_stub(name)
        relay.add_destination(name, f"rtmp://{name}/live/key")
    lines = two_minutes(relay, log)
    assert len(lines) <= MOST_LINES, lines
    summaries = [line for line in lines if "1 player; sent to one (" in line]
    assert len(summaries) == 4
    assert "live/cam: " in summaries[0]
    assert " 2 fps, " in summaries[1]


def test_destination_that_stays_down_has_three_lines_and_then_one_every_half_minute(
    relay: MemoryRelay, log: io.StringIO
) -> None:
    relay.endpoint_error = ConnectionRefusedError("nobody there")
    relay.add_destination("one", "rtmp://one/live/key")
    lines = [line for line in two_minutes(relay, log) if "estination one" in line]
    failed = [line for line in lines if "next attempt in" in line]
    still = [line for line in lines if "is still failing after" in line]
    assert len(failed) == 3
    assert len(still) == 4
    assert lines == failed + still
    assert "still failing after 7 attempts" in still[-1]


def test_many_streams_and_destinations_do_not_fill_the_log(relay: MemoryRelay, log: io.StringIO) -> None:
    for number in range(10):
        relay.add_stub(f"s{number}")
        relay.add_destination(f"s{number}", f"rtmp://s{number}/live/{{name}}", match="live/cam")
    for number in range(25):
        relay.publish(f"other{number}")
    summaries = StreamSummaries(relay.server.registry, relay.destinations, relay.clock, 30.0)
    observer = make_observer(log, "info", "text")
    globalLogPublisher.addObserver(observer)
    try:
        relay.publish()
        summaries.start()
        before = len(log.getvalue().splitlines())
        relay.clock.advance(30)
    finally:
        globalLogPublisher.removeObserver(observer)
        summaries.stop()
    lines = log.getvalue().splitlines()[before:]
    assert len(lines) == 21
    assert "6 more streams are live" in lines[-1]


def test_summaries_end_with_their_service() -> None:
    clock = Clock()
    relay = MemoryRelay()
    summaries = StreamSummaries(relay.server.registry, relay.destinations, clock, 30.0)
    summaries.start()
    summaries.stop()
    assert clock.getDelayedCalls() == []
