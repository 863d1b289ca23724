"""Which events a hook gets, and the queue of those that wait."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from rtmprelay.errors import ConfigError
from rtmprelay.hooks.event_queue import EventQueue, chosen_events, event_names
from tests.access.log_keeping import kept_log
from tests.hooks.helpers import NOON, started


def test_without_patterns_all_events_are_chosen() -> None:
    assert chosen_events([]) == set(event_names())
    assert {"publish_started", "server_stopped", "connect_refused"} <= chosen_events([])


def test_patterns_choose_the_events_that_match() -> None:
    assert chosen_events(["publish_*"]) == {"publish_started", "publish_refused", "publish_stopped"}
    assert chosen_events(["play_started", "server_*"]) >= {"play_started", "server_started"}


def test_a_pattern_without_a_match_is_refused_with_the_known_names() -> None:
    with pytest.raises(
        ConfigError, match=r"there is no event 'publish_begun': .*publish_started.* are known"
    ):
        chosen_events(["play_*", "publish_begun"])


def test_a_full_queue_loses_the_oldest_events_and_keeps_their_numbers() -> None:
    queue = EventQueue(2, Clock(), "somebody")
    for number in range(5):
        queue.put(NOON, started(number))
    assert (len(queue), queue.lost) == (2, 3)
    assert [queue.take().number, queue.take().number] == [4, 5]


def test_losses_are_logged_once_in_ten_seconds_and_at_the_end() -> None:
    clock = Clock()
    queue = EventQueue(1, clock, "somebody")
    with kept_log() as log:
        for number in range(4):
            queue.put(NOON, started(number))
        clock.advance(10)
        queue.put(NOON, started())
        queue.clear("the relay stops")
        queue.clear("the relay stops")
    assert log.lines == [
        "1 events were not sent to somebody: more than 1 wait (1 in all)",
        "3 events were not sent to somebody: more than 1 wait (4 in all)",
        "1 events were not sent to somebody: the relay stops (5 in all)",
    ]
