"""Destinations day by day: how much of the time in which there was something to send they got it."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_analytics.event_logs.columns import seconds_between
from spark_analytics.event_logs.outlets import CONNECTED, KEY
from spark_analytics.event_schemas import DESTINATION_STATES, DESTINATIONS
from spark_analytics.table import DAY

_COUNTED = (
    "live_seconds",
    "connected_seconds",
    "streams",
    "reconnects",
    "outages",
    "outage_seconds",
    "lost_messages",
    "messages",
    "bytes",
    "dropped",
)

_END = "timestamp_micros(CAST(unix_micros(began) + seconds * 1e6D AS BIGINT))"


_OF_STREAM = "PARTITION BY instance, app, stream ORDER BY published, unpublished"

_PUBLISH = (
    "instance",
    "app",
    "stream",
    "started_at AS published",
    # One that goes on is live for as long as the state is known.
    "coalesce(ended_at, TIMESTAMP '2200-01-01') AS unpublished",
)

_HAD_BEEN_LIVE = f"max(unpublished) OVER ({_OF_STREAM} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"


def _live_times(publishes: DataFrame) -> DataFrame:
    """When streams had a publisher, `published` to `unpublished`. The times of one stream do not overlap: publishers do
    when one takes over from another that is not known to be lost yet.
    """
    return (
        publishes.selectExpr(*_PUBLISH)
        # The clock may have been set back meanwhile.
        .where("published < unpublished")
        .selectExpr("*", f"IF(published <= {_HAD_BEEN_LIVE}, 0, 1) AS is_first")
        .selectExpr("*", f"sum(is_first) OVER ({_OF_STREAM} ROWS UNBOUNDED PRECEDING) AS which")
        .groupBy("instance", "app", "stream", "which")
        .agg(fn.expr("min(published) AS published"), fn.expr("max(unpublished) AS unpublished"))
    )


def _live_pieces(states: DataFrame, publishes: DataFrame, how: str) -> DataFrame:
    """The parts of states in which the stream had a publisher, from `live_from` to `live_until`."""
    live = _live_times(publishes).selectExpr(
        "instance AS live_instance", "app AS live_app", "stream AS live_stream", "published", "unpublished"
    )
    same = "instance = live_instance AND app = live_app AND stream = live_stream"
    overlap = f"published < {_END} AND unpublished > began"
    return states.join(live, fn.expr(f"{same} AND {overlap}"), how).selectExpr(
        "*",
        "greatest(began, published) AS live_from",
        f"IF(published IS NULL, NULL, least({_END}, unpublished)) AS live_until",
    )


def with_live_seconds(states: DataFrame, publishes: DataFrame) -> DataFrame:
    """States with how long the stream had a publisher in each."""
    pieces = _live_pieces(states, publishes, "left")
    columns = [name for name in DESTINATION_STATES.column_names if name not in ("live_seconds", *KEY)]
    live = f"coalesce(sum({seconds_between('live_from', 'live_until')}), 0D) AS live_seconds"
    firsts = [f"first({name}) AS {name}" for name in (*columns, "is_open", "is_new")]
    return pieces.groupBy(*KEY, "begin_number").agg(*map(fn.expr, [*firsts, live]))


def destinations(
    states: DataFrame, publishes: DataFrame, outages: DataFrame, drops: DataFrame, deliveries: DataFrame
) -> DataFrame:
    """Rows of `destinations`.

    Args:
        drops: The events `destination_dropped`.
        deliveries: The rows of that table that are about destinations.
    """
    parts = [_uptime(states, publishes), _outages(outages), _drops(drops), _deliveries(deliveries)]
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    # Each part has at most one row for a destination and a day.
    together = rows.groupBy("destination", DAY).agg(
        *(fn.expr(f"coalesce(max({name}), 0) AS {name}") for name in _COUNTED),
        fn.expr("max(longest_outage_seconds) AS longest_outage_seconds"),
        fn.expr("max(recovery_p95_seconds) AS recovery_p95_seconds"),
        fn.expr("first(dropped_by_reason, true) AS dropped_by_reason"),
    )
    percent = "100 * try_divide(connected_seconds, live_seconds) AS uptime_percent"
    return together.selectExpr("*", percent).select(DESTINATIONS.column_names)


def _uptime(states: DataFrame, publishes: DataFrame) -> DataFrame:
    days = f"explode(sequence(to_date(live_from), to_date(live_until), INTERVAL 1 DAY)) AS {DAY}"
    part = seconds_between(
        "greatest(live_from, CAST(day AS TIMESTAMP))",
        "least(live_until, CAST(day AS TIMESTAMP) + INTERVAL 1 DAY)",
    )
    pieces = _live_pieces(states.drop(DAY), publishes, "inner").selectExpr("*", days)
    return (
        pieces.selectExpr("*", f"{part} AS part")
        .where("part > 0")
        .groupBy("destination", DAY)
        .agg(
            fn.expr("sum(part) AS live_seconds"),
            fn.expr(f"sum(IF(state = '{CONNECTED}', part, 0D)) AS connected_seconds"),
            fn.expr("count(DISTINCT app, stream) AS streams"),
        )
    )


def _outages(outages: DataFrame) -> DataFrame:
    recovered = "IF(ended_how = 'recovered', seconds, NULL)"
    return outages.groupBy("destination", DAY).agg(
        fn.expr(f"count({recovered}) AS reconnects"),
        fn.expr("count(*) AS outages"),
        fn.expr("sum(seconds) AS outage_seconds"),
        fn.expr("max(seconds) AS longest_outage_seconds"),
        fn.expr(f"percentile({recovered}, 0.95) AS recovery_p95_seconds"),
        fn.expr("try_sum(lost_messages) AS lost_messages"),
    )


def _drops(drops: DataFrame) -> DataFrame:
    drops = drops.selectExpr("destination", DAY, "coalesce(reason, 'unknown') AS reason", "count")
    by_reason = drops.groupBy("destination", DAY, "reason").agg(
        fn.expr("coalesce(try_sum(count), 0) AS count")
    )
    return by_reason.groupBy("destination", DAY).agg(
        fn.expr("map_from_entries(sort_array(collect_list(struct(reason, count)))) AS dropped_by_reason"),
        fn.expr("try_sum(count) AS dropped"),
    )


def _deliveries(deliveries: DataFrame) -> DataFrame:
    rows = deliveries.selectExpr("who AS destination", DAY, "messages", "bytes")
    return rows.groupBy("destination", DAY).agg(
        fn.expr("try_sum(messages) AS messages"), fn.expr("try_sum(bytes) AS bytes")
    )
