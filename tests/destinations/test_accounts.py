"""Every message is accounted for, whatever happens in whatever order."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase
from typing_extensions import override

from tests.destinations.random_steps import STEPS, RandomSteps
from tests.destinations.test_merging import WINDOW, relay_with
from tests.rounds import rounds


class MergingSteps(RandomSteps):
    """The same steps with frames that wait to be merged, and with a viewer, whose frames do not wait."""

    def __init__(self) -> None:
        super().__init__(relay_with(WINDOW))

    @override
    def publish(self) -> None:
        was_away = self.encoder is None
        super().publish()
        if was_away:
            viewer = self.relay.server.connect()
            viewer.play("cam")

    def wait_a_little(self) -> None:
        self.relay.advance(0.05, step=0.05)


class AccountTests(SynchronousTestCase):
    def assert_accounted_for(self, walk: RandomSteps, steps: list[str]) -> None:
        for step in steps:
            getattr(walk, step)()
            walk.check()
        walk.finish()
        for name in ("one", "two"):
            assert walk.relay.status(name).outlets == ()
        stopped = walk.relay.destinations.stop()
        walk.relay.pump()
        self.successResultOf(stopped)

    @settings(max_examples=rounds(20, full=100))
    @given(st.lists(st.sampled_from(STEPS), max_size=25))
    def test_every_message_is_accounted_for_at_every_step(self, steps: list[str]) -> None:
        self.assert_accounted_for(RandomSteps(), steps)

    @settings(max_examples=rounds(20, full=100))
    @given(st.lists(st.sampled_from([*STEPS, "wait_a_little"]), max_size=25))
    def test_every_message_is_accounted_for_when_frames_are_merged(self, steps: list[str]) -> None:
        self.assert_accounted_for(MergingSteps(), steps)
