"""What went through, report by report: to viewers and destinations, and from publishers."""

from __future__ import annotations

from pyspark.sql import DataFrame

from spark_analytics.event_logs.batch import Batch
from spark_analytics.event_logs.columns import SUMS, earlier, seconds_between
from spark_analytics.event_logs.spells import PLAY
from spark_analytics.event_schemas import DELIVERIES

VIEWER, PUBLISHER, DESTINATION = "viewer", "publisher", "destination"

_REPORT = {
    "role": f"""CASE WHEN event = 'destination_statistics' THEN '{DESTINATION}'
        WHEN role = 'player' THEN '{VIEWER}' ELSE '{PUBLISHER}' END""",
    "who": "coalesce(destination, connection)",
    "began": earlier("time", "coalesce(seconds, 0D)"),
    "ended": "time",
    "queued": "coalesce(queued, 0)",
    "is_last": "false",
    **{name: f"coalesce({name}, 0)" for name in SUMS},
    "day": "to_date(time)",
}

_BEGIN_OF_REST = "least(coalesce(reported_at, started_at), stopped_at)"
_REST = {
    "began": _BEGIN_OF_REST,
    "ended": "stopped_at",
    "seconds": seconds_between(_BEGIN_OF_REST, "stopped_at"),
    "queued": "0",
    "is_last": "true",
    **{name: f"rest_{name}" for name in SUMS},
    "day": "to_date(stopped_at)",
}


def deliveries(batch: Batch, spells: DataFrame, broadcasts: DataFrame) -> DataFrame:
    """Rows of `deliveries`: all statistics that are new, and what came between the last of them and an end."""
    role = f"IF(kind = '{PLAY}', '{VIEWER}', '{PUBLISHER}')"
    parts = [
        _reports(batch),
        _rests(spells, {"role": role, "who": "connection"}),
        _rests(broadcasts, {"role": f"'{DESTINATION}'", "who": "destination"}),
    ]
    return parts[0].unionByName(parts[1]).unionByName(parts[2])


def _reports(batch: Batch) -> DataFrame:
    rows = batch.events.where("event IN ('media_statistics', 'destination_statistics')")
    return _made(batch.with_servers(rows).where("number > known_number"), _REPORT)


def _rests(rows: DataFrame, whose: dict[str, str]) -> DataFrame:
    return _made(rows.where("has_just_stopped"), {**_REST, **whose})


def _made(rows: DataFrame, values: dict[str, str]) -> DataFrame:
    return rows.selectExpr(*(f"{values.get(name, name)} AS {name}" for name in DELIVERIES.column_names))
