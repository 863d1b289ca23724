"""Frames that wait to be joined: nobody gets one twice, none is lost, and the order stays."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from rtmprelay.streams.fan_out import ENOUGH_BYTES, ENOUGH_FRAMES
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.merging import Merging, Pace
from tests.streams.harness import HEADERS, StreamHarness, pictures
from tests.streams.helpers import FakePublisher, video
from tests.streams.merging_helpers import ENCODER, WINDOW, Receiver, encoded


def harness_of_a_hurried_viewer(server: float = WINDOW) -> StreamHarness:
    """Servers may wait, but a viewer may not: so nothing waits in the publisher's socket, and all in the window."""
    harness = StreamHarness(0.0, server)
    harness.add()
    return harness


# -- waiting -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pace", [Pace.VIEWER, Pace.SERVER])
def test_frames_of_one_window_are_one_write(pace: Pace) -> None:
    harness = StreamHarness()
    receivers = [harness.add(pace) for _ in range(3)]
    ENCODER.calls = 0
    for time in (0, 13, 26):
        harness.send(*pictures(time))
        assert all(receiver.writes == [] for receiver in receivers)
        harness.advance(0.013)
    assert harness.timers == 1
    harness.advance(0.002)
    assert [receiver.frames for receiver in receivers] == [encoded(pictures(0, 13, 26))] * 3
    assert [len(receiver.writes) for receiver in receivers] == [1, 1, 1]
    assert ENCODER.calls == 1
    assert harness.timers == 0


def test_the_window_begins_with_the_first_frame_and_no_frame_prolongs_it() -> None:
    harness = harness_of_a_hurried_viewer(server=1 / 16)
    receiver = harness.add(Pace.SERVER)
    arrivals: list[float] = []
    for step in range(100):
        harness.send(video(step * 16, key=step == 0))
        before = len(receiver.writes)
        harness.advance(1 / 64)
        if len(receiver.writes) > before:
            arrivals.append(harness.clock.seconds())
    assert arrivals == [number / 16 for number in range(1, 26)]
    assert len(receiver.frames) == 100


@pytest.mark.parametrize("pace", list(Pace))
def test_on_an_idle_server_frames_are_there_when_the_call_returns(pace: Pace) -> None:
    clock = Clock()
    stream = LiveStream("live/cam", merging=Merging(clock, 0.04))
    stream.publisher_joined(FakePublisher(), 0.0)
    # One destination, twenty viewers: see the table of the ramp.
    receivers = [Receiver() for _ in range(1 if pace is Pace.SERVER else 20)]
    for receiver in receivers:
        stream.subscribe(receiver, pace)
    for number in range(300):
        clock.advance(1 / 73)
        stream.publish_frames([video(number * 14, key=number % 50 == 0)], clock.seconds())
        assert all(len(receiver.frames) == number + 1 for receiver in receivers)
        assert clock.getDelayedCalls() == []
        assert stream.reading_pause == 0


@pytest.mark.parametrize("longest", [0.0, None])
def test_switched_off_nothing_waits_at_any_load(longest: float | None) -> None:
    clock = Clock()
    merging = None if longest is None else Merging(clock, longest)
    stream = LiveStream("live/cam", merging=merging)
    stream.publisher_joined(FakePublisher(), 0.0)
    receivers = {pace: [Receiver() for _ in range(50)] for pace in Pace}
    for pace, some in receivers.items():
        for receiver in some:
            stream.subscribe(receiver, pace)
    for number in range(400):
        clock.advance(0.005)
        stream.publish_frames([video(number, key=number % 50 == 0)], clock.seconds())
        assert all(
            receiver.account.messages_sent == number + 1 for some in receivers.values() for receiver in some
        )
        assert clock.getDelayedCalls() == []
        assert stream.reading_pause == 0


def test_load_opens_the_window_and_its_end_closes_it() -> None:
    clock = Clock()
    merging = Merging(clock, 0.04)
    stream = LiveStream("live/cam", merging=merging)
    stream.publisher_joined(FakePublisher(), 0.0)
    crowd = [Receiver() for _ in range(200)]
    faithful = Receiver()
    for receiver in (faithful, *crowd):
        stream.subscribe(receiver)

    def play(seconds: float) -> float:
        """Send 73 frames a second; the longest that one of the last half second waited beyond the socket."""
        longest = 0.0
        for number in range(round(seconds * 73)):
            sent_at = clock.seconds()
            stream.publish_frames([video(round(sent_at * 1000), key=number % 50 == 0)], sent_at)
            if number > seconds * 73 - 36:
                longest = max(longest, 0.0 if not clock.getDelayedCalls() else 1.0)
            clock.advance(1 / 73)
        return longest

    play(1.5)
    assert stream.reading_pause == 0.04
    for receiver in crowd:
        stream.unsubscribe(receiver)
    assert play(1.5) == 0
    assert stream.reading_pause == 0
    assert faithful.account.messages_sent == stream.counters.messages


# -- enough ---------------------------------------------------------------------------------------------------


def test_enough_bytes_wait_for_nothing() -> None:
    harness = StreamHarness()
    receiver = harness.add()
    harness.send(video(0, key=True, size=ENOUGH_BYTES))
    assert len(receiver.frames) == 1
    assert harness.timers == 0


def test_enough_bytes_together_wait_no_longer() -> None:
    harness = StreamHarness()
    receiver = harness.add()
    harness.send(video(0, key=True, size=ENOUGH_BYTES - 10))
    harness.send(video(1, size=9))
    assert receiver.frames == []
    harness.send(video(2, size=1))
    assert len(receiver.frames) == 3
    assert len(receiver.writes) == 1
    assert harness.timers == 0


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_enough_frames_wait_no_longer(in_one_batch: bool) -> None:
    harness = StreamHarness()
    receiver = harness.add()
    frames = [video(time, key=time == 0) for time in range(ENOUGH_FRAMES)]
    if in_one_batch:
        harness.send(*frames)
    else:
        for frame in frames[:-1]:
            harness.send(frame)
        assert receiver.frames == []
        harness.send(frames[-1])
    assert receiver.frames == encoded(frames)
    assert harness.timers == 0


def test_the_next_window_is_a_whole_one() -> None:
    """After frames that were enough, the timer of before is gone."""
    harness = harness_of_a_hurried_viewer()
    receiver = harness.add(Pace.SERVER)
    harness.send(video(0, key=True))
    harness.advance(0.03)
    harness.send(video(30, size=ENOUGH_BYTES))
    harness.send(video(31))
    harness.advance(0.039)
    assert len(receiver.frames) == 2
    harness.advance(0.002)
    assert len(receiver.frames) == 3


# -- different paces ------------------------------------------------------------------------------------------


def test_viewers_are_not_held_because_servers_are() -> None:
    harness = StreamHarness(viewer=0.0, server=0.02)
    viewer, server, recorder = harness.add(), harness.add(Pace.SERVER), harness.add(Pace.AT_ONCE)
    harness.send(*pictures(0))
    harness.send(*pictures(1))
    assert (len(viewer.writes), len(server.writes), len(recorder.writes)) == (2, 0, 2)
    harness.advance(0.021)
    assert (len(viewer.writes), len(server.writes), len(recorder.writes)) == (2, 1, 2)
    assert viewer.frames == server.frames == recorder.frames == encoded(pictures(0, 1))


def test_recorder_gets_each_frame_as_it_comes() -> None:
    harness = StreamHarness()
    viewer, recorder = harness.add(), harness.add(Pace.AT_ONCE)
    harness.send(*pictures(0))
    assert (len(viewer.frames), len(recorder.frames)) == (0, 1)


def test_reading_pause_is_that_of_the_subscriber_with_the_shortest_window() -> None:
    harness = StreamHarness(viewer=0.04, server=0.014, reading=0.03)
    stream = harness.stream
    harness.send(*pictures(0))
    assert (stream.reading_pause, stream.is_watched) == (0.03, False)
    recorder = harness.add(Pace.AT_ONCE)
    harness.send(*pictures(1))
    assert (stream.reading_pause, stream.is_watched) == (0.03, False)
    viewer = harness.add()
    harness.send(*pictures(2))
    assert (stream.reading_pause, stream.is_watched) == (0.04, True)
    server = harness.add(Pace.SERVER)
    harness.send(*pictures(3))
    assert (stream.reading_pause, stream.is_watched) == (0.014, True)
    for receiver in (viewer, recorder, server):
        stream.unsubscribe(receiver)
    harness.send(*pictures(4))
    assert (stream.reading_pause, stream.is_watched) == (0.03, False)


def test_time_spent_in_the_socket_shortens_the_window() -> None:
    harness = StreamHarness(viewer=0.04, server=0.014)
    viewer, server = harness.add(), harness.add(Pace.SERVER)
    harness.send(*pictures(0))
    harness.advance(0.041)
    # The socket is left alone for 14 ms: a server's frames have waited enough, a viewer's have 26 ms left.
    assert harness.stream.reading_pause == 0.014
    harness.send(*pictures(50), waited=0.014)
    assert (len(viewer.frames), len(server.frames)) == (1, 2)
    harness.advance(0.025)
    assert len(viewer.frames) == 1
    harness.advance(0.002)
    assert len(viewer.frames) == 2


# -- those who come -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("newcomers_pace", list(Pace))
@pytest.mark.parametrize("pace", list(Pace))
def test_a_newcomer_gets_each_frame_once(pace: Pace, newcomers_pace: Pace) -> None:
    harness = StreamHarness()
    receiver = harness.add(pace)
    harness.send(*HEADERS, *pictures(0, 40))
    harness.send(*pictures(80))
    newcomer = harness.add(newcomers_pace)
    # What waited was handed on: it is in what the newcomer begins with.
    assert receiver.frames == encoded([*HEADERS, *pictures(0, 40, 80)])
    assert newcomer.frames == receiver.frames
    assert harness.timers == 0
    harness.send(*pictures(120))
    harness.advance(WINDOW)
    assert receiver.frames == newcomer.frames == encoded([*HEADERS, *pictures(0, 40, 80, 120)])


def test_a_newcomer_without_a_publisher_begins_with_nothing() -> None:
    harness = StreamHarness()
    harness.add()
    harness.send(*pictures(0))
    harness.registry.unpublish(harness.stream, harness.publisher, True)
    assert harness.add().log == []


# -- those who leave ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pace", [Pace.VIEWER, Pace.SERVER])
def test_no_timer_is_left_when_the_last_subscriber_leaves(pace: Pace) -> None:
    harness = StreamHarness()
    first, last = harness.add(pace), harness.add(pace)
    harness.send(*pictures(0))
    harness.stream.unsubscribe(first)
    assert harness.timers == 1
    harness.stream.unsubscribe(last)
    assert harness.timers == 0
    harness.advance(1)
    assert first.frames == last.frames == []
    # And nobody who comes later gets what waited for them, except as part of the beginning.
    assert harness.add(pace).frames == encoded(pictures(0))


def test_subscriber_that_stays_gets_the_waiting_frames() -> None:
    harness = StreamHarness()
    first, second = harness.add(), harness.add()
    harness.send(*pictures(0))
    harness.stream.unsubscribe(first)
    harness.send(*pictures(40))
    harness.advance(WINDOW)
    assert second.frames == encoded(pictures(0, 40))
    assert first.frames == []


# -- the publisher --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
def test_waiting_frames_are_delivered_before_the_end_of_the_stream(clean: bool) -> None:
    harness = StreamHarness()
    receivers = [harness.add(pace) for pace in Pace]
    harness.send(*pictures(0, 40))
    harness.registry.unpublish(harness.stream, harness.publisher, clean)
    for receiver in receivers:
        assert receiver.log == [*encoded(pictures(0, 40)), b"left"]
    assert harness.timers == 0


def test_waiting_frames_are_delivered_before_another_publisher_takes_over() -> None:
    harness = StreamHarness(viewer=6.0, server=6.0)
    receivers = [harness.add(pace) for pace in Pace]
    harness.send(*pictures(0))
    harness.advance(5.5)
    harness.registry.publish("live/cam", FakePublisher("c000002"), harness.clock.seconds())
    assert harness.publisher.superseded == 1
    assert harness.timers == 0
    for receiver in receivers:
        assert receiver.log == [*encoded(pictures(0)), b"left", b"returned"]


def test_returning_publisher_begins_a_new_window() -> None:
    harness = StreamHarness()
    receivers = [harness.add(pace) for pace in Pace]
    harness.send(*pictures(0))
    harness.registry.unpublish(harness.stream, harness.publisher, False)
    harness.registry.publish("live/cam", FakePublisher("c000002"), 0.0)
    harness.send(video(0, key=True))
    harness.advance(WINDOW)
    for receiver in receivers:
        assert receiver.log[:3] == [*encoded(pictures(0)), b"left", b"returned"]
        assert len(receiver.log) == 4


def test_a_stream_that_is_forgotten_leaves_no_timer() -> None:
    harness = StreamHarness()
    receiver = harness.add()
    harness.send(*pictures(0))
    harness.registry.unpublish(harness.stream, harness.publisher, True)
    harness.registry.leave(harness.stream, receiver)
    assert len(harness.registry) == 0
    assert harness.timers == 0
