"""Which events the next run needs: those of connections and broadcasts that have not ended, or only just."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_analytics.event_logs import outlets
from spark_analytics.event_logs.batch import Batch
from spark_analytics.event_logs.columns import SUMS, names
from spark_analytics.event_logs.connections import of_connections
from spark_analytics.event_logs.spells import STARTED, STOPPED
from spark_analytics.event_schemas import OPEN_EVENTS

# Between two starts or ends all reports belong to the same spell.
_GROUP = f"""count_if({STARTED} OR {STOPPED})
    OVER (PARTITION BY instance, connection, app, stream ORDER BY number ROWS UNBOUNDED PRECEDING) AS group"""

_DESTINATION_CLOSED = f"""max(IF(event = 'destination_closed', time, NULL))
    OVER (PARTITION BY {names(*outlets.KEY)}, life) AS closed_at"""

_KEYS = ("instance", "connection", "destination", "app", "stream", "event", "role")


def open_events(batch: Batch, steps: DataFrame) -> DataFrame:
    """Rows of `open_events`. Statistics are added up: one row for each play, publish and broadcast."""
    people = of_connections(batch.events).selectExpr("*", _GROUP)
    # The minute in which the log ends is counted anew by the next run, and who left in it belongs to it.
    people = batch.with_servers(people).where(
        "closed_at IS NULL OR closed_at >= date_trunc('minute', last_seen)"
    )
    sent = steps.selectExpr("*", _DESTINATION_CLOSED, "life AS group")
    settling = f"unix_micros(closed_at) > unix_micros(last_seen) - {outlets.SETTLING}000000"
    sent = batch.with_servers(sent).where(f"closed_at IS NULL OR {settling}")
    return _added_up(people).unionByName(_added_up(sent))


def _added_up(rows: DataFrame) -> DataFrame:
    """Make the statistics of a group one row; all other events stay as they are."""
    is_report = "event IN ('media_statistics', 'destination_statistics')"
    made = {
        "number": "max(number)",
        "time": "max(time)",
        "day": "max(day)",
        **{name: f"try_sum({name})" for name in SUMS},
    }
    values = [
        f"{made.get(name, f'first({name})')} AS {name}"
        for name in OPEN_EVENTS.column_names
        if name not in _KEYS
    ]
    return (
        rows.where("NOT settled")
        .selectExpr("*", f"IF({is_report}, -1 - group, number) AS which")
        .groupBy(*_KEYS, "which")
        .agg(*map(fn.expr, values))
        .select(OPEN_EVENTS.column_names)
    )
