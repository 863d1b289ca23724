"""Destinations: in which state each was when, and its outages."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_analytics.event_logs.batch import Batch
from spark_analytics.event_logs.columns import SUMS, names, seconds_between, server_gone

#: One stream on its way to one destination.
KEY = ("instance", "destination", "app", "stream")

CONNECTING, CONNECTED, DOWN, NONE = "connecting", "connected", "down", "none"

#: Seconds for which an outage that has ended is left open: what was lost in it is told right behind its end.
SETTLING = 60

_SO_FAR = f"PARTITION BY {names(*KEY)} ORDER BY number ROWS UNBOUNDED PRECEDING"
_BEFORE = f"PARTITION BY {names(*KEY)} ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"

# What was lost without a connection belongs to an outage; other losses do not.
_EVENTS = """event IN ('destination_connecting', 'destination_connected', 'destination_failed', 'destination_given_up',
    'destination_closed', 'destination_statistics') OR (event = 'destination_dropped' AND reason = 'not_connected')"""

_SURE = f"""CASE event WHEN 'destination_connected' THEN '{CONNECTED}' WHEN 'destination_failed' THEN '{DOWN}'
    WHEN 'destination_given_up' THEN '{DOWN}' WHEN 'destination_closed' THEN '{NONE}' END"""

# Connecting again without a failure: an operator wanted it.
_STATE = f"""coalesce(sure, IF(event = 'destination_connecting',
    IF(coalesce(last(sure, true) OVER ({_BEFORE}), '{NONE}') = '{NONE}', '{CONNECTING}', '{DOWN}'), NULL)) AS state"""


def steps(batch: Batch) -> DataFrame:
    """The events of destinations, with `state` (of those that change it); `state_run`, which counts the changes of it;
    `spell`, which counts the times in which a destination was connected, out, or not wanted at all (`side`);
    `out_spell`, the last of those in which it was out; `life`, which counts its broadcasts.
    """
    return (
        batch.events.where(_EVENTS)
        .selectExpr(
            "*", f"{_SURE} AS sure", f"count_if(event = 'destination_closed') OVER ({_BEFORE}) AS life"
        )
        .selectExpr("*", _STATE)
        .selectExpr("*", f"IF(state IN ('{CONNECTING}', '{DOWN}'), 'out', state) AS side")
        .selectExpr("*", *_runs("state", "state_run"), *_runs("side", "spell"))
        .selectExpr(
            "* EXCEPT (state_run, spell)",
            f"sum(state_run) OVER ({_SO_FAR}) AS state_run",
            f"sum(spell) OVER ({_SO_FAR}) AS spell",
        )
        .selectExpr("*", f"last(IF(side = 'out', spell, NULL), true) OVER ({_SO_FAR}) AS out_spell")
    )


def _runs(value: str, name: str) -> list[str]:
    """1 where a run of equal values begins, nulls left out."""
    return [
        f"IF({value} IS NOT NULL AND NOT ({value} <=> last({value}, true) OVER ({_BEFORE})), 1, 0) AS {name}"
    ]


def _bounded(runs: DataFrame, batch: Batch, order: str) -> DataFrame:
    """Add to runs where each one ends: `next_began`, `end_number`, `next`, `previous`, `ended`, `seconds`, the day."""
    in_order = f"OVER (PARTITION BY {names(*KEY)} ORDER BY {order})"
    rows = runs.selectExpr(
        "*",
        f"lead(began) {in_order} AS next_began",
        f"lead(begin_number) {in_order} AS end_number",
        f"lead(side) {in_order} AS next",
        f"lag(side) {in_order} AS previous",
    )
    return batch.with_servers(rows).selectExpr(
        "*",
        "coalesce(next_began, gone_at) AS ended",
        f"{seconds_between('began', 'coalesce(next_began, last_seen)')} AS seconds",
        "to_date(began) AS day",
    )


def states(steps_of: DataFrame, batch: Batch) -> DataFrame:
    """Rows of `destination_states` without `live_seconds`; with `is_open` and `is_new`."""
    runs = (
        steps_of.where("state IS NOT NULL")
        .groupBy(*KEY, "state_run")
        .agg(
            fn.expr("first(state) AS state"),
            fn.expr("first(side) AS side"),
            fn.expr("min(time) AS began"),
            fn.expr("min(number) AS begin_number"),
            fn.expr("max_by(address, IF(address IS NULL, NULL, number)) AS address"),
        )
    )
    return (
        _bounded(runs, batch, "state_run")
        .where(f"state != '{NONE}'")
        .selectExpr(
            "*",
            "end_number IS NULL AND NOT settled AS is_open",
            "IF(end_number IS NULL, settled, end_number > known_number) AS is_new",
        )
    )


_OF_OUTAGE = (
    "max(side) AS side",
    "min(IF(state IS NULL, NULL, time)) AS began",
    "min(IF(state IS NULL, NULL, number)) AS begin_number",
    "count_if(event = 'destination_failed') AS failures",
    "min_by(reason, IF(event = 'destination_failed', number, NULL)) AS error",
    "min_by(error_class, IF(event = 'destination_failed', number, NULL)) AS failure_class",
    "max_by(reason, IF(event = 'destination_failed', number, NULL)) AS last_error",
    "max(event = 'destination_given_up') AS given_up",
    "try_sum(IF(event = 'destination_dropped', count, NULL)) AS told_lost",
)


def outages(steps_of: DataFrame, batch: Batch) -> DataFrame:
    """Rows of `outages`; with `is_open` and `is_new`."""
    # What was lost belongs to the last outage, although it is told when that is over.
    spell = "IF(event = 'destination_dropped', out_spell, spell) AS spell"
    runs = (
        steps_of.where("state IS NOT NULL OR event = 'destination_dropped'")
        .selectExpr("* EXCEPT (spell)", spell)
        .groupBy(*KEY, "spell")
        .agg(*map(fn.expr, _OF_OUTAGE))
        .where("side IS NOT NULL")
    )
    return (
        _bounded(runs, batch, "spell")
        .selectExpr(
            "*",
            f"coalesce(previous = '{CONNECTED}', false) AS was_connected",
            "coalesce(failure_class, 'requested') AS error_class",
            f"""CASE next WHEN '{CONNECTED}' THEN 'recovered' WHEN '{NONE}' THEN 'closed'
                ELSE {server_gone("lasts")} END AS ended_how""",
            # A server tells it when the outage is over; of one that died before, nobody knows.
            "IF(next IS NULL, told_lost, coalesce(told_lost, 0)) AS lost_messages",
            f"settled OR {_had_settled('last_seen')} AS is_final",
            f"coalesce(end_number <= known_number, false) AND {_had_settled('known_until')} AS was_final",
        )
        .where("side = 'out' AND (failures > 0 OR was_connected)")
        .selectExpr("*", "NOT is_final AS is_open", "is_final AND NOT was_final AS is_new")
    )


def _had_settled(time: str) -> str:
    """Whether an outage had ended for good at that time."""
    return f"coalesce(unix_micros({time}) >= unix_micros(next_began) + {SETTLING}000000, false)"


def broadcasts(steps_of: DataFrame, batch: Batch) -> DataFrame:
    """What one stream delivered to one destination, from its first connection to its end; as `spells` are."""
    closed, report = "event = 'destination_closed'", "event = 'destination_statistics'"
    rests = [
        f"""greatest(coalesce(max(IF({closed}, {name}, NULL)), 0)
            - coalesce(try_sum(IF({report}, {name}, NULL)), 0), 0) AS rest_{name}"""
        for name in SUMS
    ]
    rows = steps_of.groupBy(*KEY, "life").agg(
        fn.expr("min(time) AS started_at"),
        fn.expr(f"max(IF({closed}, time, NULL)) AS stopped_at"),
        fn.expr(f"max(IF({closed}, number, NULL)) AS stop_number"),
        fn.expr(f"max(IF({report}, time, NULL)) AS reported_at"),
        *map(fn.expr, rests),
    )
    has_just_stopped = "coalesce(stop_number > known_number, false) AS has_just_stopped"
    return batch.with_servers(rows).selectExpr("*", has_just_stopped)
