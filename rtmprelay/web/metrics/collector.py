"""GET /metrics: the relay's counters for Prometheus, read when a client asks and never touched on the path of a frame.

docs/http.rst lists all of them, and a test compares the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from rtmprelay import __version__
from rtmprelay.events import ConnectRefused, PlayRefused, PublishRefused
from rtmprelay.streams.accounting import AudienceAccount, DropReason
from rtmprelay.streams.live_stream import StreamCounters
from rtmprelay.web.api.machine_use import MachineUse
from rtmprelay.web.api.sampling import RateSampler
from rtmprelay.web.api.status import RelayView
from rtmprelay.web.metrics.measurements import OTHER, EventCounts, ReactorLag, StreamLabels, totals_of

if TYPE_CHECKING:
    from rtmprelay.destinations.status import DestinationStatus
    from rtmprelay.pulls.status import PullStatus
    from rtmprelay.recording.status import RecordingStatus, RecordingTotals

#: The protocols that players use. Each always has a series, so that a graph shows zero and not a gap.
AUDIENCES = ("rtmp", "flv", "mp4", "hls")

#: The same for the states of a destination and of a recording.
DESTINATION_STATES = ("idle", "connecting", "connected", "error", "disabled")
PULL_STATES = ("idle", "connecting", "connected", "error")
RECORDING_STATES = ("waiting", "recording", "failing")

#: Why recordings lose messages. These have a series from the start, so that Prometheus sees the first loss as an
#: increase. Other errors of the disk have one only after they happened.
RECORDING_LOSSES = ("queue_full", "waiting_for_keyframe", "too_large", "ENOSPC")

Family = GaugeMetricFamily | CounterMetricFamily


def gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"rtmprelay_{name}", text, labels=labels)


def counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    """A number that never decreases; Prometheus adds `_total` to its name."""
    return CounterMetricFamily(f"rtmprelay_{name}", text, labels=labels)


def single(family: Family, value: float) -> Metric:
    """A family with one sample, without labels."""
    family.add_metric([], value)
    return family


def labelled(family: Family, values: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    """A family with a sample for each set of labels."""
    for labels, value in values:
        family.add_metric(list(labels), value)
    return family


@attrs.frozen
class HttpFigures:
    """What the HTTP part counts about itself."""

    connections: Callable[[], int]
    event_readers: Callable[[], int]
    responses: Callable[[], dict[int, int]]
    refused_tokens: Callable[[], int]
    #: Keys, passwords and tokens that were wrong, and those that were not even checked.
    wrong_guesses: Callable[[], int]
    unchecked_guesses: Callable[[], int]


@attrs.define(eq=False)
class RelayCollector(Collector):
    """Makes Prometheus metrics from the relay's own counters."""

    _relay: RelayView
    _sampler: RateSampler
    _events: EventCounts
    _lag: ReactorLag
    _uptime: Callable[[], float]
    _http: HttpFigures
    _stream_labels: StreamLabels
    _machine: MachineUse

    def describe(self) -> Iterable[Metric]:
        """Nothing: without this method, registering the collector would collect everything once."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from self._server()
        yield from self._disks()
        yield from self._received()
        yield from self._players()
        yield from self._streams()
        yield from _destinations(list(self._relay.destination_statuses()), self._sampler.destination_kbps)
        yield from _pulls(list(self._relay.pull_statuses()))
        yield from _cluster(self._relay.cluster_status())
        yield from _recordings(self._relay.recording_statuses(), self._relay.recording_totals())
        yield from self._event_counts()
        yield from self._reactor()
        yield from self._http_figures()

    def _server(self) -> Iterator[Metric]:
        version = gauge("build_info", "Always 1; the version is a label.", "version")
        yield labelled(version, [((__version__,), 1)])
        yield single(gauge("uptime_seconds", "Seconds since the service started."), self._uptime())
        yield single(gauge("connections", "RTMP connections that are open."), self._relay.connections)
        memory = self._relay.memory
        yield single(gauge("memory_budget_bytes", "What streams and connections may use."), memory.most)
        parts = gauge("memory_used_bytes", "What they use, by what it is for.", "part")
        used = memory.used
        yield labelled(
            parts,
            (
                (("assembly",), used.assembly),
                (("caches",), used.caches),
                (("queues",), used.queues),
                (("outputs",), used.outputs),
            ),
        )

    def _disks(self) -> Iterator[Metric]:
        sizes = gauge("disk_size_bytes", "The disks that the relay writes to.", "used_for")
        free = gauge("disk_free_bytes", "What can still be written to them.", "used_for")
        disks = [(one, (",".join(one.used_for),)) for one in self._machine.disks]
        yield labelled(sizes, [(label, disk.size) for disk, label in disks])
        yield labelled(free, [(label, disk.free) for disk, label in disks])

    def _received(self) -> Iterator[Metric]:
        registry = self._relay.registry
        total = StreamCounters()
        total.add(registry.received)
        live = [stream for stream in registry if stream.publisher is not None]
        for stream in live:
            total.add(stream.counters)
        yield single(gauge("streams", "Streams that have a publisher or a waiting player."), len(registry))
        yield single(gauge("publishers", "Streams that have a publisher."), len(live))
        yield single(counter("received_messages", "Media messages from publishers."), total.messages)
        yield single(counter("received_bytes", "Bytes of media from publishers."), total.bytes)
        frames = counter("received_frames", "Frames from publishers.", "kind")
        yield labelled(frames, [(("video",), total.video_frames), (("audio",), total.audio_frames)])
        yield single(counter("received_keyframes", "Keyframes from publishers."), total.keyframes)

    def _players(self) -> Iterator[Metric]:
        registry = self._relay.registry
        total = AudienceAccount()
        total.add(registry.departed)
        kinds = dict.fromkeys(AUDIENCES, 0)
        queued = queued_bytes = 0
        for stream in registry:
            for player in stream.players:
                total.add(player.account)
                kinds[player.audience or ""] = kinds.get(player.audience or "", 0) + 1
                queued += player.messages_queued
                queued_bytes += player.bytes_queued
        watching = gauge("players", "Players by protocol: rtmp, flv (HTTP), mp4 (HTTP) or hls.", "kind")
        yield labelled(watching, [((kind,), count) for kind, count in kinds.items()])
        yield single(counter("player_sent_messages", "Messages delivered to players."), total.messages_sent)
        yield single(counter("player_sent_bytes", "Bytes of media delivered to players."), total.bytes_sent)
        dropped = counter("player_dropped_messages", "Messages that players did not get.", "reason")
        reasons = total.dropped_by_reason
        yield labelled(dropped, [((reason.value,), reasons[reason.value]) for reason in DropReason])
        yield single(gauge("player_queued_messages", "Messages queued for slow players."), queued)
        yield single(gauge("player_queued_bytes", "Bytes queued for slow players."), queued_bytes)

    def _streams(self) -> Iterator[Metric]:
        received = counter("stream_received_bytes", "Bytes from the publisher of a stream.", "stream")
        sent = counter("stream_sent_bytes", "Bytes delivered to the players of a stream.", "stream")
        lost = counter("stream_dropped_messages", "Messages that players of a stream did not get.", "stream")
        audience = gauge("stream_players", "Players of a stream.", "stream")
        rate = gauge("stream_bits_per_second", "What a publisher sent in the last seconds.", "stream")
        fps = gauge("stream_frames_per_second", "Frame rate over the last seconds.", "stream")
        interval = gauge("stream_keyframe_interval_seconds", "Time from keyframe to keyframe.", "stream")
        with_label, others = self._stream_labels.update()
        for stream in with_label:
            label, totals = [stream.key], totals_of(stream)
            received.add_metric(label, totals.received_bytes)
            sent.add_metric(label, totals.sent_bytes)
            lost.add_metric(label, totals.dropped_messages)
            audience.add_metric(label, sum(1 for _ in stream.players))
            rates = self._sampler.stream_rates(stream.key)
            for family, value in ((fps, rates.fps), (interval, rates.keyframe_interval)):
                if value is not None:
                    family.add_metric(label, value)
            if rates.bitrate_kbps is not None:
                rate.add_metric(label, rates.bitrate_kbps * 1000)
        rest = self._stream_labels.others
        if others or rest.received_bytes:
            received.add_metric([OTHER], rest.received_bytes)
            sent.add_metric([OTHER], rest.sent_bytes)
            lost.add_metric([OTHER], rest.dropped_messages)
            audience.add_metric([OTHER], sum(1 for one in others for _ in one.players))
            kbps = sum(self._sampler.stream_rates(one.key).bitrate_kbps or 0.0 for one in others)
            rate.add_metric([OTHER], kbps * 1000)
        yield from (received, sent, lost, audience, rate, fps, interval)

    def _event_counts(self) -> Iterator[Metric]:
        events = self._events
        counted = counter("events", "Events by name.", "event")
        yield labelled(counted, (((name,), count) for name, count in events.by_name.items()))
        limits = counter(
            "limits_exceeded", "Connections closed and requests refused because of a limit.", "limit"
        )
        # Adding two `Counter`s would leave out zeros, and Prometheus would not see the first refusal as an increase.
        exceeded = Counter(self._relay.refusals_by_limit())
        exceeded.update(events.limits)
        yield labelled(limits, (((name,), count) for name, count in exceeded.items()))
        refused = counter("refusals", "Requests that were refused, by kind.", "kind")
        yield labelled(
            refused,
            (
                (("connection",), self._relay.connections_refused),
                (("connect",), events.refused(ConnectRefused)),
                (("publish",), events.refused(PublishRefused)),
                (("play",), events.refused(PlayRefused)),
                (("control",), self._http.refused_tokens()),
            ),
        )
        guesses = counter("guesses", "Keys, passwords and tokens that were wrong, or not checked.", "outcome")
        http = self._http
        yield labelled(
            guesses, [(("wrong",), http.wrong_guesses()), (("unchecked",), http.unchecked_guesses())]
        )

    def _reactor(self) -> Iterator[Metric]:
        lag = HistogramMetricFamily(
            "rtmprelay_reactor_lag_seconds",
            "How late the reactor calls what is due, measured 4 times a second.",
        )
        lag.add_metric([], self._lag.cumulative(), self._lag.sum)
        yield lag
        yield single(
            gauge("reactor_lag_max_seconds", "The largest lag of the last minute."), self._lag.largest
        )

    def _http_figures(self) -> Iterator[Metric]:
        http = self._http
        yield single(gauge("http_connections", "HTTP connections that are open."), http.connections())
        yield single(gauge("http_event_readers", "Clients of the event stream."), http.event_readers())
        responses = counter("http_responses", "HTTP responses by status.", "code")
        yield labelled(responses, (((str(code),), count) for code, count in sorted(http.responses().items())))


def _destinations(
    statuses: Sequence[DestinationStatus], kbps: Callable[[str], float | None]
) -> Iterator[Metric]:
    def of_each(family: Family, value: Callable[[DestinationStatus], float]) -> Metric:
        return labelled(family, (((one.name,), value(one)) for one in statuses))

    yield single(gauge("destinations", "Configured destinations."), len(statuses))
    yield labelled(
        gauge(
            "destination_state", "1 for the state of a destination, 0 for the others.", "destination", "state"
        ),
        (
            ((one.name, state), float(one.state.value == state))
            for one in statuses
            for state in DESTINATION_STATES
        ),
    )
    yield of_each(
        counter("destination_sent_messages", "Messages sent to a destination.", "destination"),
        lambda one: one.messages_sent,
    )
    yield of_each(
        counter("destination_sent_bytes", "Bytes of media sent to a destination.", "destination"),
        lambda one: one.bytes_sent,
    )
    dropped = counter(
        "destination_dropped_messages", "Messages that a destination did not get.", "destination", "reason"
    )
    yield labelled(
        dropped,
        (
            ((one.name, reason.value), one.dropped_by_reason.get(reason.value, 0))
            for one in statuses
            for reason in DropReason
        ),
    )
    yield of_each(
        counter("destination_reconnects", "Connections after the first.", "destination"),
        lambda one: one.reconnect_count,
    )
    yield of_each(
        gauge("destination_queued_messages", "Messages queued for a destination.", "destination"),
        lambda one: one.messages_queued,
    )
    yield of_each(
        gauge(
            "destination_bits_per_second",
            "What was sent to a destination in the last seconds.",
            "destination",
        ),
        lambda one: (kbps(one.name) or 0.0) * 1000,
    )


def _pulls(statuses: Sequence[PullStatus]) -> Iterator[Metric]:
    def of_each(family: Family, value: Callable[[PullStatus], float]) -> Metric:
        return labelled(family, (((one.name,), value(one)) for one in statuses))

    states = gauge("pull_state", "1 for the state of a pull, 0 for the others.", "pull", "state")
    yield labelled(
        states,
        (((one.name, state), float(one.state.value == state)) for one in statuses for state in PULL_STATES),
    )
    streams = gauge("pull_streams", "Streams that are fetched now.", "pull")
    yield of_each(streams, lambda one: len(one.fetches))
    viewers = gauge("pull_viewers", "Viewers of the streams that are fetched.", "pull")
    yield of_each(viewers, lambda one: one.viewers)
    received = counter("pull_received_bytes", "Bytes of media that were fetched.", "pull")
    yield of_each(received, lambda one: one.bytes)
    reconnects = counter("pull_reconnects", "Connections of a pull after the first for each stream.", "pull")
    yield of_each(reconnects, lambda one: one.reconnect_count)


def _cluster(status: Mapping[str, Any]) -> Iterator[Metric]:
    """What this node knows of its cluster; nothing without one."""
    directory = status["directory"]
    if directory is None:
        return
    up = gauge("cluster_directory_up", "1 while the directory answers.")
    yield single(up, float(directory["state"] == "ok"))
    if directory["knowledge_age"] is not None:
        age = gauge("cluster_knowledge_age_seconds", "Seconds since the directory was read.")
        yield single(age, directory["knowledge_age"])
    for name, text in (
        ("streams", "Streams that a node owns."),
        ("players", "Players of a node."),
        ("draining", "1 while a node drains."),
    ):
        nodes = status["nodes"].items()
        yield labelled(
            gauge(f"cluster_{name}", text, "node"), (((node,), float(one[name])) for node, one in nodes)
        )


def _recordings(statuses: Sequence[RecordingStatus], totals: RecordingTotals) -> Iterator[Metric]:
    states = [status.state.value for status in statuses]
    recordings = gauge("recordings", "Recordings by state.", "state")
    yield labelled(recordings, (((state,), states.count(state)) for state in RECORDING_STATES))
    yield single(counter("recording_written_bytes", "Bytes written to recordings."), totals.bytes_written)
    yield single(
        counter("recording_written_messages", "Messages written to recordings."), totals.messages_written
    )
    dropped = counter("recording_dropped_messages", "Messages that were not recorded.", "reason")
    losses = dict.fromkeys(RECORDING_LOSSES, 0) | totals.dropped_by_reason
    yield labelled(dropped, (((reason,), count) for reason, count in losses.items()))
    queued = sum(status.bytes_queued for status in statuses)
    yield single(gauge("recording_queued_bytes", "Bytes queued for the disk."), queued)
