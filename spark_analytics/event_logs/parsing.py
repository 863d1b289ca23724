"""From lines of JSON to rows. Whatever a line is, it becomes a row, and none fails the job."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_analytics.event_schemas import EVENTS
from spark_analytics.table import DAY

#: What a line that is no event is called.
UNREADABLE = "unreadable"

#: Why, if it could be read at all.
NO_EVENT = "no event"

#: Columns that are not simply a field of the line.
_MADE_HERE = {"file_id", "line_end", "time", "event", "app", "stream", "line", "instance", "number", DAY}

#: Text of a line that is no event, for those who want to know what it is.
_KEPT_TEXT = 1000

#: No name and no reason is longer. Rows that follow from events pass through the driver, thousands at a time.
_LONGEST_TEXT = 4096

#: A time that is not there, or no time, is none at all; days are partitions, so they must be within reason.
_EARLIEST = "2000-01-01 00:00:00"
_LATEST = "2200-01-01 00:00:00"

#: More is no count and no time of anything, and would be the end of sums and dates: such a number is none.
_MOST_SECONDS = 10 * 366 * 86400.0
_MOST = 2**53 - 1


def json_schema() -> str:
    """The fields that lines are read with. What is not named here is left out, what is not there is null."""
    fields = [column for column in EVENTS.columns if column.name not in _MADE_HERE]
    known = ", ".join(f"`{column.name}` {column.type}" for column in fields)
    return f"time string, event string, stream string, instance string, number bigint, {known}"


def parse_events(lines: DataFrame) -> DataFrame:
    """Rows of `events` from file_id, line_end, line, problem."""
    parsed = lines.withColumn("e", fn.from_json("line", json_schema(), {"mode": "PERMISSIVE"}))
    is_event = f"e.event IS NOT NULL AND t BETWEEN '{_EARLIEST}' AND '{_LATEST}'"
    parsed = parsed.selectExpr("*", "try_to_timestamp(e.time) AS t")
    parsed = parsed.selectExpr("*", f"coalesce({is_event}, false) AS good")
    return parsed.selectExpr(*(f"{_value(column.name)} AS `{column.name}`" for column in EVENTS.columns))


def _value(name: str) -> str:
    """One column of `events`."""
    return _VALUES.get(name, f"IF(good, {_sane(name)}, NULL)")


def _sane(name: str) -> str:
    """A field of the line; null if it is a number without sense, and a text not longer than any is."""
    field = f"e.`{name}`"
    return {
        # Also of those that are no number: for Spark, NaN is the largest.
        "double": f"IF({field} BETWEEN 0D AND {_MOST_SECONDS}D, {field}, NULL)",
        "bigint": f"IF({field} BETWEEN 0 AND {_MOST}, {field}, NULL)",
        "string": f"left({field}, {_LONGEST_TEXT})",
        "map<string,bigint>": f"map_filter({field}, (k, v) -> v BETWEEN 0 AND {_MOST})",
    }.get(_TYPES[name], field)


_TYPES = {column.name: column.type for column in EVENTS.columns}

_STREAM = f"IF(good, {_sane('stream')}, NULL)"

_VALUES = {
    "file_id": "file_id",
    "line_end": "line_end",
    "time": "IF(good, t, NULL)",
    "event": f"IF(good, {_sane('event')}, '{UNREADABLE}')",
    # Logs of other programs have neither; then a file is taken for a run of its server.
    "instance": f"IF(good, coalesce({_sane('instance')}, file_id), NULL)",
    "number": f"IF(good, coalesce({_sane('number')}, line_end), NULL)",
    # As everywhere: what is before the last slash is the app.
    "app": f"regexp_extract({_STREAM}, r'(?s)^(.*)/[^/]*$', 1)",
    "stream": f"regexp_extract({_STREAM}, r'(?s)([^/]*)$', 1)",
    "reason": f"IF(good, {_sane('reason')}, coalesce(problem, '{NO_EVENT}'))",
    "line": f"""CASE WHEN NOT good THEN substring(line, 1, {_KEPT_TEXT})
        WHEN e.event NOT IN ('media_statistics', 'destination_statistics') THEN line END""",
    DAY: "to_date(IF(good, t, TIMESTAMP '1970-01-01'))",
}
