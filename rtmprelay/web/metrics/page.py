"""GET /metrics: Prometheus' text, made at most once a second however many scrape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from rtmprelay.web.api.documents import Document
from rtmprelay.web.server.answers import Answer
from rtmprelay.web.server.turns import Turns

#: Seconds for which the text is good enough for the next one who asks.
_FRESH = 1.0


#: Samples that are written out in one piece; each takes some microseconds.
_AT_ONCE = 50


class _Part:
    """Some samples of a family, as a registry that has nothing else."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> list[Metric]:
        """That family."""
        return [self._family]


class MetricsPage:
    """Renders the metrics of one relay and of its process; nothing is registered globally."""

    def __init__(self, collector: Collector, turns: Turns, clock: IReactorTime) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(collector)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._text = Document(self._pieces, turns, clock, _FRESH)

    def answer(self) -> Deferred[Answer]:
        """The text."""
        return self._text.get().addCallback(
            lambda text: Answer(text, content_type=CONTENT_TYPE_LATEST.encode())
        )

    def _pieces(self) -> Iterator[bytes]:
        for family in self._registry.collect():
            samples = family.samples
            yield self._written(family, samples[:_AT_ONCE])
            for begin in range(_AT_ONCE, len(samples), _AT_ONCE):
                text = self._written(family, samples[begin : begin + _AT_ONCE])
                # The description of the family is there already.
                yield b"".join(line for line in text.splitlines(True) if not line.startswith(b"#"))

    @staticmethod
    def _written(family: Metric, samples: list[Sample]) -> bytes:
        part = Metric(family.name, family.documentation, family.type, family.unit)
        part.samples = samples
        return generate_latest(cast(Collector, _Part(part)))
