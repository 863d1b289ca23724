"""One event as one line of JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum

from rtmprelay.events import Event

#: No line of a usual event is near this. What is longer has its texts cut: peers choose some of them.
LONGEST_LINE = 65_536

#: How much of each text is left in such a line.
_CUT_TEXT = 1000

#: What every line has, in this order; the event's own fields follow.
COMMON_FIELDS = ("time", "event", "connection", "stream", "instance", "number")

#: What tells lines apart stays whole. A stream's name is bounded where it comes in.
_NEVER_CUT = frozenset(COMMON_FIELDS)


def encode_line(time: float, event: Event, instance: str, number: int) -> bytes:
    """The line, with its line feed. Nothing but ASCII is in it, and no other line feed.

    Args:
        instance: Which run of the server it was: connections are numbered anew in each.
        number: The events of this run are counted from 1, those that are lost included.
    """
    fields = event.fields()
    line: dict[str, object] = {
        "time": written_time(time),
        "event": event.name,
        "connection": fields.pop("connection", None),
        "stream": fields.pop("stream", None),
        "instance": instance,
        "number": number,
        **fields,
    }
    text = _to_json(line)
    if len(text) > LONGEST_LINE:
        text = _to_json({key: value if key in _NEVER_CUT else _cut(value) for key, value in line.items()})
    return text.encode("ascii") + b"\n"


def written_time(time: float) -> str:
    """A time as the log has it, such as `2026-11-16T12:34:56.789012Z`."""
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _to_json(line: Mapping[str, object]) -> str:
    try:
        return json.dumps(line, default=_plain, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError):
        # A number that JSON does not have, or keys that are no text.
        return json.dumps({key: _clean(value) for key, value in line.items()}, separators=(",", ":"))


def _plain(value: object) -> object:
    """What JSON has for a value of another kind. A secret shows its mask, and nothing else."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)


def _clean(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _clean(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(one) for one in value]
    return _clean(_plain(value))


def _cut(value: object) -> object:
    if isinstance(value, bool | int | float) or value is None:
        return value
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= _CUT_TEXT else text[:_CUT_TEXT] + "..."
