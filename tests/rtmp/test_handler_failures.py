"""A bug in a handler costs one connection, and is logged with its traceback."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from rtmprelay import events
from rtmprelay.testing import MemoryServer
from tests.helpers import audio, keyframe


class BugTests(SynchronousTestCase):
    """A bug of ours costs one connection, and is logged with its traceback."""

    def setUp(self) -> None:
        self.server = MemoryServer()
        self.encoder = self.server.connect()
        self.encoder.publish("cam")

    def planted(self, *_arguments: object) -> None:
        raise ZeroDivisionError("planted")

    def breaks(self, act: Callable[[], None], times: int = 1) -> None:
        act()
        assert len(self.flushLoggedErrors(ZeroDivisionError)) == times

    def test_an_exception_in_a_handler_closes_only_that_connection(self) -> None:
        good = self.server.connect()
        good.play("cam")
        bad = self.server.connect()
        self.patch(self.server.registry, "live", self.planted)
        self.breaks(lambda: bad.play("cam"))
        assert bad.transport.aborted
        (closed,) = self.server.events_of(events.ConnectionClosed)
        assert (closed.connection, closed.reason, closed.limit) == ("c000003", "an internal error", None)
        self.encoder.send(keyframe(0))
        assert good.frames == [keyframe(0)]

    def test_an_exception_in_one_player_does_not_reach_the_publisher(self) -> None:
        good, bad = self.server.connect(), self.server.connect()
        bad.play("cam")
        good.play("cam")
        (player,) = bad.connection.protocol.consumers()
        self.patch(player, "frames_arrived", self.planted)
        self.breaks(lambda: self.encoder.send(keyframe(0)))
        self.encoder.send(audio(40))
        assert good.frames == [keyframe(0), audio(40)]
        assert not self.encoder.connection.lost

    def test_failing_sink_is_logged_and_other_sinks_get_the_event(self) -> None:
        bus = self.server.factory.events
        sink = MemoryServer()
        self.patch(sink, "event_happened", self.planted)
        late = MemoryServer()
        bus.add_sink(sink)
        bus.add_sink(late)
        self.breaks(self.encoder.disconnect, times=2)
        assert [event.name for event in late.events] == ["publish_stopped", "connection_closed"]
