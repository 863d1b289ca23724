"""From lines of JSON to rows of `events`. Whatever a line is, it becomes a row, and none fails the job.

The same code runs here and in Spark's workers, so both give the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import attrs

from spark_analytics.store.schema import DAY, arrow_type
from spark_analytics.store.tables import EVENTS

if TYPE_CHECKING:
    import pyarrow as pa

#: What a line that is no event is called.
UNREADABLE = "unreadable"

#: Why, if it could be read at all.
NO_EVENT = "no event"

#: Columns that are not simply a field of the line.
_MADE_HERE = {"file_id", "line_end", "time", "event", "app", "stream", "line", "instance", "number", DAY}

#: Statistics are most of the events, and their columns have everything that is in the line.
_WITHOUT_LINE = {"media_statistics", "destination_statistics"}

#: Text of a line that is no event, for those who want to know what it is.
_KEPT_TEXT = 1000

#: No name and no reason is longer. Rows that follow from events pass through the driver, thousands at a time.
_LONGEST_TEXT = 4096

#: Days are partitions, so they must be within reason.
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_LATEST = datetime(2200, 1, 1, tzinfo=UTC)
_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)

#: More is no count and no time of anything, and would break sums and dates: such a number is left out.
_MOST_SECONDS = 10 * 366 * 86400.0
_MOST = 2**53 - 1

_FIELD_TYPES = {
    "event": "string",
    "stream": "string",
    "instance": "string",
    "number": "bigint",
    **{column.name: column.type for column in EVENTS.columns if column.name not in _MADE_HERE},
}

_MAPS = [name for name, type_name in _FIELD_TYPES.items() if type_name.startswith("map<")]


@attrs.frozen
class TextLine:
    """One line.

    Attributes:
        end: Where it ends in the text.
        text: None if there is a problem.
    """

    end: int
    text: str | None
    problem: str | None = None


def parse_events(file_id: str, lines: Sequence[TextLine]) -> pa.RecordBatch:
    """Rows of `events`, one for each line."""
    import pyarrow as pa

    events = [None if line.text is None else _event_of(line.text) for line in lines]
    fields = _fields_of(events)
    columns: dict[str, Any] = {name: fields[name] for name in _FIELD_TYPES}
    columns["file_id"] = [file_id] * len(lines)
    columns["line_end"] = [line.end for line in lines]
    columns["time"] = [None if event is None else event["time"] for event in events]
    columns[DAY] = [(_NO_TIME if event is None else event["time"]).date() for event in events]
    columns["event"] = _or_else(fields["event"], [UNREADABLE] * len(lines))
    # Logs of other programs have neither; then a file is taken for a run of its server.
    is_event = [event is not None for event in events]
    columns["instance"] = _or_else(fields["instance"], _where(is_event, columns["file_id"]))
    columns["number"] = _or_else(fields["number"], _where(is_event, columns["line_end"]))
    columns["reason"] = _or_else(
        fields["reason"],
        [None if good else line.problem or NO_EVENT for good, line in zip(is_event, lines, strict=True)],
    )
    apps, streams = _apps_and_streams(fields["stream"].to_pylist())
    columns["app"], columns["stream"] = apps, streams
    columns["line"] = [_kept_line(line, event) for line, event in zip(lines, events, strict=True)]
    schema = EVENTS.arrow_schema()
    arrays = [
        value if isinstance(value, pa.Array) else pa.array(value, field.type)
        for field, value in ((field, columns[field.name]) for field in schema)
    ]
    return pa.record_batch(arrays, schema=schema)


def _event_of(text: str) -> dict[str, Any] | None:
    """The fields of a line, with its time as a `datetime`; None if it is no event."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or values.get("event") is None:
        return None
    time = _time_of(values.get("time"))
    if time is None:
        return None
    values["time"] = time
    for name in _MAPS:
        pairs = values.get(name)
        values[name] = list(pairs.items()) if isinstance(pairs, dict) else None
    return values


def _time_of(text: Any) -> datetime | None:
    """A time within reason; where it names no zone, it is UTC."""
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text)
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return time if _EARLIEST <= time <= _LATEST else None


def _fields_of(events: Sequence[dict[str, Any] | None]) -> dict[str, pa.Array]:
    """The fields that the tables know, each as a column; null where it has no sensible value."""
    import pyarrow as pa

    kind = _struct()
    try:
        rows = pa.array(events, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError, UnicodeError):
        # Some field is not of its type: look at each one.
        rows = pa.array([None if event is None else _typed(event) for event in events], kind)
    columns = dict(zip(_FIELD_TYPES, rows.flatten(), strict=True))
    return {name: _sensible(column, _FIELD_TYPES[name]) for name, column in columns.items()}


@cache
def _struct() -> pa.StructType:
    import pyarrow as pa

    return pa.struct([(name, arrow_type(type_name)) for name, type_name in _FIELD_TYPES.items()])


def _typed(event: dict[str, Any]) -> dict[str, Any]:
    return {name: _as_type(event.get(name), type_name) for name, type_name in _FIELD_TYPES.items()}


def _as_type(value: Any, type_name: str) -> Any:
    """A value as its column can have it, or None."""
    if value is None:
        return None
    if type_name == "string":
        text = value if isinstance(value, str) else json.dumps(value)
        # Half of a pair of surrogates is no text.
        return text.encode("utf-8", "replace").decode()
    if type_name == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if type_name == "bigint":
        return value if isinstance(value, int) and abs(value) <= _MOST else None
    if type_name == "double":
        return (
            float(value)
            if isinstance(value, float) or (isinstance(value, int) and abs(value) <= _MOST)
            else None
        )
    if isinstance(value, list):
        return [(_as_type(key, "string"), _as_type(count, "bigint")) for key, count in value]
    return None


def _sensible(column: pa.Array, type_name: str) -> pa.Array:
    """A column without numbers that make no sense, and without texts that are longer than any is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if type_name in ("bigint", "double"):
        most = _MOST if type_name == "bigint" else _MOST_SECONDS
        good = pc.and_(pc.greater_equal(column, 0), pc.less_equal(column, most))
        return pc.if_else(good, column, pa.scalar(None, column.type))
    if type_name == "string" and (pc.max(pc.binary_length(column)).as_py() or 0) > _LONGEST_TEXT:
        return pc.utf8_slice_codeunits(column, 0, _LONGEST_TEXT)
    if type_name.startswith("map<") and column.null_count < len(column):
        rows = [None if pairs is None else _counts(pairs) for pairs in column.to_pylist()]
        return pa.array(rows, column.type)
    return column


def _counts(pairs: Iterable[tuple[str, int | None]]) -> list[tuple[str, int]]:
    return [(key, count) for key, count in pairs if count is not None and 0 <= count <= _MOST]


def _or_else(column: pa.Array, other: list[Any]) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.coalesce(column, pa.array(other, column.type))


def _where(wanted: Iterable[bool], values: Iterable[Any]) -> list[Any]:
    return [value if is_wanted else None for is_wanted, value in zip(wanted, values, strict=True)]


def _apps_and_streams(keys: Iterable[str | None]) -> tuple[list[str | None], list[str | None]]:
    """What is before the last slash is the app, as everywhere."""
    apps: list[str | None] = []
    streams: list[str | None] = []
    for key in keys:
        app, _, stream = (None, None, None) if key is None else key.rpartition("/")
        apps.append(app)
        streams.append(stream)
    return apps, streams


def _kept_line(line: TextLine, event: dict[str, Any] | None) -> str | None:
    if event is None:
        return None if line.text is None else line.text[:_KEPT_TEXT]
    return None if event["event"] in _WITHOUT_LINE else line.text
