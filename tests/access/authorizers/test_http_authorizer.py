"""Another server decides who may publish and play."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.client import ResponseNeverReceived

from rtmprelay.access.authorizers.http_authorizer import HttpAuthorizer, make_http_authorizer
from rtmprelay.access.gate import Gate
from rtmprelay.access.request import CANNOT_TELL, AccessRequest, Action, Verdict
from rtmprelay.errors import ConfigError
from rtmprelay.http_client.poster import HttpPoster, read_address
from tests.access.helpers import access_request
from tests.access.log_keeping import KeptLog
from tests.http_client.helpers import MemoryAgent


class HttpAuthorizerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.agent = MemoryAgent()
        self.log = KeptLog()
        self.log.start()
        self.addCleanup(self.log.stop)
        self.make()

    def make(self, timeout: float = 3.0, cache: float = 10.0) -> None:
        address, _ = read_address("https://auth.example/check?secret=MARKED")
        poster = HttpPoster(self.clock, address, agent=self.agent)
        self.authorizer = HttpAuthorizer(poster, self.clock, timeout, cache)

    def ask(self, request: AccessRequest | None = None) -> list[Verdict]:
        answer = self.authorizer.authorize(request or access_request())
        if isinstance(answer, Verdict):
            return [answer]
        verdicts: list[Verdict] = []
        answer.addCallback(verdicts.append)
        return verdicts

    def lines(self) -> list[str]:
        return self.log.lines

    def test_server_gets_the_request_as_json(self) -> None:
        self.ask(access_request(Action.PLAY, "live/a/b", "key=k%20ey&x=ü", user="anna", protocol="http"))
        (posted,) = self.agent.requests
        assert (posted.method, posted.url) == (b"POST", "https://auth.example/check?secret=MARKED")
        assert posted.json == {
            "action": "play",
            "stream": "live/a/b",
            "app": "live",
            "name": "a/b",
            "host": "192.0.2.1",
            "connection": "c000001",
            "protocol": "http",
            "user": "anna",
            "parameters": {"key": "k ey", "x": "ü"},
        }

    def test_2xx_allows_4xx_refuses_and_other_statuses_are_failures(self) -> None:
        self.make(cache=0)
        for status in (200, 201, 204, 299):
            verdicts = self.ask()
            self.agent.requests[-1].answer(status)
            assert [verdict.allowed for verdict in verdicts] == [True]
        for status in (400, 401, 403, 404, 410, 499):
            verdicts = self.ask()
            self.agent.requests[-1].answer(status)
            assert [verdict.reason for verdict in verdicts] == ["the server that was asked does not allow it"]
        for status in (100, 199, 300, 302, 307, 408, 429, 500, 503, 599, 700):
            verdicts = self.ask()
            self.agent.requests[-1].answer(status)
            assert verdicts == [CANNOT_TELL]

    def test_request_is_refused_and_logged_when_the_server_does_not_answer_in_time(self) -> None:
        verdicts = self.ask()
        self.clock.advance(2.9)
        assert verdicts == []
        self.clock.advance(0.2)
        assert verdicts == [CANNOT_TELL]
        assert self.agent.requests[0].cancelled
        assert not self.clock.getDelayedCalls()
        (line,) = self.lines()
        assert line == (
            "https://auth.example/check gives no verdict, so publishing and playing are refused: it did not answer within 3 s"
            " (0 others were refused before for such reasons)"
        )

    def test_request_is_refused_when_the_server_cannot_be_reached(self) -> None:
        verdicts = self.ask()
        self.agent.requests[0].fail(ConnectionRefusedError())
        assert verdicts == [CANNOT_TELL]
        assert len(self.agent.requests) == 1

    def test_request_is_sent_again_when_an_idle_connection_was_closed(self) -> None:
        verdicts = self.ask()
        self.agent.requests[0].fail(ResponseNeverReceived([Failure(ConnectionResetError())]))
        assert verdicts == []
        self.agent.requests[1].answer(204)
        assert [verdict.allowed for verdict in verdicts] == [True]

    def test_request_is_sent_at_most_twice(self) -> None:
        verdicts = self.ask()
        for request in range(2):
            self.agent.requests[request].fail(ResponseNeverReceived([Failure(ConnectionResetError())]))
        assert verdicts == [CANNOT_TELL]
        assert len(self.agent.requests) == 2

    def test_server_that_is_down_is_logged_once_per_interval(self) -> None:
        for _ in range(50):
            self.ask()
            self.agent.requests[-1].fail(ConnectionRefusedError())
            self.clock.advance(0.1)
        assert len(self.log) == 1
        self.clock.advance(10)
        self.ask()
        self.agent.requests[-1].fail(ConnectionRefusedError())
        assert "(49 others were refused before" in self.lines()[1]

    # -- remembered answers -----------------------------------------------------------------------------------------

    def test_answer_is_remembered_for_ten_seconds(self) -> None:
        for status, allowed in ((204, True), (403, False)):
            request = access_request(query=f"key={status}")
            self.ask(request)
            self.agent.requests[-1].answer(status)
            asked = len(self.agent.requests)
            assert [verdict.allowed for verdict in self.ask(request)] == [allowed]
            self.clock.advance(9)
            assert [verdict.allowed for verdict in self.ask(request)] == [allowed]
            assert len(self.agent.requests) == asked
            self.clock.advance(2)
            assert self.ask(request) == []
            assert len(self.agent.requests) == asked + 1

    def test_answer_is_remembered_only_for_the_same_request(self) -> None:
        self.ask(access_request(query="key=k"))
        self.agent.requests[0].answer(204)
        others = [
            access_request(query="key=l"),
            access_request(query="key=k", host="192.0.2.2"),
            access_request(query="key=k", user="anna"),
            access_request(query="key=k", protocol="http"),
            access_request(Action.PLAY, query="key=k"),
            access_request(stream="live/other", query="key=k"),
        ]
        for request in others:
            assert self.ask(request) == []
        assert len(self.agent.requests) == 1 + len(others)

    def test_failure_of_the_server_is_not_remembered(self) -> None:
        self.ask()
        self.agent.requests[0].answer(500)
        assert self.ask() == []
        self.agent.requests[1].answer(204)
        assert [verdict.allowed for verdict in self.ask()] == [True]

    def test_number_of_remembered_answers_is_bounded(self) -> None:
        self.agent.status = 204
        for number in range(11_000):
            self.ask(access_request(query=f"key={number}"))
        assert len(self.authorizer._answers) == 10_000

    # -- bounds ----------------------------------------------------------------------------------------------

    def test_number_of_concurrent_and_waiting_requests_is_bounded(self) -> None:
        verdicts = [
            self.ask(access_request(host=f"192.0.2.{number}", query=f"k={number}")) for number in range(1000)
        ]
        assert len(self.agent.requests) == 16
        assert verdicts.count([CANNOT_TELL]) == 1000 - 16 - 512
        while any(not request.answered.called for request in self.agent.requests):
            for request in self.agent.requests:
                if not request.answered.called:
                    request.answer(204)
        assert sum(len(one) for one in verdicts) == 1000
        assert not self.clock.getDelayedCalls()

    def test_request_of_a_client_that_disconnects_is_cancelled(self) -> None:
        asking: Deferred[Any] = Gate([self.authorizer], self.clock).ask(access_request())
        asking.cancel()
        assert self.agent.requests[0].cancelled
        assert self.lines() == []
        assert self.authorizer._limiter.in_use == 0
        assert not self.clock.getDelayedCalls()

    def test_authorizer_stops_as_a_service(self) -> None:
        self.authorizer.startService()
        assert self.authorizer.running
        self.successResultOf(self.authorizer.stopService())
        assert not self.authorizer.running
        assert not self.clock.getDelayedCalls()

    def test_credentials_appear_in_no_log_and_no_repr(self) -> None:
        for status in (204, 403, 500):
            self.ask(access_request(query=f"key=MARKED{status}"))
            self.agent.requests[-1].answer(status)
        text = (
            repr(self.log)
            + repr(vars(self.authorizer))
            + repr(vars(self.authorizer._poster))
            + "".join(self.lines())
        )
        assert "MARKED" not in text

    def test_bad_option_is_refused_with_its_reason(self) -> None:
        reactor: Any = Clock()
        for argument, message in (
            ("http://host/#timeout=8", "the option timeout is '8': a number from 0.1 to 7 is expected"),
            ("http://host/#cache=-1", "the option cache is '-1'"),
            (
                "http://host/#retries=1",
                "unknown option 'retries'; known options: ca-file, cache, timeout, token-file",
            ),
            ("", "the address is missing"),
        ):
            with self.assertRaises(ConfigError) as caught:
                make_http_authorizer(argument, reactor)
            assert message in str(caught.exception)
