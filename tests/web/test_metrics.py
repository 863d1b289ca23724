"""Prometheus metrics: readable, complete, documented, and never going down."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.task import Clock
from zope.interface import implementer

from rtmprelay.config.relay import RelayConfig
from rtmprelay.events import ConnectionClosed
from rtmprelay.interfaces import IFrameSubscriber
from rtmprelay.recording.disk import name_of
from rtmprelay.recording.status import QUEUE_FULL, TOO_LARGE, WAITING_FOR_KEYFRAME
from rtmprelay.service import RelayService
from rtmprelay.streams.accounting import DropReason
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.registry import StreamRegistry
from rtmprelay.web.metrics.measurements import LAG_BUCKETS, OTHER, ReactorLag, StreamLabels
from tests.helpers import group, start_frames
from tests.streams.helpers import FakePublisher, ListingEncoder
from tests.web.helpers import Client, Web, destination

PAGE = Path(__file__).parents[2] / "docs" / "http.rst"


def families(web: Web) -> dict[str, Metric]:
    """What Prometheus would read, after the text has become old."""
    web.clock.advance(1.01)
    got = web.get("/metrics")
    assert got.headers["content-type"].startswith("text/plain; version=")
    return {family.name: family for family in text_string_to_metric_families(got.body.decode())}


def samples(web: Web) -> dict[str, float]:
    """All samples, by name and labels."""
    found = {}
    for family in families(web).values():
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


@implementer(IFrameSubscriber)
class WatchingConsumer(Consumer):
    """A player."""

    audience = "rtmp"

    def publisher_left(self) -> None:
        """Nothing to do."""

    def publisher_returned(self) -> None:
        """Nothing to do."""


class Watcher:
    """A player whose transport is a list."""

    def __init__(self, web: Web, key: str = "live/test") -> None:
        self.written: list[bytes] = []
        self.consumer = WatchingConsumer(self.written.append, ListingEncoder())
        self._registry = web.registry
        self._stream = web.registry.get(key)
        self._stream.subscribe(self.consumer)

    def leave(self) -> None:
        self.consumer.close()
        self._registry.leave(self._stream, self.consumer)


def test_the_documents_and_the_collector_agree() -> None:
    """Every metric has a row with its type and labels, and every row is a metric."""
    web = Web(destinations=[destination("far", enabled=False)])
    web.publish()
    web.advance(2)
    web.get("/nothing")
    web.service.events.publish(_closed_by_a_limit())
    shown: dict[str, tuple[str, set[str]]] = {}
    for family in families(web).values():
        if family.name.startswith("rtmprelay_"):
            suffix = "_total" if family.type == "counter" else ""
            labels = {name for sample in family.samples for name in sample.labels} - {"le"}
            shown[family.name + suffix] = family.type, labels
    documented = {}
    for line in PAGE.read_text().splitlines():
        row = re.match(r"(rtmprelay_\w+) +(gauge|counter|histogram) +((?:\w+, )*\w+(?=  ))? ", line)
        if row is not None:
            documented[row[1]] = row[2], set(row[3].split(", ")) if row[3] else set()
    assert {name: kind for name, (kind, _) in shown.items()} == {
        name: kind for name, (kind, _) in documented.items()
    }
    without_samples = {"rtmprelay_stream_keyframe_interval_seconds"}
    for name, (_, labels) in shown.items():
        if name not in without_samples:
            assert labels == documented[name][1], name


def _closed_by_a_limit() -> ConnectionClosed:
    return ConnectionClosed(
        connection="c1",
        peer="x",
        reason="y",
        limit="handshake_timeout",
        duration=1.0,
        bytes_in=0,
        bytes_out=0,
    )


def test_what_came_in_never_goes_down() -> None:
    """A publisher that leaves and returns, a stream that is forgotten: the totals only grow."""
    web = Web()
    first = web.publish()
    publisher = first.publisher
    before = samples(web)
    assert before["rtmprelay_received_messages_total"] == 13
    assert before["rtmprelay_received_frames_total{kind=video}"] == 5
    assert before["rtmprelay_received_keyframes_total"] == 1
    assert before["rtmprelay_publishers"] == before["rtmprelay_streams"] == 1
    web.registry.unpublish(first, publisher, True)
    gone = samples(web)
    assert gone["rtmprelay_received_messages_total"] == 13
    assert gone["rtmprelay_publishers"] == gone["rtmprelay_streams"] == 0
    web.publish()
    web.publish("live/second")
    after = samples(web)
    assert after["rtmprelay_received_messages_total"] == 39
    assert after["rtmprelay_received_bytes_total"] == 3 * before["rtmprelay_received_bytes_total"]


def test_what_players_got_never_goes_down() -> None:
    """Players that leave stay in the account, with what they lost."""
    web = Web()
    stream = web.publish()
    staying, leaving = Watcher(web), Watcher(web)
    stream.publish_frames(group(200), 0.0)
    before = samples(web)
    assert before["rtmprelay_players{kind=rtmp}"] == 2
    assert before["rtmprelay_player_sent_messages_total"] == 2 * (13 + 10)
    leaving.consumer.transport_full()
    stream.publish_frames(group(400), 0.0)
    assert samples(web)["rtmprelay_player_queued_messages"] == 10
    leaving.leave()
    leaving.leave()
    after = samples(web)
    assert after["rtmprelay_players{kind=rtmp}"] == 1
    assert (
        after["rtmprelay_player_sent_messages_total"] == before["rtmprelay_player_sent_messages_total"] + 10
    )
    assert after["rtmprelay_player_dropped_messages_total{reason=closed}"] == 10
    assert after["rtmprelay_stream_dropped_messages_total{stream=live/test}"] == 10
    staying.leave()
    web.registry.unpublish(stream, stream.publisher, True)
    end = samples(web)
    assert end["rtmprelay_player_sent_messages_total"] == after["rtmprelay_player_sent_messages_total"]
    assert end["rtmprelay_player_dropped_messages_total{reason=closed}"] == 10


def test_destinations() -> None:
    """One gauge for each state, and every reason from the start, so that a graph has no holes."""
    web = Web(destinations=[destination("far", enabled=False)])
    got = samples(web)
    states = {name: value for name, value in got.items() if name.startswith("rtmprelay_destination_state")}
    assert sum(states.values()) == 1
    assert states["rtmprelay_destination_state{destination=far,state=disabled}"] == 1
    assert len(states) == 5
    reasons = [name for name in got if name.startswith("rtmprelay_destination_dropped_messages_total")]
    assert len(reasons) == len(DropReason)


def test_losses_of_recordings_are_counted_from_zero() -> None:
    """A counter that begins with its first loss hides that loss: its rate is worked out from two samples."""
    losses = {QUEUE_FULL, WAITING_FOR_KEYFRAME, TOO_LARGE, name_of(OSError(errno.ENOSPC, "full"))}
    dropped = families(Web())["rtmprelay_recording_dropped_messages"]
    assert {sample.labels["reason"]: sample.value for sample in dropped.samples} == dict.fromkeys(losses, 0.0)


def test_streams_as_labels_are_bounded() -> None:
    """Whatever is over the bound is `other`, and so is a name that is too long; other's counts never go down."""
    registry = StreamRegistry()
    series = StreamLabels(registry, limit=3)
    publisher = FakePublisher()
    streams = [registry.publish(f"live/{number}", publisher, 0.0) for number in range(5)]
    registry.publish("x" * 300, publisher, 0.0)
    for stream in streams:
        stream.publish_frames(group(0), 0.0)
    size = streams[0].counters.bytes
    named, others = series.update()
    assert [stream.key for stream in named] == ["live/0", "live/1", "live/2"]
    assert [stream.key for stream in others] == ["live/3", "live/4", "x" * 300]
    assert series.others.received_bytes == 2 * size
    registry.unpublish(streams[0], publisher, True)
    registry.unpublish(streams[3], publisher, True)
    named, others = series.update()
    # One that is `other` stays so; the free place is for a new one.
    assert [stream.key for stream in named] == ["live/1", "live/2"]
    assert series.others.received_bytes == 2 * size
    registry.publish("live/new", publisher, 0.0)
    again = registry.publish("live/3", publisher, 0.0)
    again.publish_frames(group(0), 0.0)
    named, _ = series.update()
    assert [stream.key for stream in named] == ["live/1", "live/2", "live/new"]
    assert series.others.received_bytes == 3 * size


def test_no_label_holds_what_strangers_choose_without_end() -> None:
    """Three hundred streams are two hundred labels and `other`."""
    web = Web()
    for number in range(300):
        web.publish(f"live/{number}")
    got = families(web)["rtmprelay_stream_players"]
    labels = [sample.labels["stream"] for sample in got.samples]
    assert len(labels) == 201
    assert OTHER in labels
    text = web.get("/metrics").body.decode()
    described = re.findall(r"^# (?:HELP|TYPE) \S+", text, re.MULTILINE)
    assert len(described) == len(set(described))


def test_odd_names_are_escaped() -> None:
    """Quotes, backslashes and line ends in names do not break the format."""
    name = 'a"b\\c d{}='
    web = Web(destinations=[destination(name, enabled=False)])
    web.publish('live/"\\x')
    labels = {sample.labels["destination"] for sample in families(web)["rtmprelay_destination_state"].samples}
    assert labels == {name}


def test_refusals_limits_and_events_are_counted() -> None:
    """By kind, by the limit's name, by the event's name."""
    web = Web()
    web.service.events.publish(_closed_by_a_limit())
    web.change("POST", "/destinations", {}, token="wrong-wrong")
    got = samples(web)
    assert got["rtmprelay_limits_exceeded_total{limit=handshake_timeout}"] == 1
    assert got["rtmprelay_events_total{event=connection_closed}"] == 1
    assert got["rtmprelay_refusals_total{kind=control}"] == 1
    assert got["rtmprelay_http_responses_total{code=401}"] == 1
    assert got["rtmprelay_http_connections"] == 1


def test_the_text_is_made_once_a_second() -> None:
    """However many scrape."""
    web = Web()
    first = web.get("/metrics").body
    web.publish()
    web.clock.advance(0.5)
    assert web.get("/metrics").body == first
    web.clock.advance(0.6)
    assert web.get("/metrics").body != first


def test_two_relays_in_one_process() -> None:
    """Nothing is global: each has its own numbers."""
    one, other = Web(), Web()
    one.publish()
    assert samples(one)["rtmprelay_streams"] == 1
    assert samples(other)["rtmprelay_streams"] == 0
    assert "process_resident_memory_bytes" in samples(one)


def test_the_lag_of_the_reactor() -> None:
    """How late a call comes, in a histogram and as the largest of a minute."""
    clock = Clock()
    lag = ReactorLag(clock)
    lag.start()
    clock.pump([0.25] * 4)
    clock.advance(0.45)
    clock.pump([0.25] * 2)
    assert lag.largest > 0.19
    assert sum(lag.counts) == 7
    assert [count for _, count in lag.cumulative()][-1] == 7
    assert lag.cumulative()[0][1] == 6
    assert len(lag.cumulative()) == len(LAG_BUCKETS) + 1
    clock.pump([0.25] * 240)
    assert lag.largest < 0.01
    lag.stop()
    assert clock.getDelayedCalls() == []


def test_a_service_without_http_measures_nothing() -> None:
    """No timer, no sink, no cost."""
    clock = Clock()
    service = RelayService(RelayConfig(listen=()), clock)
    service.startService()
    assert service.http is None
    assert clock.getDelayedCalls() == []


def monotonic(before: dict[str, float], after: dict[str, float]) -> Iterable[str]:
    """Counters that have gone down."""
    return [name for name, value in before.items() if "_total" in name and after.get(name, value) < value]


def test_counters_never_go_down_while_things_come_and_go() -> None:
    """A small world in which players and publishers change at every step."""
    web = Web()
    publisher_of = {}
    watchers: list[Watcher] = []
    before = samples(web)
    for step in range(40):
        key = f"live/{step % 3}"
        stream = web.registry.get(key)
        if stream is None or stream.publisher is None:
            stream = web.publish(key, [*start_frames(), *group(0)])
            publisher_of[key] = stream.publisher
        if step % 2:
            watchers.append(Watcher(web, key))
        stream.publish_frames(group(1000 * (step + 1)), web.clock.seconds())
        if step % 5 == 4:
            web.registry.unpublish(stream, publisher_of[key], step % 2 == 0)
        if len(watchers) > 4:
            watchers.pop(0).leave()
        after = samples(web)
        # A stream's own series begin anew with its publisher; everything else only grows.
        assert [name for name in monotonic(before, after) if "stream=" not in name] == []
        before = after


def test_a_reader_of_metrics_keeps_its_connection() -> None:
    """As Prometheus does."""
    web = Web()
    client = Client(web)
    for _ in range(3):
        client.send(b"GET /metrics HTTP/1.1\r\nHost: relay\r\n\r\n")
        (response,) = client.responses()
        assert response.status == 200
    assert not client.lost
