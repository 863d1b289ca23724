"""All authorizers must allow it; one that fails, is too slow or answers nonsense lets nobody in."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from rtmprelay.access.gate import ANSWER_TIMEOUT, Gate
from rtmprelay.access.request import ALLOWED, CANNOT_TELL, AccessRequest, Verdict, refused
from tests.access.helpers import Answering, Hesitating, Users, fired, raising, wish
from tests.access.log_keeping import KeptLog


class GateTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.log = KeptLog()
        self.log.start()
        self.addCleanup(self.log.stop)

    def ask(self, *authorizers: Any, request: AccessRequest | None = None) -> list[Verdict]:
        return fired(Gate(authorizers, self.clock).ask(request or wish()))

    def lines(self) -> list[str]:
        return self.log.lines

    def test_without_authorizers_everybody_is_let_through(self) -> None:
        assert Gate((), self.clock).is_open
        assert self.ask() == [ALLOWED]

    def test_all_must_allow(self) -> None:
        no = refused("not you")
        assert self.ask(Answering(), Answering()) == [ALLOWED]
        assert self.ask(Answering(), Answering(no)) == [no]
        assert self.ask(Answering(no), Answering()) == [no]

    def test_behind_a_no_nobody_is_asked(self) -> None:
        second = Answering()
        self.ask(Answering(refused("no")), second)
        assert second.asked == []

    def test_answers_that_come_later(self) -> None:
        slow = Hesitating()
        verdicts = self.ask(Answering(succeed(ALLOWED)), slow)
        assert verdicts == []
        slow.say(ALLOWED)
        assert verdicts == [ALLOWED]

    def test_a_coroutine_will_do(self) -> None:
        async def authorize() -> Verdict:
            return ALLOWED

        assert self.ask(Answering(authorize)) == [ALLOWED]

    def test_one_that_does_not_answer(self) -> None:
        slow = Hesitating()
        verdicts = self.ask(slow)
        self.clock.advance(ANSWER_TIMEOUT - 0.1)
        assert verdicts == []
        self.clock.advance(0.2)
        assert verdicts == [CANNOT_TELL]
        assert slow.cancelled == 1
        assert self.lines() == ["The authorizer Hesitating did not answer within 8 s"]
        assert not self.clock.getDelayedCalls()

    def test_one_that_fails_lets_nobody_in_and_its_words_are_not_logged(self) -> None:
        for broken in (raising(ValueError("MARKED")), fail(KeyError("MARKED"))):
            assert self.ask(Answering(broken)) == [CANNOT_TELL]
        first, second = self.lines()
        assert first.startswith("The authorizer Answering failed: ValueError in ")
        assert first.endswith(".py, line " + first.rpartition(" ")[2])
        assert "KeyError" in second
        assert not any("MARKED" in repr(event) + str(event.get("log_failure")) for event in self.log)

    def test_one_that_answers_nonsense(self) -> None:
        for nonsense in (None, True, "yes", 1):
            assert self.ask(Answering(nonsense)) == [CANNOT_TELL]
        assert all("TypeError" in line for line in self.lines())

    def test_who_does_not_want_to_know_any_more(self) -> None:
        slow = Hesitating()
        asked: Deferred[Verdict] = Gate([slow], self.clock).ask(wish())
        asked.cancel()
        assert fired(asked) == [CANNOT_TELL]
        assert slow.cancelled == 1
        assert self.lines() == []
        assert not self.clock.getDelayedCalls()

    def test_it_knows_who_knows_users(self) -> None:
        users = Users(anna="geheim")
        found: tuple[object, ...] = Gate([Answering(), users], self.clock).directories
        assert found == (users,)
