"""Events are posted in their order; a slow receiver loses some, and nothing waits for it."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import time
from typing import Any

from twisted.internet.error import ConnectionRefusedError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from rtmprelay.errors import ConfigError
from rtmprelay.events import ServerStarted
from rtmprelay.hooks.event_queue import chosen_events
from rtmprelay.hooks.webhook import STOP_TIMEOUT, Webhook, WebhookSettings, make_webhook
from rtmprelay.http_client.poster import HttpPoster, read_address
from tests.access.log_keeping import KeptLog
from tests.hooks.helpers import NOON, started, watched
from tests.http_client.helpers import MemoryAgent, Posted


class WebhookTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.agent = MemoryAgent()
        self.log = KeptLog()
        self.log.start()
        self.addCleanup(self.log.stop)
        self.make()

    def make(self, start: bool = True, **settings: Any) -> None:
        address, _ = read_address("https://hooks.example/events?secret=MARKED")
        poster = HttpPoster(self.clock, address, agent=self.agent)
        chosen = WebhookSettings(**{"events": chosen_events([]), **settings})
        self.hook = Webhook(poster, chosen, self.clock, jitter=lambda: 1.0)
        if start:
            self.hook.startService()

    def send(self, *numbers: int) -> None:
        for number in numbers:
            self.hook.event_happened(NOON + number, started(number))

    def lines(self) -> list[str]:
        return self.log.lines

    @property
    def last(self) -> Posted:
        return self.agent.requests[-1]

    def posted(self) -> list[Any]:
        """What was posted: the streams, or how many events were lost."""
        return [
            request.json["stream"] if request.json["event"] != "events_lost" else request.json["count"]
            for request in self.agent.requests
        ]

    def test_an_event_is_posted_as_a_line_of_json(self) -> None:
        self.hook.event_happened(NOON, ServerStarted(instance="run-1", version="1", host="h"))
        self.last.answer(200)
        self.send(1)
        assert self.last.method == b"POST"
        assert self.last.json == {
            "time": "2026-11-16T12:00:01.000000Z",
            "event": "publish_started",
            "connection": "c000001",
            "stream": "live/1",
            "instance": "run-1",
            "number": 2,
        }

    def test_the_next_event_is_posted_when_the_last_one_is_answered(self) -> None:
        self.send(1, 2, 3)
        assert len(self.agent.requests) == 1
        for count in (2, 3):
            self.last.answer(204)
            assert len(self.agent.requests) == count
        self.last.answer(204)
        assert self.posted() == ["live/1", "live/2", "live/3"]
        assert [request.json["number"] for request in self.agent.requests] == [1, 2, 3]
        assert not self.clock.getDelayedCalls()

    def test_other_events_are_neither_posted_nor_numbered(self) -> None:
        self.make(events=chosen_events(["publish_*"]))
        self.agent.status = 204
        self.hook.event_happened(NOON, watched())
        self.send(1)
        # A gap in the numbers means a loss: what nobody wanted has none.
        assert [(request.json["event"], request.json["number"]) for request in self.agent.requests] == [
            ("publish_started", 1)
        ]

    def test_events_before_the_start_are_posted_after_it(self) -> None:
        self.make(start=False)
        self.send(1, 2)
        assert self.agent.requests == []
        self.agent.status = 204
        self.hook.startService()
        assert self.posted() == ["live/1", "live/2"]

    # -- trying again ----------------------------------------------------------------------------------------

    def test_a_refused_event_is_posted_again_after_doubling_delays(self) -> None:
        self.send(1, 2)
        for delay in (1, 2, 4, 8, 16, 32):
            attempts = len(self.agent.requests)
            self.last.answer(503)
            self.clock.advance(delay - 0.1)
            assert len(self.agent.requests) == attempts
            self.clock.advance(0.2)
            assert len(self.agent.requests) == attempts + 1
        self.last.answer(200)
        self.last.answer(200)
        assert self.posted() == ["live/1"] * 7 + ["live/2"]
        assert self.lines() == [
            "https://hooks.example/events does not take events: it answered with status 503",
            "https://hooks.example/events takes events again",
        ]

    def test_every_temporary_failure_leads_to_another_attempt(self) -> None:
        self.send(1)
        self.last.fail(ConnectionRefusedError())
        self.clock.advance(1)
        self.clock.advance(5)
        assert self.last.cancelled
        self.clock.advance(2)
        for status in (429, 408, 500, 599):
            self.last.answer(status)
            self.clock.advance(60)
        self.last.answer(200)
        assert self.posted() == ["live/1"] * 7

    def test_a_permanent_refusal_loses_the_event_and_reports_the_loss(self) -> None:
        self.send(1, 2)
        self.last.answer(400)
        # The loss is reported before the next event.
        assert self.posted() == ["live/1", 1]
        self.last.answer(204)
        assert self.posted() == ["live/1", 1, "live/2"]
        assert self.agent.requests[1].json["number"] == 1
        assert (
            "1 events were not sent to https://hooks.example/events: it answered with status 400"
            in "".join(self.lines())
        )

    def test_a_redirect_is_not_followed(self) -> None:
        self.send(1)
        self.last.answer(302)
        self.clock.advance(100)
        assert len(self.agent.requests) == 1

    def test_an_event_is_lost_after_the_last_attempt(self) -> None:
        self.make(attempts=3)
        self.send(1)
        for _ in range(3):
            self.last.answer(500)
            self.clock.advance(60)
        assert self.posted() == ["live/1"] * 3
        self.send(2)
        self.agent.status = 204
        self.last.answer(204)
        assert self.posted() == ["live/1"] * 3 + [1, "live/2"]

    def test_a_server_that_refuses_everything_gets_one_report_per_loss(self) -> None:
        self.agent.status = 400
        self.send(*range(1, 101))
        assert len(self.agent.requests) == 199
        assert len(self.log) <= 2

    # -- bounds ----------------------------------------------------------------------------------------------

    def test_a_server_that_hangs_costs_the_oldest_of_ten_thousand_events(self) -> None:
        began = time.thread_time()
        self.send(*range(10_000))
        took = time.thread_time() - began
        # Some microseconds each; of our own time, whatever else the machine does.
        assert took < 2.0
        assert len(self.hook._queue) == 1000
        assert len(self.agent.requests) == 1
        assert self.hook._queue.lost == 8999
        assert self.lines() == [
            "1 events were not sent to https://hooks.example/events: more than 1000 wait (1 in all)"
        ]
        self.clock.advance(10)
        self.send(10_000)
        assert "8999 events were not sent" in self.lines()[-1]

    def test_the_receiver_gets_the_number_of_lost_events_in_their_place(self) -> None:
        self.make(queue=3)
        self.send(*range(1, 11))
        self.agent.status = 204
        self.last.answer(204)
        assert self.posted() == ["live/1", 6, "live/8", "live/9", "live/10"]
        assert [request.json["number"] for request in self.agent.requests] == [1, 7, 8, 9, 10]

    # -- the end ---------------------------------------------------------------------------------------------

    def test_a_stop_waits_for_the_waiting_events(self) -> None:
        self.send(1, 2)
        stopped = self.hook.stopService()
        self.assertNoResult(stopped)
        self.agent.status = 204
        self.last.answer(204)
        self.successResultOf(stopped)
        assert self.posted() == ["live/1", "live/2"]
        assert not self.clock.getDelayedCalls()

    def test_a_stop_cancels_the_post_after_its_timeout(self) -> None:
        self.send(1, 2, 3)
        stopped = self.hook.stopService()
        self.clock.advance(STOP_TIMEOUT + 0.1)
        self.successResultOf(stopped)
        assert self.agent.requests[0].cancelled
        assert "events were not sent" in self.lines()[-1]
        assert self.hook._queue.lost == 3
        assert not self.clock.getDelayedCalls()

    def test_a_stop_cancels_the_wait_for_the_next_attempt(self) -> None:
        self.send(1)
        for _ in range(4):
            self.last.answer(500)
            self.clock.advance(8)
        self.last.answer(500)
        attempts = len(self.agent.requests)
        stopped = self.hook.stopService()
        self.clock.advance(STOP_TIMEOUT + 0.1)
        self.successResultOf(stopped)
        assert len(self.agent.requests) == attempts
        assert not self.clock.getDelayedCalls()

    def test_an_idle_hook_stops_at_once_and_posts_nothing_any_more(self) -> None:
        self.successResultOf(self.hook.stopService())
        self.send(1)
        assert self.agent.requests == []
        assert not self.clock.getDelayedCalls()
        assert self.lines() == []

    def test_events_after_a_stop_wait_for_the_next_start(self) -> None:
        self.successResultOf(self.hook.stopService())
        self.send(1)
        assert self.agent.requests == []
        self.agent.status = 204
        self.hook.startService()
        assert self.posted() == ["live/1"]

    def test_the_query_of_the_address_is_not_logged(self) -> None:
        self.send(1)
        self.last.answer(400)
        assert "MARKED" not in "".join(self.lines()) + repr(self.log)

    def test_options_are_read_from_the_argument_or_refused(self) -> None:
        reactor: Any = Clock()
        hook = make_webhook("http://h/#events=publish_*&timeout=1&attempts=2&queue=3", reactor)
        settings = hook._settings
        assert (settings.timeout, settings.attempts, settings.queue) == (1.0, 2, 3)
        assert "publish_started" in settings.events
        for argument, message in (
            ("", "the address is missing"),
            ("http://h/#events=nothing", "there is no event 'nothing'"),
            ("http://h/#attempts=0", "the option attempts is '0': a whole number from 1 to 100"),
            ("http://h/#queue=1000000", "the option queue is"),
            ("http://h/#cache=1", "unknown option 'cache'"),
        ):
            with self.assertRaises(ConfigError) as caught:
                make_webhook(argument, reactor)
            assert message in str(caught.exception)
