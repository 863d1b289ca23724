"""Joins the parts of each file, on the driver: what every file is as a whole, and what was found where parts meet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from rtmprelay.amf.amf0 import AmfValue
from spark_analytics.indexing.part_result import PartResult
from spark_analytics.recordings.beginning import Beginning
from spark_analytics.recordings.findings import Findings
from spark_analytics.recordings.part import Part, finish, join

#: The number of rows that belong to no part, but to where parts meet.
BETWEEN_PARTS = -1


@attrs.define(eq=False)
class FileResult:
    """What is known of a whole file.

    Attributes:
        times_before: For each part but the first, the time of the last frame before it.
        at_edges: What was found where parts meet.
    """

    part: Part = attrs.field(factory=Part)
    beginning: Beginning = attrs.field(factory=Beginning)
    metadata: dict[str, AmfValue] = attrs.field(factory=dict)
    has_header: bool = False
    has_signature: bool = False
    error: str | None = None
    times_before: dict[int, int] = attrs.field(factory=dict)
    at_edges: Findings = attrs.field(factory=Findings)


def stitch(results: Sequence[PartResult]) -> FileResult:
    """Join the parts of a file, which are in order and all there."""
    for result in results:
        if result.error is not None:
            return FileResult(error=result.error)
    first = results[0]
    whole = FileResult(first.part, first.beginning, first.metadata, first.has_header, first.has_signature)
    if len(results) == 1:
        return whole
    if not _is_seamless(results):
        return FileResult(error="it changed while it was read")
    findings = whole.at_edges
    total = Part()
    for number, result in enumerate(results):
        if len(total.all.last):
            whole.times_before[number] = int(total.all.last.times[0])
        total = join(total, result.part, first.beginning, findings)
    finish(total, findings)
    whole.part = total
    return whole


def _is_seamless(results: Iterable[PartResult]) -> bool:
    """Whether each part begins where the one before it ends; if not, they are not parts of one and the same file."""
    end: int | None = None
    for result in results:
        if result.begin == result.end:
            continue
        if end is not None and result.begin != end:
            return False
        end = result.end
    return True
