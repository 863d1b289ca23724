"""Viewers and publishers: one row for each play, and one for each publish."""

from __future__ import annotations

from pyspark.sql import DataFrame

from spark_analytics.event_logs.columns import server_gone
from spark_analytics.event_logs.spells import PLAY, PUBLISH


def _without_its_end(running: str) -> str:
    """How something has ended whose own end was not told."""
    return f"IF(closed_at IS NULL, {server_gone(running)}, 'lost')"


# In one word, from the sentence of the server.
_HOW_A_VIEWER_LEFT = f"""CASE
    WHEN stopped_at IS NULL THEN {_without_its_end("watching")}
    WHEN reason LIKE '%server stop%' THEN 'server stopped'
    WHEN reason LIKE '%stall_timeout%' OR reason LIKE '%took no byte%' THEN 'too slow'
    WHEN reason LIKE '%(limit:%' THEN 'sent away'
    WHEN reason LIKE '%broke it off%' OR reason LIKE '%lost%' THEN 'lost'
    ELSE 'left' END AS ended_how"""

_HOW_A_PUBLISH_ENDED = f"""CASE
    WHEN stopped_at IS NULL THEN {_without_its_end("live")}
    WHEN reason LIKE '%server stop%' THEN 'server stopped'
    WHEN clean THEN 'ended'
    ELSE 'lost' END AS ended_how"""


def viewers(spells: DataFrame) -> DataFrame:
    """Rows of `viewers`; with `is_open` and `is_new`."""
    return spells.where(f"kind = '{PLAY}'").selectExpr(
        "*",
        _HOW_A_VIEWER_LEFT,
        "reason AS end_reason",
        "seconds AS watch_seconds",
        "to_date(started_at) AS day",
    )


def publishes(spells: DataFrame) -> DataFrame:
    """Rows of `publishes`; with `is_open` and `is_new`."""
    return spells.where(f"kind = '{PUBLISH}'").selectExpr(
        "*", _HOW_A_PUBLISH_ENDED, "reason AS end_reason", "to_date(started_at) AS day"
    )
