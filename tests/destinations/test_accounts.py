"""Every message is accounted for, whatever happens in whatever order."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from tests.destinations.random_steps import STEPS, Walker
from tests.destinations.test_merging import WINDOW, relay_with


class AccountTests(SynchronousTestCase):
    @settings(max_examples=100)
    @given(st.lists(st.sampled_from(STEPS), max_size=25))
    def test_every_message_is_accounted_for_at_every_step(self, steps: list[str]) -> None:
        walker = Walker()
        for step in steps:
            getattr(walker, step)()
            walker.check()
        walker.go_on()
        walker.end_source()
        walker.relay.advance(15)
        walker.check()
        for name in ("one", "two"):
            assert walker.relay.status(name).outlets == ()
        stopped = walker.relay.destinations.stop()
        walker.relay.pump()
        self.successResultOf(stopped)


class MergingWalker(Walker):
    """The same, with frames that wait; a viewer who may not wait is there all the time."""

    def __init__(self) -> None:
        super().__init__(relay_with(WINDOW))

    @override
    def publish(self) -> None:
        came_back = self.encoder is None
        super().publish()
        if came_back:
            viewer = self.relay.server.connect()
            viewer.play("cam")

    def wait_a_little(self) -> None:
        self.relay.advance(0.05, step=0.05)


class MergingAccountTests(SynchronousTestCase):
    @settings(max_examples=100)
    @given(st.lists(st.sampled_from([*STEPS, "wait_a_little"]), max_size=25))
    def test_every_message_is_accounted_for_at_every_step(self, steps: list[str]) -> None:
        walker = MergingWalker()
        for step in steps:
            getattr(walker, step)()
            walker.check()
        walker.go_on()
        walker.end_source()
        walker.relay.advance(15)
        walker.check()
        stopped = walker.relay.destinations.stop()
        walker.relay.pump()
        self.successResultOf(stopped)
