"""Reads a part of a recording, from bytes to what is known of it."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from spark_analytics.flv.classify import Classifier
from spark_analytics.flv.scanner import DamagedPart, RangeScanner, first_tag, start_of_part
from spark_analytics.flv.sources import ByteSource
from spark_analytics.flv.tags import Integers, TagArrays
from spark_analytics.recordings.beginning import Beginning
from spark_analytics.recordings.block import BlockReader
from spark_analytics.recordings.findings import Findings, Incident
from spark_analytics.recordings.part import Part, join
from spark_analytics.recordings.rules import RECENT_FRAMES
from spark_analytics.recordings.steps import Frames

#: So many tags, or damages, are looked at together: a file may have a damage every few bytes.
_MOST_TOGETHER = 4096

#: How far back the frames before a part are looked for, in bytes, and how many times as far if there are too few.
_FIRST_LOOK_BACK = 1 << 20
_FARTHER = 8


@attrs.define(eq=False)
class _Batch:
    """Tags and damages that follow each other."""

    tags: list[TagArrays] = attrs.field(factory=list)
    damages: list[DamagedPart] = attrs.field(factory=list)
    tag_count: int = 0

    def add(self, found: TagArrays | DamagedPart) -> None:
        """The next ones."""
        if isinstance(found, DamagedPart):
            self.damages.append(found)
        tags = found.tag if isinstance(found, DamagedPart) else found
        if tags is not None:
            self.tags.append(tags)
            self.tag_count += len(tags)

    @property
    def is_large(self) -> bool:
        """Whether it is enough."""
        # Without damage, blocks are as large as they should be.
        return not self.damages or max(self.tag_count, len(self.damages)) >= _MOST_TOGETHER


def recent_times(source: ByteSource, classifier: Classifier, beginning: Beginning, begin: int) -> Integers:
    """The times of the last RECENT_FRAMES frames before a place where a tag begins, wherever the part before was cut."""
    first = first_tag(source)
    distance = _FIRST_LOOK_BACK
    while begin > first:
        start = start_of_part(source, max(first, begin - distance), begin)
        parts = []
        for found in RangeScanner(source, start, begin):
            tags = found.tag if isinstance(found, DamagedPart) else found
            if tags is not None:
                coded = classifier.table.coded(classifier.classify(source, tags))
                parts.append(beginning.times(tags.timestamps[coded]))
        times = np.concatenate(parts) if parts else np.empty(0, np.int64)
        if len(times) >= RECENT_FRAMES or begin - distance <= first:
            return times[-RECENT_FRAMES:]
        distance *= _FARTHER
    return np.empty(0, np.int64)


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
        recent = recent_times(source, classifier, beginning, begin)
        self._blocks = BlockReader(source, classifier, beginning, self.findings, recent)

    def __iter__(self) -> Iterator[None]:
        for batch in self._batches():
            self._take(batch)
            self.findings.seconds.fold()
            yield
        self.end = self._scanner.position

    def _batches(self) -> Iterator[_Batch]:
        batch = _Batch()
        for found in self._scanner:
            batch.add(found)
            if batch.is_large:
                yield batch
                batch = _Batch()
        if batch.tags or batch.damages:
            yield batch

    def _take(self, batch: _Batch) -> None:
        last = self.part.all.last
        frames = Frames()
        if batch.tags:
            part, frames = self._blocks.read(TagArrays.joined(batch.tags))
            self.part = join(self.part, part, self._beginning, self.findings)
        if batch.damages:
            self._take_damages(batch.damages, last.then(frames))

    def _take_damages(self, damages: list[DamagedPart], frames: Frames) -> None:
        """Note damages; each is when the last one of these frames was that is before it."""
        counts = self.part.counts
        before = np.searchsorted(frames.offsets, [damage.begin for damage in damages]) - 1
        for damage, number in zip(damages, before.tolist(), strict=True):
            kind = damage.kind.name.lower()
            time_ms = int(frames.times[number]) if number >= 0 else None
            size = damage.end - damage.begin
            detail = f"{damage.lost_bytes} of {size} bytes lost"
            self.findings.incidents.append(Incident(kind, time_ms, damage.begin, bytes=size, detail=detail))
            counts.lost_bytes += damage.lost_bytes
        counts.damages += len(damages)
        self.part.damage_kinds |= {damage.kind.name.lower() for damage in damages}
