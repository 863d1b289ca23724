"""How many watch at the same time, minute by minute."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_analytics.event_logs.batch import Batch
from spark_analytics.event_logs.columns import seconds_between
from spark_analytics.event_logs.spells import PLAY

_KEY = "instance, app, stream, minute"
_NEXT = "minute + INTERVAL 1 MINUTE"

_IN_ONE_MINUTE = (
    "instance",
    "app",
    "stream",
    "minute",
    "IF(came < minute AND went > minute, 1, 0) AS here_before",
    f"{seconds_between('greatest(came, minute)', f'least(went, {_NEXT})')} AS part",
    "came >= minute AS comes",
    f"has_left AND went < {_NEXT} AS leaves",
    # A play that ends exactly where the minute begins was not counted in it, so it may not be subtracted either.
    f"""filter(array(
        IF(came >= minute, struct(came AS at, 1 AS step), NULL),
        IF(went < {_NEXT} AND (came >= minute OR went > minute), struct(went AS at, -1 AS step), NULL)),
        edge -> edge IS NOT NULL) AS edges""",
)

_EDGES = (
    "*",
    # A play that comes and goes in the same minute has two edges, and counts once.
    "coalesce(edge.step = 1 OR NOT comes, true) AS counts",
    # Who goes at the very moment when another one comes is not counted with him.
    f"sum(edge.step) OVER (PARTITION BY {_KEY} ORDER BY edge.at, edge.step ROWS UNBOUNDED PRECEDING) AS more",
)

_MINUTE = (
    "sum(IF(counts, here_before, 0)) AS at_begin",
    "sum(IF(counts, part, 0D)) AS watch_seconds",
    "count_if(counts AND comes) AS joins",
    "count_if(counts AND leaves) AS leaves",
    "max(more) AS more",
)

#: A play has minutes for its last so many days, and the one in which it began. Longer ones come from clocks that were
#: set, and each would be millions of rows.
MOST_DAYS = 60

_MINUTES = """concat(IF(first < bound, array(first), array()),
    sequence(greatest(first, bound), date_trunc('minute', went), INTERVAL 1 MINUTE))"""

_IS_OPEN = "NOT settled AND minute >= date_trunc('minute', last_seen)"


def audience(spells: DataFrame, batch: Batch) -> DataFrame:
    """Rows of `audience`, from the minute on up to which the events of a server were known before.

    With `is_open`: the minute in which its last event is may not be over; and `is_new`.
    """
    plays = (
        spells.where(f"kind = '{PLAY}'")
        .selectExpr(
            "instance",
            "app",
            "stream",
            "started_at AS came",
            "greatest(coalesce(ended_at, last_seen), started_at) AS went",
            "ended_at IS NOT NULL AS has_left",
            "date_trunc('minute', known_until) AS known_minute",
        )
        .where("known_minute IS NULL OR went >= known_minute")
    )
    first = "greatest(date_trunc('minute', came), known_minute)"
    bound = f"date_trunc('minute', went) - INTERVAL {MOST_DAYS} DAYS"
    each = (
        plays.selectExpr("*", f"{first} AS first", f"{bound} AS bound")
        .selectExpr("*", f"explode({_MINUTES}) AS minute")
        .selectExpr(*_IN_ONE_MINUTE)
    )
    each = each.selectExpr("*", "explode_outer(edges) AS edge").selectExpr(*_EDGES)
    rows = each.groupBy("instance", "app", "stream", "minute").agg(*map(fn.expr, _MINUTE))
    return batch.with_servers(rows).selectExpr(
        "*",
        "at_begin + greatest(coalesce(more, 0), 0) AS peak",
        "watch_seconds / 60 AS average",
        f"{_IS_OPEN} AS is_open",
        f"NOT ({_IS_OPEN}) AS is_new",
        "to_date(minute) AS day",
    )
