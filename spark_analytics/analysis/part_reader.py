"""Reads a part of a recording, from bytes to what is known of it."""

from __future__ import annotations

from collections.abc import Iterator

from spark_analytics.analysis.beginning import Beginning
from spark_analytics.analysis.block import BlockReader
from spark_analytics.analysis.findings import Findings, Incident
from spark_analytics.analysis.part import Part, join
from spark_analytics.scanning.classify import Classifier
from spark_analytics.scanning.range_scanner import DamagedPart, RangeScanner
from spark_analytics.scanning.sources import ByteSource
from spark_analytics.scanning.tag_arrays import TagArrays


class PartReader:
    """Goes through a part of a file; iterate over it until the end, then it has a `part`.

    Attributes:
        findings: Rows that were found. Whoever iterates takes them from time to time.
        part: What is known of the part.
        end: Where the next part begins.
    """

    def __init__(
        self, source: ByteSource, classifier: Classifier, beginning: Beginning, begin: int, stop: int
    ) -> None:
        self.findings = Findings()
        self.part = Part()
        self.end = begin
        self._beginning = beginning
        self._scanner = RangeScanner(source, begin, stop)
        self._blocks = BlockReader(source, classifier, beginning, self.findings)

    def __iter__(self) -> Iterator[None]:
        for found in self._scanner:
            if isinstance(found, DamagedPart):
                self._take_damage(found)
            else:
                self._take(found)
            self.findings.seconds.fold()
            self.end = self._scanner.position
            yield
        self.end = self._scanner.position

    def _take(self, tags: TagArrays) -> None:
        self.part = join(self.part, self._blocks.read(tags), self._beginning, self.findings)

    def _take_damage(self, damage: DamagedPart) -> None:
        kind = damage.kind.name.lower()
        last = self.part.all.last
        time_ms = int(last.times[0]) if len(last) else None
        size = damage.end - damage.begin
        detail = f"{damage.lost_bytes} of {size} bytes lost"
        self.findings.incidents.append(Incident(kind, time_ms, damage.begin, bytes=size, detail=detail))
        # Not joined like a part of its own: a hostile file may have a damage every few bytes.
        self.part.counts.lost_bytes += damage.lost_bytes
        self.part.counts.damages += 1
        self.part.damage_kinds |= {kind}
        if damage.tag is not None:
            self._take(damage.tag)
