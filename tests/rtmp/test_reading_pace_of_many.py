"""Many publishers whose sockets are left to fill: one timer, and no connection disturbs another."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing_extensions import override

from rtmprelay.rtmp.reading_pace import Reading
from tests.helpers import inter, keyframe
from tests.rtmp.paced_server import PART, WINDOW, PacedTests, reasons
from tests.streams.merging_helpers import Receiver


class ManyPublishersTests(PacedTests):
    def test_one_timer_ends_the_pauses_of_all(self) -> None:
        server = self.new_server(viewer=WINDOW)
        publishers = [server.publisher(f"cam{number}") for number in range(20)]
        viewers = [server.player(f"cam{number}") for number in range(20)]
        for _ in range(2):
            for publisher in publishers:
                publisher.send(keyframe(0))
            server.advance(WINDOW)
        timers = len(server.clock.getDelayedCalls())
        for number, publisher in enumerate(publishers):
            publisher.reads.clear()
            publisher.send(inter(40 + number))
        assert server.paused == 20
        assert len(server.clock.getDelayedCalls()) == timers + 1
        server.advance(WINDOW)
        assert [len(publisher.reads) for publisher in publishers] == [1] * 20
        for number, viewer in enumerate(viewers):
            viewer.pump()
            assert viewer.frames[-1] == inter(40 + number)

    def test_later_publisher_may_wait_less_but_never_longer(self) -> None:
        first, _ = self.watched()
        second = self.server.publisher("second")
        self.server.player("second")
        second.send(keyframe(0))
        second.send(keyframe(40))
        self.server.advance(WINDOW)
        first.reads.clear()
        second.reads.clear()
        first.send(inter(240))
        self.server.advance(2 * PART)
        self.server.merging.viewer.seconds = PART / 2
        second.send(inter(80))
        self.server.advance(2 * PART)
        assert (len(first.reads), len(second.reads)) == (1, 1)
        # From here on both have the shorter pause.
        first.send(inter(280))
        self.server.advance(PART / 2)
        assert len(first.reads) == 2

    def pause_noted(self, order: list[str], name: str, seconds: float) -> None:
        """Pause a connection that notes its name in `order` when it may be read again."""

        class Noting(Reading):
            @override
            def resume(self) -> None:
                order.append(name)

        pace = self.server.factory.reading_pace
        pace.pause(Noting(pace, None), seconds)

    def test_a_shorter_pause_does_not_wait_for_a_longer_one(self) -> None:
        order: list[str] = []
        self.pause_noted(order, "long", WINDOW)
        self.pause_noted(order, "short", PART)
        self.server.advance(PART)
        assert order == ["short"]
        self.pause_noted(order, "later", PART)
        self.server.advance(PART)
        # Half of the long pause is over: it ends too, so that there is one look at both sockets.
        assert order == ["short", "long", "later"]
        self.server.advance(WINDOW)
        assert order == ["short", "long", "later"]

    def test_a_pause_that_is_left_ends_in_time(self) -> None:
        pace = self.server.factory.reading_pace
        order: list[str] = []
        self.pause_noted(order, "long", WINDOW)
        self.pause_noted(order, "short", PART)
        self.server.advance(PART)
        assert order == ["short"]
        self.server.advance(WINDOW - 2 * PART)
        assert order == ["short"]
        self.server.advance(PART)
        assert order == ["short", "long"]
        assert not pace._paused

    def test_publisher_may_be_closed_by_the_read_of_another(self) -> None:
        """Both pauses end at the same moment; the first read takes the other connection down."""
        first, _ = self.watched()
        second = self.server.publisher("second")
        self.server.player("second")
        second.send(keyframe(0))
        second.send(keyframe(40))
        self.server.advance(WINDOW)
        first.send(inter(240))
        second.send(inter(80))
        assert self.server.paused == 2

        class Ending(Receiver):
            @override
            def keep(_, data: bytes) -> None:  # noqa: N805
                second.protocol.close_now("the first one ends it")

        self.server.registry.live("live/cam").subscribe(Ending())
        self.server.advance(WINDOW)
        second_reasons = reasons(self.server.told_of(second))
        assert second_reasons[-1] == ("connection_closed", "the first one ends it")
        assert self.server.paused == 0
        assert first.transport in self.server.readers

    def test_failing_socket_leaves_no_other_unread(self) -> None:
        publishers = [self.server.publisher(f"cam{number}") for number in range(3)]
        for number in range(3):
            self.server.player(f"cam{number}")
        for publisher in publishers:
            publisher.send(keyframe(0))
            publisher.send(keyframe(40))
        self.server.advance(WINDOW)
        for publisher in publishers:
            publisher.reads.clear()
            publisher.send(inter(80))
        assert self.server.paused == 3

        def fail() -> None:
            raise OSError("a bug")

        publishers[0].transport.resumeProducing = fail
        self.server.advance(WINDOW)
        assert [len(publisher.reads) for publisher in publishers] == [1, 1, 1]
        assert self.server.paused == 0
        for publisher in publishers[1:]:
            assert publisher.transport in self.server.readers
        assert len(self.flushLoggedErrors(OSError)) == 1

    def test_failure_in_reading_closes_that_connection_alone(self) -> None:
        first, _ = self.watched()
        second = self.server.publisher("second")
        self.server.player("second")
        second.send(keyframe(0))
        second.send(keyframe(40))
        self.server.advance(WINDOW)
        second.reads.clear()
        first.send(inter(240))
        second.send(inter(80))

        def fail(data: bytes) -> None:
            raise ValueError("a bug")

        first.protocol.dataReceived = fail  # type: ignore[method-assign]
        self.server.advance(WINDOW)
        assert reasons(self.server.told_of(first))[-1] == ("connection_closed", "a bug")
        assert len(second.reads) == 1
        assert len(self.flushLoggedErrors(ValueError)) == 1
