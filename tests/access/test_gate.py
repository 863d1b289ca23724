"""All authorizers must allow a request. One that fails, is too slow or answers nonsense refuses it."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from rtmprelay.access.gate import ANSWER_TIMEOUT, Gate
from rtmprelay.access.request import ALLOWED, CANNOT_TELL, AccessRequest, Verdict, refused
from tests.access.helpers import Answering, Hesitating, Users, access_request, fired, raising
from tests.access.log_keeping import KeptLog


class GateTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.log = KeptLog()
        self.log.start()
        self.addCleanup(self.log.stop)

    def ask(self, *authorizers: Any, request: AccessRequest | None = None) -> list[Verdict]:
        return fired(Gate(authorizers, self.clock).ask(request or access_request()))

    def lines(self) -> list[str]:
        return self.log.lines

    def test_gate_without_authorizers_allows_everything(self) -> None:
        assert Gate((), self.clock).is_open
        assert self.ask() == [ALLOWED]

    def test_request_needs_every_authorizer_to_allow_it(self) -> None:
        no = refused("not you")
        assert self.ask(Answering(), Answering()) == [ALLOWED]
        assert self.ask(Answering(), Answering(no)) == [no]
        assert self.ask(Answering(no), Answering()) == [no]

    def test_no_authorizer_is_asked_after_a_refusal(self) -> None:
        second = Answering()
        self.ask(Answering(refused("no")), second)
        assert second.asked == []

    def test_gate_waits_for_an_authorizer_that_answers_later(self) -> None:
        slow = Hesitating()
        verdicts = self.ask(Answering(succeed(ALLOWED)), slow)
        assert verdicts == []
        slow.say(ALLOWED)
        assert verdicts == [ALLOWED]

    def test_authorizer_may_be_a_coroutine(self) -> None:
        async def authorize() -> Verdict:
            return ALLOWED

        assert self.ask(Answering(authorize)) == [ALLOWED]

    def test_authorizer_that_does_not_answer_in_time_refuses(self) -> None:
        slow = Hesitating()
        verdicts = self.ask(slow)
        self.clock.advance(ANSWER_TIMEOUT - 0.1)
        assert verdicts == []
        self.clock.advance(0.2)
        assert verdicts == [CANNOT_TELL]
        assert slow.cancelled == 1
        assert self.lines() == ["The authorizer Hesitating did not answer within 8 s"]
        assert not self.clock.getDelayedCalls()

    def test_failing_authorizer_refuses_and_its_error_text_is_not_logged(self) -> None:
        for broken in (raising(ValueError("MARKED")), fail(KeyError("MARKED"))):
            assert self.ask(Answering(broken)) == [CANNOT_TELL]
        first, second = self.lines()
        assert first.startswith("The authorizer Answering failed: ValueError in ")
        assert first.endswith(".py, line " + first.rpartition(" ")[2])
        assert "KeyError" in second
        assert not any("MARKED" in repr(event) + str(event.get("log_failure")) for event in self.log)

    def test_answer_that_is_no_verdict_refuses(self) -> None:
        for nonsense in (None, True, "yes", 1):
            assert self.ask(Answering(nonsense)) == [CANNOT_TELL]
        assert all("TypeError" in line for line in self.lines())

    def test_cancelled_request_cancels_the_authorizer_and_logs_nothing(self) -> None:
        slow = Hesitating()
        asked: Deferred[Verdict] = Gate([slow], self.clock).ask(access_request())
        asked.cancel()
        assert fired(asked) == [CANNOT_TELL]
        assert slow.cancelled == 1
        assert self.lines() == []
        assert not self.clock.getDelayedCalls()

    def test_gate_lists_the_authorizers_that_know_users(self) -> None:
        users = Users(anna="geheim")
        found: tuple[object, ...] = Gate([Answering(), users], self.clock).directories
        assert found == (users,)
