"""The text of GET /metrics, made in pieces so that a large one holds nothing up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from rtmprelay.web.server.request import RelayRequest
from rtmprelay.web.server.responses import Response
from rtmprelay.web.server.scheduling import CachedDocument, HttpScheduler

#: Seconds for which the text may be sent again.
_MAX_AGE = 1.0

#: Samples that are written in one piece; each takes a few microseconds.
_PIECE = 50


class _OneFamily(Collector):
    """A registry with one family, for `generate_latest`."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return [self._family]


class MetricsPage:
    """Renders the metrics of one relay and of its process. Nothing is registered globally."""

    def __init__(self, collector: Collector, scheduler: HttpScheduler, clock: IReactorTime) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(collector)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._text = CachedDocument(self._pieces, scheduler, clock, _MAX_AGE)

    def respond(self, _: RelayRequest) -> Deferred[Response]:
        return self._text.get().addCallback(
            lambda text: Response(text, content_type=CONTENT_TYPE_LATEST.encode())
        )

    def _pieces(self) -> Iterator[bytes]:
        for family in self._registry.collect():
            samples = family.samples
            yield self._render(family, samples[:_PIECE])
            for begin in range(_PIECE, len(samples), _PIECE):
                text = self._render(family, samples[begin : begin + _PIECE])
                # The first piece already has the lines that describe the family.
                yield b"".join(line for line in text.splitlines(True) if not line.startswith(b"#"))

    @staticmethod
    def _render(family: Metric, samples: list[Sample]) -> bytes:
        part = Metric(family.name, family.documentation, family.type, family.unit)
        part.samples = samples
        return generate_latest(_OneFamily(part))
