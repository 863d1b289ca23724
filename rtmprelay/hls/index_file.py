"""The index of a window that is kept as files: what a relay reads after a restart to go on with the playlist.

Lines of JSON. The first one is about the broadcast; each other one is a segment, in order. Lines that are cut short by a crash
are left out.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

import attrs

from rtmprelay.hls.cuts import Targets
from rtmprelay.hls.window import NAMES_LEFT_OUT, Segment

_FORMAT = 1


@attrs.frozen
class SavedWindow:
    """A window as the index has it.

    Attributes:
        removed_discontinuities: Those before the first segment.
    """

    broadcast: str
    targets: Targets
    segments: tuple[Segment, ...]
    removed_discontinuities: int
    next_part: int


def head_line(broadcast: str, targets: Targets, removed_discontinuities: int) -> bytes:
    """The first line."""
    return _line(
        {
            "format": _FORMAT,
            "broadcast": broadcast,
            "part": targets.part,
            "segment": targets.segment,
            "part_target": targets.part_target,
            "target_duration": targets.duration,
            "removed_discontinuities": removed_discontinuities,
        }
    )


def segment_line(segment: Segment) -> bytes:
    """The line of a complete segment."""
    last_part = segment.parts[-1].number if segment.parts else 0
    return _line(
        {
            "segment": segment.number,
            "name": segment.name,
            "date": segment.date,
            "duration": segment.duration,
            "size": segment.size,
            "configuration": segment.configuration,
            "discontinuity": segment.discontinuity,
            "independent": segment.independent,
            "last_part": last_part,
        }
    )


def _line(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def read_index(
    lines: Iterable[bytes],
    wanted: Targets,
    sizes: dict[int, int],
    configurations: Collection[int],
    since: float,
) -> SavedWindow | None:
    """The window that an index describes, as far as its files are there.

    Args:
        wanted: What the options say. A window with other lengths of parts or segments cannot be continued.
        sizes: The files that are there: the number in the name of each segment, and its bytes.
        configurations: The numbers of the initializations that are there.
        since: The date before which segments are too old.
    """
    head, *rest = [fields for line in lines if (fields := _fields(line)) is not None] or [{}]
    try:
        targets = Targets(head["part"], head["segment"], head["part_target"], head["target_duration"])
        if head["format"] != _FORMAT or (targets.part, targets.segment) != (wanted.part, wanted.segment):
            return None
        segments: list[Segment] = []
        removed = int(head["removed_discontinuities"])
        last_part = 0
        for fields in rest:
            number, size = int(fields["segment"]), int(fields["size"])
            # The first form of the index had no names: the number was the name.
            name = int(fields.get("name", number))
            last_part = max(last_part, int(fields["last_part"]))
            follows = not segments or number == segments[-1].number + 1
            is_there = sizes.get(name) == size and fields["configuration"] in configurations
            if not follows or not is_there or fields["date"] < since:
                removed += sum(one.discontinuity for one in segments) + bool(fields["discontinuity"])
                segments.clear()
                continue
            segments.append(
                Segment(
                    number,
                    name,
                    float(fields["date"]),
                    int(fields["configuration"]),
                    bool(fields["discontinuity"]),
                    duration=float(fields["duration"]),
                    size=size,
                    independent=bool(fields["independent"]),
                    data=None,
                    is_saved=True,
                )
            )
        if not segments or targets.duration is None:
            return None
        return SavedWindow(
            str(head["broadcast"]), targets, tuple(segments), removed, last_part + NAMES_LEFT_OUT
        )
    except (KeyError, TypeError, ValueError):
        return None


def _fields(line: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None
