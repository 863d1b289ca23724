"""The accounts of players: what is added up, which stalls count, and what the events of a play say."""

from __future__ import annotations

import attrs

from rtmprelay.events import MediaStatistics, PlayStopped
from rtmprelay.streams.accounting import (
    AudienceAccount,
    DeliveryAccount,
    DropReason,
    PlayReport,
    StallMeter,
)
from rtmprelay.streams.consumer import Consumer, players
from tests.streams.helpers import KeepingSubscriber, ListingEncoder
from tests.streams.merging_helpers import Receiver


def account(sent: int, dropped: int, reason: DropReason) -> DeliveryAccount:
    made = DeliveryAccount(messages_in=sent + dropped, messages_sent=sent, bytes_sent=100 * sent)
    made.dropped(reason, 10 * dropped, dropped)
    return made


def test_only_what_lasts_is_a_stall() -> None:
    meter = StallMeter()
    meter.transport_ready(1.0)
    meter.transport_full(2.0)
    meter.transport_ready(2.9)
    assert (meter.count, meter.seconds) == (0, 0.0)
    meter.transport_full(3.0)
    meter.transport_full(3.5)
    meter.transport_ready(5.5)
    meter.transport_ready(9.0)
    assert (meter.count, meter.seconds) == (1, 2.5)
    meter.transport_full(10.0)
    meter.transport_ready(11.0)
    assert (meter.count, meter.seconds) == (2, 3.5)


def test_dropped_messages_are_counted_by_reason() -> None:
    made = DeliveryAccount()
    made.dropped(DropReason.QUEUE_FULL, 30)
    made.dropped(DropReason.QUEUE_FULL, 50, count=2)
    made.dropped(DropReason.CLOSED, 5)
    assert (made.messages_dropped, made.bytes_dropped) == (4, 85)
    assert made.reasons() == {"queue_full": 3, "closed": 1}


def test_accounts_of_players_and_of_audiences_add_up() -> None:
    one, both = AudienceAccount(), AudienceAccount()
    one.add(account(3, 2, DropReason.QUEUE_FULL))
    one.add(account(5, 4, DropReason.CLOSED))
    both.add(account(10, 1, DropReason.CLOSED))
    both.add(one)
    assert attrs.asdict(one) == {
        "messages_sent": 8,
        "messages_dropped": 6,
        "bytes_sent": 800,
        "dropped_by_reason": {"queue_full": 2, "closed": 4},
    }
    assert attrs.asdict(both) == {
        "messages_sent": 18,
        "messages_dropped": 7,
        "bytes_sent": 1800,
        "dropped_by_reason": {"queue_full": 2, "closed": 5},
    }


class Recorder(Receiver):
    audience = None


def test_players_are_consumers_with_an_audience() -> None:
    player, recorder = Receiver(), Recorder()
    assert list(players([recorder, KeepingSubscriber(), player])) == [player]


# -- what is reported of a play ------------------------------------------------------------------------------


def playing(began: float) -> tuple[Consumer, PlayReport]:
    consumer = Consumer(lambda data: None, ListingEncoder())
    return consumer, PlayReport("c000007", "live/cam", consumer, began)


def test_statistics_are_about_the_time_since_the_last_ones() -> None:
    consumer, report = playing(100.0)
    assert report.last_at == 100.0
    consumer.account.messages_sent, consumer.account.bytes_sent = 10, 5000
    consumer.account.dropped(DropReason.PAUSED, 1, 3)
    report.stalls.transport_full(101.0)
    report.stalls.transport_ready(103.0)
    assert report.statistics(110.0) == MediaStatistics(
        connection="c000007",
        stream="live/cam",
        role="player",
        seconds=10.0,
        kbps=4.0,
        messages=10,
        bytes=5000,
        dropped=3,
        queued=0,
        stalls=1,
        stalled_seconds=2.0,
    )
    assert report.last_at == 110.0
    consumer.account.messages_sent, consumer.account.bytes_sent = 14, 6000
    consumer.account.dropped(DropReason.CLOSED, 1)
    report.stalls.transport_full(111.0)
    report.stalls.transport_ready(114.0)
    assert report.statistics(115.0) == MediaStatistics(
        connection="c000007",
        stream="live/cam",
        role="player",
        seconds=5.0,
        kbps=1.6,
        messages=4,
        bytes=1000,
        dropped=1,
        queued=0,
        stalls=1,
        stalled_seconds=3.0,
    )


def test_statistics_of_no_time_at_all_have_no_rate() -> None:
    consumer, report = playing(100.0)
    consumer.account.bytes_sent = 5000
    assert report.statistics(100.0).kbps == 0.0


def test_end_of_a_play_has_the_whole_account() -> None:
    consumer, report = playing(100.0)
    consumer.account.messages_sent, consumer.account.bytes_sent = 10, 5000
    consumer.account.dropped(DropReason.PAUSED, 1, 3)
    report.statistics(110.0)
    # A stall that is not over counts up to the end.
    report.stalls.transport_full(118.0)
    assert report.stopped(120.0, "the viewer left") == PlayStopped(
        connection="c000007",
        stream="live/cam",
        duration=20.0,
        messages=10,
        bytes=5000,
        dropped=3,
        dropped_by_reason={"paused": 3},
        reason="the viewer left",
        protocol="",
        stalls=1,
        stalled_seconds=2.0,
    )
