"""Viewers and publishers: one row for each play, and one for each publish."""

from __future__ import annotations

from pyspark.sql import DataFrame

from spark_analytics.event_logs.columns import server_gone
from spark_analytics.event_logs.spells import PLAY, PUBLISH


def _without_its_end(running: str) -> str:
    """How something has ended whose own end was not told."""
    return f"IF(closed_at IS NULL, {server_gone(running)}, 'lost')"


#: Why a play ended, by the exact reason that the server gives. A reason that is not listed is `unknown`: a sentence that
#: merely contains a word of these says nothing reliable.
VIEWER_REASONS = {
    "the peer closed it": "left",
    "the client closed it": "left",
    "the viewer stopped": "left",
    "the stream ended": "left",
    "the peer broke it off": "lost",
    "the server stops": "server stopped",
}

# The server ends the sentence of a limit with the limit's name.
_LIMIT = r"regexp_extract(reason, r'[(]limit: ([a-z_]+)[)]$', 1)"

_EXACTLY = " ".join(f"WHEN '{reason}' THEN '{how}'" for reason, how in VIEWER_REASONS.items())

_HOW_A_VIEWER_LEFT = f"""CASE
    WHEN stopped_at IS NULL THEN {_without_its_end("watching")}
    WHEN {_LIMIT} = 'stall_timeout' THEN 'too slow'
    WHEN {_LIMIT} != '' THEN 'sent away'
    ELSE coalesce(CASE reason {_EXACTLY} END, 'unknown') END AS ended_how"""

_HOW_A_PUBLISH_ENDED = f"""CASE
    WHEN stopped_at IS NULL THEN {_without_its_end("live")}
    WHEN reason = 'the server stops' THEN 'server stopped'
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
