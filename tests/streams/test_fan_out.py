"""Frames that wait to be joined: nobody gets one twice, none is lost, and the order stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from typing_extensions import override

from rtmprelay.media import MediaFrame
from rtmprelay.streams.fan_out import ENOUGH_BYTES, ENOUGH_FRAMES
from rtmprelay.streams.frames import FrameBatch
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.merging import Merging, Pace
from rtmprelay.streams.registry import StreamRegistry
from tests.streams.helpers import FakePublisher, audio_header, video, video_header
from tests.streams.merging_helpers import ENCODER, WINDOW, FixedMerging, Meddler, Receiver, encoded

HEADERS = [video_header(), audio_header()]


class Scene:
    """A stream with windows as the test wants them, and everybody who listens to it."""

    def __init__(self, viewer: float = WINDOW, server: float = WINDOW, reading: float = 0.0) -> None:
        self.clock = Clock()
        self.merging = FixedMerging(self.clock, viewer, server, reading)
        self.registry = StreamRegistry(merging=self.merging)
        self.publisher = FakePublisher()
        self.stream = self.registry.publish("live/cam", self.publisher, 0.0)
        self.receivers: list[Receiver] = []

    def add(self, pace: Pace = Pace.VIEWER, receiver: Receiver | None = None) -> Receiver:
        """One more subscriber."""
        receiver = receiver or Receiver()
        self.receivers.append(receiver)
        self.stream.subscribe(receiver, pace)
        self.check()
        return receiver

    def send(self, *frames: MediaFrame, waited: float = 0.0) -> None:
        """Frames come in together."""
        self.stream.publish_frames(frames, self.clock.seconds(), waited)
        self.check()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.check()

    def check(self) -> None:
        """Every message is accounted for, at every step."""
        for receiver in self.receivers:
            assert receiver.is_balanced
            assert receiver.account.messages_sent == len(receiver.frames)

    @property
    def timers(self) -> int:
        return len(self.clock.getDelayedCalls())


def impatient_scene(server: float = WINDOW) -> Scene:
    """Servers may wait, but a viewer may not: so nothing waits in the publisher's socket, and all in the window."""
    scene = Scene(0.0, server)
    scene.add()
    return scene


def pictures(*times: int) -> list[MediaFrame]:
    """A keyframe at 0, other pictures behind it."""
    return [video(time, key=time == 0) for time in times]


# -- waiting -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pace", [Pace.VIEWER, Pace.SERVER])
def test_frames_of_one_window_are_one_write(pace: Pace) -> None:
    scene = Scene()
    receivers = [scene.add(pace) for _ in range(3)]
    ENCODER.calls = 0
    for time in (0, 13, 26):
        scene.send(*pictures(time))
        assert all(receiver.writes == [] for receiver in receivers)
        scene.advance(0.013)
    assert scene.timers == 1
    scene.advance(0.002)
    assert [receiver.frames for receiver in receivers] == [encoded(pictures(0, 13, 26))] * 3
    assert [len(receiver.writes) for receiver in receivers] == [1, 1, 1]
    assert ENCODER.calls == 1
    assert scene.timers == 0


def test_the_window_begins_with_the_first_frame_and_no_frame_prolongs_it() -> None:
    scene = impatient_scene(server=1 / 16)
    receiver = scene.add(Pace.SERVER)
    arrivals: list[float] = []
    for step in range(100):
        scene.send(video(step * 16, key=step == 0))
        before = len(receiver.writes)
        scene.advance(1 / 64)
        if len(receiver.writes) > before:
            arrivals.append(scene.clock.seconds())
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
    scene = Scene()
    receiver = scene.add()
    scene.send(video(0, key=True, size=ENOUGH_BYTES))
    assert len(receiver.frames) == 1
    assert scene.timers == 0


def test_enough_bytes_together_wait_no_longer() -> None:
    scene = Scene()
    receiver = scene.add()
    scene.send(video(0, key=True, size=ENOUGH_BYTES - 10))
    scene.send(video(1, size=9))
    assert receiver.frames == []
    scene.send(video(2, size=1))
    assert len(receiver.frames) == 3
    assert len(receiver.writes) == 1
    assert scene.timers == 0


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_enough_frames_wait_no_longer(in_one_batch: bool) -> None:
    scene = Scene()
    receiver = scene.add()
    frames = [video(time, key=time == 0) for time in range(ENOUGH_FRAMES)]
    if in_one_batch:
        scene.send(*frames)
    else:
        for frame in frames[:-1]:
            scene.send(frame)
        assert receiver.frames == []
        scene.send(frames[-1])
    assert receiver.frames == encoded(frames)
    assert scene.timers == 0


def test_the_next_window_is_a_whole_one() -> None:
    """After frames that were enough, the timer of before is gone."""
    scene = impatient_scene()
    receiver = scene.add(Pace.SERVER)
    scene.send(video(0, key=True))
    scene.advance(0.03)
    scene.send(video(30, size=ENOUGH_BYTES))
    scene.send(video(31))
    scene.advance(0.039)
    assert len(receiver.frames) == 2
    scene.advance(0.002)
    assert len(receiver.frames) == 3


# -- different paces ------------------------------------------------------------------------------------------


def test_viewers_are_not_held_because_servers_are() -> None:
    scene = Scene(viewer=0.0, server=0.02)
    viewer, server, recorder = scene.add(), scene.add(Pace.SERVER), scene.add(Pace.AT_ONCE)
    scene.send(*pictures(0))
    scene.send(*pictures(1))
    assert (len(viewer.writes), len(server.writes), len(recorder.writes)) == (2, 0, 2)
    scene.advance(0.021)
    assert (len(viewer.writes), len(server.writes), len(recorder.writes)) == (2, 1, 2)
    assert viewer.frames == server.frames == recorder.frames == encoded(pictures(0, 1))


def test_a_recorder_gets_each_frame_as_it_comes() -> None:
    scene = Scene()
    viewer, recorder = scene.add(), scene.add(Pace.AT_ONCE)
    scene.send(*pictures(0))
    assert (len(viewer.frames), len(recorder.frames)) == (0, 1)


def test_the_socket_waits_only_as_long_as_whoever_is_in_the_greatest_hurry() -> None:
    scene = Scene(viewer=0.04, server=0.014, reading=0.03)
    stream = scene.stream
    scene.send(*pictures(0))
    assert (stream.reading_pause, stream.is_watched) == (0.03, False)
    recorder = scene.add(Pace.AT_ONCE)
    scene.send(*pictures(1))
    assert (stream.reading_pause, stream.is_watched) == (0.03, False)
    viewer = scene.add()
    scene.send(*pictures(2))
    assert (stream.reading_pause, stream.is_watched) == (0.04, True)
    server = scene.add(Pace.SERVER)
    scene.send(*pictures(3))
    assert (stream.reading_pause, stream.is_watched) == (0.014, True)
    for receiver in (viewer, recorder, server):
        stream.unsubscribe(receiver)
    scene.send(*pictures(4))
    assert (stream.reading_pause, stream.is_watched) == (0.03, False)


def test_what_waited_in_the_socket_waits_so_much_less_here() -> None:
    scene = Scene(viewer=0.04, server=0.014)
    viewer, server = scene.add(), scene.add(Pace.SERVER)
    scene.send(*pictures(0))
    scene.advance(0.041)
    # The socket is left alone for 14 ms: a server's frames have waited enough, a viewer's have 26 ms left.
    assert scene.stream.reading_pause == 0.014
    scene.send(*pictures(50), waited=0.014)
    assert (len(viewer.frames), len(server.frames)) == (1, 2)
    scene.advance(0.025)
    assert len(viewer.frames) == 1
    scene.advance(0.002)
    assert len(viewer.frames) == 2


# -- those who come -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("newcomers_pace", list(Pace))
@pytest.mark.parametrize("pace", list(Pace))
def test_a_newcomer_gets_each_frame_once(pace: Pace, newcomers_pace: Pace) -> None:
    scene = Scene()
    receiver = scene.add(pace)
    scene.send(*HEADERS, *pictures(0, 40))
    scene.send(*pictures(80))
    newcomer = scene.add(newcomers_pace)
    # What waited was handed on: it is in what the newcomer begins with.
    assert receiver.frames == encoded([*HEADERS, *pictures(0, 40, 80)])
    assert newcomer.frames == receiver.frames
    assert scene.timers == 0
    scene.send(*pictures(120))
    scene.advance(WINDOW)
    assert receiver.frames == newcomer.frames == encoded([*HEADERS, *pictures(0, 40, 80, 120)])


def test_a_newcomer_without_a_publisher_begins_with_nothing() -> None:
    scene = Scene()
    scene.add()
    scene.send(*pictures(0))
    scene.registry.unpublish(scene.stream, scene.publisher, True)
    assert scene.add().log == []


# -- those who leave ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pace", [Pace.VIEWER, Pace.SERVER])
def test_the_last_one_to_leave_leaves_no_timer_behind(pace: Pace) -> None:
    scene = Scene()
    first, last = scene.add(pace), scene.add(pace)
    scene.send(*pictures(0))
    scene.stream.unsubscribe(first)
    assert scene.timers == 1
    scene.stream.unsubscribe(last)
    assert scene.timers == 0
    scene.advance(1)
    assert first.frames == last.frames == []
    # And nobody who comes later gets what waited for them, except as part of the beginning.
    assert scene.add(pace).frames == encoded(pictures(0))


def test_whoever_stays_gets_what_waited() -> None:
    scene = Scene()
    first, second = scene.add(), scene.add()
    scene.send(*pictures(0))
    scene.stream.unsubscribe(first)
    scene.send(*pictures(40))
    scene.advance(WINDOW)
    assert second.frames == encoded(pictures(0, 40))
    assert first.frames == []


# -- the publisher --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
def test_what_waits_is_delivered_before_the_end_is_told(clean: bool) -> None:
    scene = Scene()
    receivers = [scene.add(pace) for pace in Pace]
    scene.send(*pictures(0, 40))
    scene.registry.unpublish(scene.stream, scene.publisher, clean)
    for receiver in receivers:
        assert receiver.log == [*encoded(pictures(0, 40)), b"left"]
    assert scene.timers == 0


def test_what_waits_is_delivered_before_another_publisher_takes_over() -> None:
    scene = Scene(viewer=6.0, server=6.0)
    receivers = [scene.add(pace) for pace in Pace]
    scene.send(*pictures(0))
    scene.advance(5.5)
    scene.registry.publish("live/cam", FakePublisher("c000002"), scene.clock.seconds())
    assert scene.publisher.superseded == 1
    assert scene.timers == 0
    for receiver in receivers:
        assert receiver.log == [*encoded(pictures(0)), b"left", b"returned"]


def test_a_publisher_that_returns_begins_anew() -> None:
    scene = Scene()
    receivers = [scene.add(pace) for pace in Pace]
    scene.send(*pictures(0))
    scene.registry.unpublish(scene.stream, scene.publisher, False)
    scene.registry.publish("live/cam", FakePublisher("c000002"), 0.0)
    scene.send(video(0, key=True))
    scene.advance(WINDOW)
    for receiver in receivers:
        assert receiver.log[:3] == [*encoded(pictures(0)), b"left", b"returned"]
        assert len(receiver.log) == 4


def test_a_stream_that_is_forgotten_leaves_no_timer() -> None:
    scene = Scene()
    receiver = scene.add()
    scene.send(*pictures(0))
    scene.registry.unpublish(scene.stream, scene.publisher, True)
    scene.registry.leave(scene.stream, receiver)
    assert len(scene.registry) == 0
    assert scene.timers == 0


# -- those who fail -------------------------------------------------------------------------------------------


def fail() -> None:
    raise ValueError("a bug")


@pytest.mark.parametrize("phase", ["asked", "writing"])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_one_that_fails_costs_nobody_else_anything(phase: str, position: int) -> None:
    scene = Scene()
    good: list[Receiver] = []
    for number in range(3):
        if number == position:
            scene.stream.subscribe(Meddler(**{phase: fail}))
        good.append(scene.add())
    scene.send(*pictures(0))
    with capturedLogs() as logged:
        scene.advance(WINDOW)
    scene.send(*pictures(40))
    scene.advance(WINDOW)
    assert [receiver.frames for receiver in good] == [encoded(pictures(0, 40))] * 3
    (line,) = logged
    assert line["log_format"].startswith("A consumer of {stream} failed")
    assert line["log_failure"].type is ValueError
    assert scene.stream.subscribers == tuple(good)


def test_one_that_fails_at_the_beginning_of_a_window_leaves_no_timer() -> None:
    scene = Scene(viewer=0.0)
    scene.stream.subscribe(Meddler(writing=fail))
    with capturedLogs() as logged:
        scene.send(*pictures(0))
    assert len(logged) == 1
    assert scene.stream.subscribers == ()
    assert scene.timers == 0


# -- those who do something in the middle of a delivery -------------------------------------------------------

#: Both windows closed, and both open: in the second case it happens when what waited is handed on.
BOTH_WINDOWS = pytest.mark.parametrize("seconds", [0.0, WINDOW])
IN_EACH_PHASE = pytest.mark.parametrize("phase", ["asked", "writing"])


class Middle:
    """A meddler between two others at each pace, who does something when frames come."""

    def __init__(self, seconds: float, phase: str, meddlers_pace: Pace = Pace.VIEWER) -> None:
        self.scene = Scene(seconds, seconds)
        self.scene.send(*HEADERS, *pictures(0))
        self.expected = [*HEADERS, *pictures(0, 40, 80)]
        self.action: Callable[[], None] = lambda: None
        self.before = [self.scene.add(pace) for pace in Pace]
        self.meddler = self.scene.add(meddlers_pace, Meddler(**{phase: lambda: self.action()}))
        self.after = [self.scene.add(pace) for pace in Pace]

    def run(self) -> None:
        """Send, with the action in the middle of it; then once more, undisturbed."""
        self.scene.send(*pictures(40))
        self.scene.advance(WINDOW)
        self.scene.send(*pictures(80))
        self.scene.advance(WINDOW)
        assert self.scene.timers == 0

    def assert_complete(self, *others: Receiver) -> None:
        for receiver in (*self.before, *self.after, *others):
            assert receiver.frames == encoded(self.expected)


@BOTH_WINDOWS
@IN_EACH_PHASE
@pytest.mark.parametrize("meddlers_pace", list(Pace))
@pytest.mark.parametrize("newcomers_pace", list(Pace))
def test_one_that_brings_a_newcomer(
    seconds: float, phase: str, meddlers_pace: Pace, newcomers_pace: Pace
) -> None:
    """The newcomer gets each frame exactly once, also those that are being delivered just then."""
    middle = Middle(seconds, phase, meddlers_pace)
    newcomer = Receiver()
    middle.action = lambda: middle.scene.stream.subscribe(newcomer, newcomers_pace)
    middle.run()
    middle.assert_complete(middle.meddler, newcomer)


@BOTH_WINDOWS
@IN_EACH_PHASE
def test_one_that_leaves(seconds: float, phase: str) -> None:
    middle = Middle(seconds, phase)
    middle.action = lambda: middle.scene.stream.unsubscribe(middle.meddler)
    middle.run()
    middle.assert_complete()
    assert middle.meddler.frames == encoded(middle.expected[:-1])


@BOTH_WINDOWS
@IN_EACH_PHASE
def test_one_that_closes_another(seconds: float, phase: str) -> None:
    """Whoever was asked already is not written to any more; whoever was not is not asked either."""
    middle = Middle(seconds, phase)
    _, asked, _ = middle.before
    _, not_asked, _ = middle.after
    account = not_asked.account

    def close_both() -> None:
        for receiver in (asked, not_asked):
            receiver.close()
            middle.scene.registry.leave(middle.scene.stream, receiver)

    middle.action = close_both
    before = account.messages_in
    # The figures of those who are closed between being asked and being written to say "sent": that is checked below.
    middle.scene.receivers.clear()
    middle.run()
    middle.before.remove(asked)
    middle.after.remove(not_asked)
    middle.assert_complete(middle.meddler)
    assert asked.is_balanced
    assert not_asked.is_balanced
    if phase == "asked":
        assert account.messages_in == before
        assert asked.frames == not_asked.frames == encoded(middle.expected[:-2])


@BOTH_WINDOWS
@IN_EACH_PHASE
@pytest.mark.parametrize("clean", [True, False])
def test_one_that_ends_the_publish(seconds: float, phase: str, clean: bool) -> None:
    """Everybody else gets all frames, and hears of the end behind them."""
    middle = Middle(seconds, phase)
    scene = middle.scene
    middle.action = lambda: scene.registry.unpublish(scene.stream, scene.publisher, clean)
    scene.send(*pictures(40))
    scene.advance(WINDOW)
    for receiver in (*middle.before, *middle.after):
        assert receiver.log == [*encoded(middle.expected[:-1]), b"left"]
    assert middle.meddler.frames == encoded(middle.expected[:-1])
    assert scene.timers == 0


@BOTH_WINDOWS
@IN_EACH_PHASE
def test_one_that_empties_the_stream(seconds: float, phase: str) -> None:
    """No timer is left for nobody, at whichever pace."""
    middle = Middle(seconds, phase)
    scene = middle.scene

    def empty() -> None:
        for receiver in list(scene.stream.subscribers):
            scene.stream.unsubscribe(receiver)

    middle.action = empty
    scene.receivers.clear()
    scene.send(*pictures(40))
    scene.advance(WINDOW)
    assert scene.stream.subscribers == ()
    assert scene.timers == 0


@BOTH_WINDOWS
@IN_EACH_PHASE
def test_frames_that_come_in_the_middle_of_a_delivery(seconds: float, phase: str) -> None:
    """A publisher in this very process, say: the order stays."""
    middle = Middle(seconds, phase)
    scene = middle.scene
    extra = [video(41), video(42)]

    def publish() -> None:
        scene.stream.publish_frames(extra, scene.clock.seconds())
        scene.stream.flush()

    middle.action = publish
    scene.send(*pictures(40))
    scene.advance(WINDOW)
    for receiver in (*middle.before, *middle.after):
        assert receiver.frames == encoded([*HEADERS, *pictures(0, 40), *extra])


def test_nothing_is_written_before_everybody_was_asked() -> None:
    """Writes come one right behind the other: see `FanOut`."""
    order: list[str] = []

    class Noting(Receiver):
        @override
        def frames_arrived(self, batch: FrameBatch) -> bytes | None:
            order.append("asked")
            return super().frames_arrived(batch)

        @override
        def keep(self, data: bytes) -> None:
            order.append("written")
            super().keep(data)

    scene = Scene(viewer=0.0)
    for _ in range(3):
        scene.add(receiver=Noting())
    scene.send(*pictures(0))
    assert order == ["asked"] * 3 + ["written"] * 3


def test_a_transport_that_fills_up_with_the_first_of_two_writes() -> None:
    """Two consumers of one connection: both were asked, so both write; from then on both wait."""
    scene = Scene(viewer=0.0)
    first, second = scene.add(), scene.add()

    def full(write: Callable[[bytes], None]) -> Callable[[bytes], None]:
        def write_and_fill(data: bytes) -> None:
            write(data)
            first.transport_full()
            second.transport_full()

        return write_and_fill

    first.attach(full(first.keep), ENCODER)
    scene.send(*pictures(0))
    scene.send(*pictures(40))
    assert first.frames == second.frames == encoded(pictures(0))
    assert (first.messages_queued, second.messages_queued) == (1, 1)
    scene.check()
