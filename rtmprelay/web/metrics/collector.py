"""The relay's counters for Prometheus: read when somebody asks, never touched on the way of a frame.

docs/http.rst lists all of them; a test holds the two together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import attrs
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from rtmprelay import __version__
from rtmprelay.streams.accounting import DropReason
from rtmprelay.streams.audience import AudienceAccount, players
from rtmprelay.streams.live_stream import StreamCounters
from rtmprelay.web.api.sampling import RateSampler
from rtmprelay.web.metrics.event_counts import EventCounts
from rtmprelay.web.metrics.families import counter, gauge, labelled, single
from rtmprelay.web.metrics.outputs import destination_metrics, recording_metrics
from rtmprelay.web.metrics.reactor_lag import ReactorLag
from rtmprelay.web.metrics.stream_series import OTHER, StreamSeries, totals_of
from rtmprelay.web.relay_view import Relay

#: By what players may get a stream.
AUDIENCES = ("rtmp", "flv", "mp4")


@attrs.frozen
class HttpFigures:
    """What the HTTP part counts of itself."""

    connections: Callable[[], int]
    event_readers: Callable[[], int]
    responses: Callable[[], dict[int, int]]
    refused_tokens: Callable[[], int]


@attrs.define(eq=False)
class RelayCollector(Collector):
    """Makes Prometheus' samples from the relay's own counters."""

    _relay: Relay
    _sampler: RateSampler
    _events: EventCounts
    _lag: ReactorLag
    _uptime: Callable[[], float]
    _http: HttpFigures
    _series: StreamSeries

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before it is asked for; registering must not ask."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All samples of this moment."""
        yield from self._server()
        yield from self._received()
        yield from self._players()
        yield from self._streams()
        yield from destination_metrics(
            list(self._relay.destination_statuses()), self._sampler.destination_kbps
        )
        yield from recording_metrics(self._relay.recording_statuses(), self._relay.recording_totals())
        yield from self._happened()
        yield from self._reactor()
        yield from self._over_http()

    def _server(self) -> Iterator[Metric]:
        version = gauge("build_info", "Always 1; the version is a label.", "version")
        yield labelled(version, [((__version__,), 1)])
        yield single(gauge("uptime_seconds", "Seconds since the service began."), self._uptime())
        yield single(gauge("connections", "RTMP connections that are open."), self._relay.connections)

    # -- what comes in ---------------------------------------------------------------------------------------

    def _received(self) -> Iterator[Metric]:
        registry = self._relay.registry
        total = StreamCounters()
        total.add(registry.received)
        live = [stream for stream in registry if stream.publisher is not None]
        for stream in live:
            total.add(stream.counters)
        yield single(gauge("streams", "Streams that are published or waited for."), len(registry))
        yield single(gauge("publishers", "Streams that are published."), len(live))
        yield single(counter("received_messages", "Media messages from publishers."), total.messages)
        yield single(counter("received_bytes", "Bytes of media from publishers."), total.bytes)
        frames = counter("received_frames", "Frames from publishers.", "kind")
        yield labelled(frames, [(("video",), total.video_frames), (("audio",), total.audio_frames)])
        yield single(counter("received_keyframes", "Keyframes from publishers."), total.keyframes)

    # -- players ---------------------------------------------------------------------------------------------

    def _players(self) -> Iterator[Metric]:
        registry = self._relay.registry
        total = AudienceAccount()
        total.add(registry.departed)
        kinds = dict.fromkeys(AUDIENCES, 0)
        queued = queued_bytes = 0
        for stream in registry:
            for player in players(stream.subscribers):
                total.add(player.account)
                kinds[player.audience or ""] = kinds.get(player.audience or "", 0) + 1
                queued += player.messages_queued
                queued_bytes += player.bytes_queued
        watching = gauge("players", "Players, by what they get the stream.", "kind")
        yield labelled(watching, [((kind,), count) for kind, count in kinds.items()])
        yield single(counter("player_sent_messages", "Messages delivered to players."), total.messages_sent)
        yield single(counter("player_sent_bytes", "Bytes of media delivered to players."), total.bytes_sent)
        dropped = counter("player_dropped_messages", "Messages that players did not get.", "reason")
        reasons = total.dropped_by_reason
        yield labelled(dropped, [((reason.value,), reasons[reason.value]) for reason in DropReason])
        yield single(gauge("player_queued_messages", "Messages that wait for slow players."), queued)
        yield single(gauge("player_queued_bytes", "Bytes that wait for slow players."), queued_bytes)

    # -- streams ---------------------------------------------------------------------------------------------

    def _streams(self) -> Iterator[Metric]:
        received = counter("stream_received_bytes", "Bytes from the publisher of a stream.", "stream")
        sent = counter("stream_sent_bytes", "Bytes delivered to the players of a stream.", "stream")
        lost = counter("stream_dropped_messages", "Messages that players of a stream did not get.", "stream")
        audience = gauge("stream_players", "Players of a stream.", "stream")
        rate = gauge("stream_bits_per_second", "What a publisher sends, over the last seconds.", "stream")
        fps = gauge("stream_frames_per_second", "Pictures a second, over the last seconds.", "stream")
        distance = gauge("stream_keyframe_interval_seconds", "From keyframe to keyframe.", "stream")
        named, others = self._series.look()
        for stream in named:
            label, totals = [stream.key], totals_of(stream)
            received.add_metric(label, totals.received_bytes)
            sent.add_metric(label, totals.sent_bytes)
            lost.add_metric(label, totals.dropped_messages)
            audience.add_metric(label, sum(1 for _ in players(stream.subscribers)))
            rates = self._sampler.stream_rates(stream.key)
            for family, value in ((fps, rates.fps), (distance, rates.keyframe_interval)):
                if value is not None:
                    family.add_metric(label, value)
            if rates.bitrate_kbps is not None:
                rate.add_metric(label, rates.bitrate_kbps * 1000)
        rest = self._series.others
        if others or rest.received_bytes:
            received.add_metric([OTHER], rest.received_bytes)
            sent.add_metric([OTHER], rest.sent_bytes)
            lost.add_metric([OTHER], rest.dropped_messages)
            audience.add_metric([OTHER], sum(1 for one in others for _ in players(one.subscribers)))
            kbps = sum(self._sampler.stream_rates(one.key).bitrate_kbps or 0.0 for one in others)
            rate.add_metric([OTHER], kbps * 1000)
        yield from (received, sent, lost, audience, rate, fps, distance)

    # -- events, limits, the reactor, HTTP -------------------------------------------------------------------

    def _happened(self) -> Iterator[Metric]:
        events = self._events
        counted = counter("events", "What happened, by the name of the event.", "event")
        yield labelled(counted, (((name,), count) for name, count in events.by_name.items()))
        limits = counter(
            "limits_exceeded", "Connections closed, and wishes refused, because of a limit.", "limit"
        )
        # Not the sum of two counters: that leaves zeros out, and a first refusal would not be seen as a step.
        exceeded = Counter(self._relay.refusals_by_limit())
        exceeded.update(events.limits)
        yield labelled(limits, (((name,), count) for name, count in exceeded.items()))
        refused = counter("refusals", "What was not allowed.", "kind")
        yield labelled(
            refused,
            (
                (("connection",), self._relay.connections_refused),
                (("connect",), events.by_name["connect_refused"]),
                (("publish",), events.by_name["publish_refused"]),
                (("play",), events.by_name["play_refused"]),
                (("control",), self._http.refused_tokens()),
            ),
        )

    def _reactor(self) -> Iterator[Metric]:
        lag = HistogramMetricFamily(
            "rtmprelay_reactor_lag_seconds",
            "How late the reactor does what is due, measured 4 times a second.",
        )
        lag.add_metric([], self._lag.cumulative(), self._lag.sum)
        yield lag
        yield single(
            gauge("reactor_lag_max_seconds", "The largest such lag of the last minute."), self._lag.largest
        )

    def _over_http(self) -> Iterator[Metric]:
        http = self._http
        yield single(gauge("http_connections", "HTTP connections that are open."), http.connections())
        yield single(gauge("http_event_readers", "Readers of the event stream."), http.event_readers())
        responses = counter("http_responses", "Answers over HTTP, by their status.", "code")
        yield labelled(responses, (((str(code),), count) for code, count in sorted(http.responses().items())))
