"""Prometheus metrics: readable, complete, documented, and never decreasing."""

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
from rtmprelay.files.disk import error_name
from rtmprelay.interfaces import IFrameSubscriber
from rtmprelay.pulls.settings import pull_from_option
from rtmprelay.recording.status import QUEUE_FULL, TOO_LARGE, WAITING_FOR_KEYFRAME
from rtmprelay.service import RelayService
from rtmprelay.streams.accounting import DropReason
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.registry import StreamRegistry
from rtmprelay.web.metrics.measurements import LAG_BUCKETS, OTHER, ReactorLag, StreamLabels
from tests.cluster.harness import World
from tests.helpers import group, start_frames
from tests.streams.helpers import FakePublisher, ListingEncoder
from tests.web.helpers import Client, Web, destination

PAGE = Path(__file__).parents[2] / "docs" / "http.rst"


def families(web: Web) -> dict[str, Metric]:
    """The metric families that Prometheus would read, freshly generated."""
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
        pass

    def publisher_returned(self) -> None:
        pass


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


def test_documented_metrics_are_those_of_the_collector() -> None:
    """Every metric has a row with its type and labels, and every row is a metric."""
    web = Web(destinations=[destination("far", enabled=False)])
    web.service.pulls.add(pull_from_option("tv/*=rtmp://192.0.2.1/live", ()))
    web.service.control._cluster = World().add("one").cluster
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


def test_received_totals_never_decrease_when_publishers_leave_and_streams_end() -> None:
    web = Web()
    first = web.publish()
    publisher = first.publisher
    before = samples(web)
    assert before["rtmprelay_received_messages_total"] == 13
    assert before["rtmprelay_received_frames_total{kind=video}"] == 5
    assert before["rtmprelay_received_keyframes_total"] == 1
    assert before["rtmprelay_publishers"] == before["rtmprelay_streams"] == 1
    web.registry.unpublish(first, publisher, True)
    ended = samples(web)
    assert ended["rtmprelay_received_messages_total"] == 13
    assert ended["rtmprelay_publishers"] == ended["rtmprelay_streams"] == 0
    web.publish()
    web.publish("live/second")
    after = samples(web)
    assert after["rtmprelay_received_messages_total"] == 39
    assert after["rtmprelay_received_bytes_total"] == 3 * before["rtmprelay_received_bytes_total"]


def test_player_totals_never_decrease_when_players_leave() -> None:
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


def test_destination_has_a_series_for_every_state_and_drop_reason() -> None:
    web = Web(destinations=[destination("far", enabled=False)])
    got = samples(web)
    states = {name: value for name, value in got.items() if name.startswith("rtmprelay_destination_state")}
    assert sum(states.values()) == 1
    assert states["rtmprelay_destination_state{destination=far,state=disabled}"] == 1
    assert len(states) == 5
    reasons = [name for name in got if name.startswith("rtmprelay_destination_dropped_messages_total")]
    assert len(reasons) == len(DropReason)


def test_losses_of_recordings_are_counted_from_zero() -> None:
    """Prometheus computes a rate from two samples: the first loss must not be the first sample."""
    losses = {QUEUE_FULL, WAITING_FOR_KEYFRAME, TOO_LARGE, error_name(OSError(errno.ENOSPC, "full"))}
    dropped = families(Web())["rtmprelay_recording_dropped_messages"]
    assert {sample.labels["reason"]: sample.value for sample in dropped.samples} == dict.fromkeys(losses, 0.0)


def test_stream_over_the_limit_is_labelled_other_and_stays_so() -> None:
    """A name that is too long is `other`, too, and its totals never decrease."""
    registry = StreamRegistry()
    labels = StreamLabels(registry, limit=3)
    publisher = FakePublisher()
    streams = [registry.publish(f"live/{number}", publisher, 0.0) for number in range(5)]
    registry.publish("x" * 300, publisher, 0.0)
    for stream in streams:
        stream.publish_frames(group(0), 0.0)
    size = streams[0].counters.bytes
    named, others = labels.update()
    assert [stream.key for stream in named] == ["live/0", "live/1", "live/2"]
    assert [stream.key for stream in others] == ["live/3", "live/4", "x" * 300]
    assert labels.others.received_bytes == 2 * size
    registry.unpublish(streams[0], publisher, True)
    registry.unpublish(streams[3], publisher, True)
    named, others = labels.update()
    # A stream that is `other` stays so; the free label is for a new stream.
    assert [stream.key for stream in named] == ["live/1", "live/2"]
    assert labels.others.received_bytes == 2 * size
    registry.publish("live/new", publisher, 0.0)
    again = registry.publish("live/3", publisher, 0.0)
    again.publish_frames(group(0), 0.0)
    named, _ = labels.update()
    assert [stream.key for stream in named] == ["live/1", "live/2", "live/new"]
    assert labels.others.received_bytes == 3 * size


def test_three_hundred_streams_have_two_hundred_labels_and_other() -> None:
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
    name = 'a"b\\c d{}='
    web = Web(destinations=[destination(name, enabled=False)])
    web.publish('live/"\\x')
    labels = {sample.labels["destination"] for sample in families(web)["rtmprelay_destination_state"].samples}
    assert labels == {name}


def test_refusals_limits_and_events_are_counted() -> None:
    web = Web()
    web.service.events.publish(_closed_by_a_limit())
    web.change("POST", "/destinations", {}, token="wrong-wrong")
    got = samples(web)
    assert got["rtmprelay_limits_exceeded_total{limit=handshake_timeout}"] == 1
    assert got["rtmprelay_events_total{event=connection_closed}"] == 1
    assert got["rtmprelay_refusals_total{kind=control}"] == 1
    assert got["rtmprelay_http_responses_total{code=401}"] == 1
    assert got["rtmprelay_http_connections"] == 1


def test_metrics_are_generated_once_a_second() -> None:
    web = Web()
    first = web.get("/metrics").body
    web.publish()
    web.clock.advance(0.5)
    assert web.get("/metrics").body == first
    web.clock.advance(0.6)
    assert web.get("/metrics").body != first


def test_two_relays_in_one_process_have_separate_metrics() -> None:
    one, other = Web(), Web()
    one.publish()
    assert samples(one)["rtmprelay_streams"] == 1
    assert samples(other)["rtmprelay_streams"] == 0
    assert "process_resident_memory_bytes" in samples(one)


def test_reactor_lag_has_a_histogram_and_the_largest_of_a_minute() -> None:
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


def test_service_without_http_has_only_the_timers_of_the_memory_budget_and_of_summaries() -> None:
    clock = Clock()
    service = RelayService(RelayConfig(listen=()), clock)
    service.startService()
    assert service.http is None
    service.memory.stop()
    service.summaries.stop()
    assert clock.getDelayedCalls() == []


def decreased(before: dict[str, float], after: dict[str, float]) -> Iterable[str]:
    """The counters that decreased."""
    return [name for name, value in before.items() if "_total" in name and after.get(name, value) < value]


def test_counters_never_decrease_while_players_and_publishers_change() -> None:
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
        # The series of one stream start again with its publisher; everything else only grows.
        assert [name for name in decreased(before, after) if "stream=" not in name] == []
        before = after


def test_metrics_keep_the_connection_open() -> None:
    """Prometheus scrapes over one connection."""
    web = Web()
    client = Client(web)
    for _ in range(3):
        client.send(b"GET /metrics HTTP/1.1\r\nHost: relay\r\n\r\n")
        (response,) = client.responses()
        assert response.status == 200
    assert not client.lost
