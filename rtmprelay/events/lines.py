"""One event as one line of JSON: for the event log, and for hooks that write or post events."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum

from rtmprelay.events.base import Event
from rtmprelay.quantities import utc_time

#: Bytes. Usual lines are far shorter. In longer ones the texts are cut, because peers choose some of them.
LONGEST_LINE = 65_536

#: How much is left of each text in such a line.
_LONGEST_TEXT = 1000

#: The first fields of every line, in this order. The event's own fields follow.
COMMON_FIELDS = ("time", "event", "connection", "stream", "instance", "number")

#: Never cut, because they identify a line. The names of streams are bounded where they arrive.
_NEVER_CUT = frozenset(COMMON_FIELDS)


def new_instance() -> str:
    """A name for one run of a server that no other run has, on any machine. Names sort by the time of their start."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def encode_line(time: float, event: Event, instance: str, number: int) -> bytes:
    """The line with its line feed. There is no other line feed in it, and nothing but ASCII.

    Args:
        instance: The run of the server. Connections are numbered from 1 in each run.
        number: Counts the events of a run from 1, lost ones included.
    """
    fields = event.fields()
    line: dict[str, object] = {
        "time": format_time(time),
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


def format_time(time: float) -> str:
    """A time such as `2026-11-16T12:34:56.789012Z`. All have the same length, so that they sort as text."""
    return utc_time(time, "microseconds")


def _to_json(line: Mapping[str, object]) -> str:
    try:
        return json.dumps(line, default=_plain, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError):
        # NaN, an infinity, or a key that is no text.
        return json.dumps({key: _clean(value) for key, value in line.items()}, separators=(",", ":"))


def _plain(value: object) -> object:
    """A value of another type as one that JSON has. Of a secret that is its mask."""
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
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "..."
