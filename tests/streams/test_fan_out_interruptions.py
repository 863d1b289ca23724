"""Subscribers that fail, leave, or change the stream while frames are handed to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from twisted.logger import capturedLogs
from typing_extensions import override

from rtmprelay.streams.frames import FrameBatch
from rtmprelay.streams.merging import Pace
from tests.streams.harness import HEADERS, StreamHarness, pictures
from tests.streams.helpers import video
from tests.streams.merging_helpers import ENCODER, WINDOW, Meddler, Receiver, encoded

# -- those who fail -------------------------------------------------------------------------------------------


def fail() -> None:
    raise ValueError("a bug")


@pytest.mark.parametrize("phase", ["asked", "writing"])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_failing_subscriber_is_removed_and_others_get_every_frame(phase: str, position: int) -> None:
    harness = StreamHarness()
    good: list[Receiver] = []
    for number in range(3):
        if number == position:
            harness.stream.subscribe(Meddler(**{phase: fail}))
        good.append(harness.add())
    harness.send(*pictures(0))
    with capturedLogs() as logged:
        harness.advance(WINDOW)
    harness.send(*pictures(40))
    harness.advance(WINDOW)
    assert [receiver.frames for receiver in good] == [encoded(pictures(0, 40))] * 3
    (line,) = logged
    assert line["log_format"].startswith("A consumer of {stream} failed")
    assert line["log_failure"].type is ValueError
    assert harness.stream.subscribers == tuple(good)


def test_subscriber_failing_at_the_start_of_a_window_leaves_no_timer() -> None:
    harness = StreamHarness(viewer=0.0)
    harness.stream.subscribe(Meddler(writing=fail))
    with capturedLogs() as logged:
        harness.send(*pictures(0))
    assert len(logged) == 1
    assert harness.stream.subscribers == ()
    assert harness.timers == 0


# -- those who do something in the middle of a delivery -------------------------------------------------------

#: Both windows closed, and both open: in the second case it happens when what waited is handed on.
BOTH_WINDOWS = pytest.mark.parametrize("seconds", [0.0, WINDOW])
IN_EACH_PHASE = pytest.mark.parametrize("phase", ["asked", "writing"])


class Middle:
    """A meddler between two others at each pace, who does something when frames come."""

    def __init__(self, seconds: float, phase: str, meddlers_pace: Pace = Pace.VIEWER) -> None:
        self.harness = StreamHarness(seconds, seconds)
        self.harness.send(*HEADERS, *pictures(0))
        self.expected = [*HEADERS, *pictures(0, 40, 80)]
        self.action: Callable[[], None] = lambda: None
        self.before = [self.harness.add(pace) for pace in Pace]
        self.meddler = self.harness.add(meddlers_pace, Meddler(**{phase: lambda: self.action()}))
        self.after = [self.harness.add(pace) for pace in Pace]

    def run(self) -> None:
        """Send, with the action in the middle of it; then once more, undisturbed."""
        self.harness.send(*pictures(40))
        self.harness.advance(WINDOW)
        self.harness.send(*pictures(80))
        self.harness.advance(WINDOW)
        assert self.harness.timers == 0

    def assert_complete(self, *others: Receiver) -> None:
        for receiver in (*self.before, *self.after, *others):
            assert receiver.frames == encoded(self.expected)


@BOTH_WINDOWS
@IN_EACH_PHASE
@pytest.mark.parametrize("meddlers_pace", list(Pace))
@pytest.mark.parametrize("newcomers_pace", list(Pace))
def test_newcomer_subscribed_during_a_delivery_gets_each_frame_once(
    seconds: float, phase: str, meddlers_pace: Pace, newcomers_pace: Pace
) -> None:
    """The newcomer gets each frame exactly once, also those that are being delivered just then."""
    middle = Middle(seconds, phase, meddlers_pace)
    newcomer = Receiver()
    middle.action = lambda: middle.harness.stream.subscribe(newcomer, newcomers_pace)
    middle.run()
    middle.assert_complete(middle.meddler, newcomer)


@BOTH_WINDOWS
@IN_EACH_PHASE
def test_subscriber_that_leaves_during_a_delivery_gets_no_later_frames(seconds: float, phase: str) -> None:
    middle = Middle(seconds, phase)
    middle.action = lambda: middle.harness.stream.unsubscribe(middle.meddler)
    middle.run()
    middle.assert_complete()
    assert middle.meddler.frames == encoded(middle.expected[:-1])


@BOTH_WINDOWS
@IN_EACH_PHASE
def test_subscriber_closed_during_a_delivery_is_not_written_to(seconds: float, phase: str) -> None:
    """A subscriber that was asked already is not written to any more; one that was not is not asked."""
    middle = Middle(seconds, phase)
    _, asked, _ = middle.before
    _, not_asked, _ = middle.after
    account = not_asked.account

    def close_both() -> None:
        for receiver in (asked, not_asked):
            receiver.close()
            middle.harness.registry.leave(middle.harness.stream, receiver)

    middle.action = close_both
    before = account.messages_in
    # The figures of those who are closed between being asked and being written to say "sent": that is checked below.
    middle.harness.receivers.clear()
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
def test_publish_ended_during_a_delivery_reaches_others_after_the_frames(
    seconds: float, phase: str, clean: bool
) -> None:
    """Everybody else gets all frames, and is told of the end after them."""
    middle = Middle(seconds, phase)
    harness = middle.harness
    middle.action = lambda: harness.registry.unpublish(harness.stream, harness.publisher, clean)
    harness.send(*pictures(40))
    harness.advance(WINDOW)
    for receiver in (*middle.before, *middle.after):
        assert receiver.log == [*encoded(middle.expected[:-1]), b"left"]
    assert middle.meddler.frames == encoded(middle.expected[:-1])
    assert harness.timers == 0


@BOTH_WINDOWS
@IN_EACH_PHASE
def test_stream_emptied_during_a_delivery_leaves_no_timer(seconds: float, phase: str) -> None:
    """No timer is left for nobody, at whichever pace."""
    middle = Middle(seconds, phase)
    harness = middle.harness

    def empty() -> None:
        for receiver in list(harness.stream.subscribers):
            harness.stream.unsubscribe(receiver)

    middle.action = empty
    harness.receivers.clear()
    harness.send(*pictures(40))
    harness.advance(WINDOW)
    assert harness.stream.subscribers == ()
    assert harness.timers == 0


@BOTH_WINDOWS
@IN_EACH_PHASE
def test_frames_published_during_a_delivery_keep_the_order(seconds: float, phase: str) -> None:
    """A publisher in this very process, say: the order stays."""
    middle = Middle(seconds, phase)
    harness = middle.harness
    extra = [video(41), video(42)]

    def publish() -> None:
        harness.stream.publish_frames(extra, harness.clock.seconds())
        harness.stream.flush()

    middle.action = publish
    harness.send(*pictures(40))
    harness.advance(WINDOW)
    for receiver in (*middle.before, *middle.after):
        assert receiver.frames == encoded([*HEADERS, *pictures(0, 40), *extra])


def test_every_subscriber_is_asked_before_anything_is_written() -> None:
    """Writes come one right after the other: see `FanOut`."""
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

    harness = StreamHarness(viewer=0.0)
    for _ in range(3):
        harness.add(receiver=Noting())
    harness.send(*pictures(0))
    assert order == ["asked"] * 3 + ["written"] * 3


def test_two_consumers_of_a_transport_that_fills_up_both_write_and_then_wait() -> None:
    """Two consumers of one connection: both were asked, so both write; from then on both wait."""
    harness = StreamHarness(viewer=0.0)
    first, second = harness.add(), harness.add()

    def full(write: Callable[[bytes], None]) -> Callable[[bytes], None]:
        def write_and_fill(data: bytes) -> None:
            write(data)
            first.transport_full()
            second.transport_full()

        return write_and_fill

    first.attach(full(first.keep), ENCODER)
    harness.send(*pictures(0))
    harness.send(*pictures(40))
    assert first.frames == second.frames == encoded(pictures(0))
    assert (first.messages_queued, second.messages_queued) == (1, 1)
    harness.check()
