"""Spells: plays and publishes, each from its first event to its last, wherever in the logs these are."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_analytics.event_logs.batch import Batch
from spark_analytics.event_logs.columns import SUMS, earlier, names, seconds_between
from spark_analytics.event_logs.connections import of_connections

PLAY, PUBLISH = "play", "publish"

#: Who does what to which stream. One connection may do it several times, one after the other or even at once.
KEY = ("instance", "connection", "app", "stream", "kind")

STARTED = "event IN ('play_started', 'publish_started')"
STOPPED = "event IN ('play_stopped', 'publish_stopped')"
_REPORT = "event = 'media_statistics'"

_KIND = f"""CASE
    WHEN event IN ('play_started', 'play_stopped') OR ({_REPORT} AND role = 'player') THEN '{PLAY}'
    WHEN event IN ('publish_started', 'publish_stopped', 'codec_detected') OR ({_REPORT} AND role = 'publisher')
        THEN '{PUBLISH}'
    END AS kind"""

_TOGETHER = (
    f"max(IF({STARTED}, time, NULL)) AS start_time",
    f"max(IF({STOPPED}, time, NULL)) AS stopped_at",
    f"max(IF({STOPPED}, number, NULL)) AS stop_number",
    f"max(IF({STOPPED}, duration, NULL)) AS duration",
    f"max(IF({STOPPED}, reason, NULL)) AS reason",
    f"max(IF({STOPPED}, clean, NULL)) AS clean",
    f"first(IF({STOPPED}, dropped_by_reason, NULL), true) AS dropped_by_reason",
    f"max(IF({_REPORT}, time, NULL)) AS reported_at",
    "max_by(video, IF(event = 'codec_detected', number, NULL)) AS video_codec",
    "max_by(audio, IF(event = 'codec_detected', number, NULL)) AS audio_codec",
    "max(closed_at) AS closed_at",
    "max_by(known_peer, number) AS peer",
    "max_by(known_client, number) AS client",
    *(f"max(IF({STOPPED}, {name}, NULL)) AS total_{name}" for name in SUMS),
    *(f"try_sum(IF({_REPORT}, {name}, NULL)) AS sum_{name}" for name in SUMS),
)

_BOUNDED = (
    "*",
    # Without the event of its beginning, how long it lasted tells.
    f"coalesce(start_time, {earlier('stopped_at', 'coalesce(duration, 0D)')}) AS started_at",
    # Without that of its end, it ended with its connection at the latest.
    "coalesce(stopped_at, closed_at, gone_at) AS over_at",
)

# It is over, and nothing was ever told.
_IS_UNKNOWN = "over_at IS NOT NULL AND stopped_at IS NULL AND reported_at IS NULL"

_COMPLETED = (
    *KEY,
    "started_at",
    "stopped_at",
    "closed_at",
    "reported_at",
    "reason",
    "clean",
    "dropped_by_reason",
    "video_codec",
    "audio_codec",
    "peer",
    "client",
    "server_how",
    "last_seen",
    "known_until",
    # A clock may have been set back meanwhile.
    "IF(over_at IS NULL, NULL, greatest(over_at, started_at)) AS ended_at",
    f"coalesce(duration, {seconds_between('start_time', 'coalesce(over_at, last_seen)')}) AS seconds",
    # Until its connection is closed, more may become known of who it is.
    "closed_number IS NULL AND NOT settled AS is_open",
    "IF(closed_number IS NULL, settled, closed_number > known_number) AS is_new",
    "coalesce(stop_number > known_number, false) AS has_just_stopped",
    *(f"coalesce(total_{name}, sum_{name}, IF({_IS_UNKNOWN}, NULL, 0)) AS {name}" for name in SUMS),
    *(f"greatest(coalesce(total_{name}, 0) - coalesce(sum_{name}, 0), 0) AS rest_{name}" for name in SUMS),
)


def spells(batch: Batch) -> DataFrame:
    """One row for each play and each publish.

    Columns: KEY; `started_at`; `stopped_at`, `reason`, `clean`, `dropped_by_reason` (null without an end);
    `rest_...`: what came behind the last of its statistics, which was at `reported_at`; `closed_at`, of its connection;
    `ended_at`, `seconds`, and each of SUMS, as far as they are known; `video_codec`, `audio_codec`, `peer`, `client`;
    some of `Batch.servers`; `has_just_stopped`: its end was not known before; `is_open`; `is_new`: all about it is known,
    and was not before.
    """
    rows = of_connections(batch.events).selectExpr("*", _KIND).where("kind IS NOT NULL")
    together = _told_apart(rows).groupBy(*_LIFE, "spell").agg(*map(fn.expr, _TOGETHER))
    together = together.where("start_time IS NOT NULL OR stopped_at IS NOT NULL")
    return batch.with_servers(together).selectExpr(*_BOUNDED).selectExpr(*_COMPLETED)


# -- which event belongs to which spell ----------------------------------------------------------------------
#
# Any event may be lost. A spell is called by the number of its start; by that of its end (below zero) without one.

_LIFE = (*KEY, "closed_number")

_IS_EDGE = f"({STARTED} OR {STOPPED})"

# When it began, as an end tells it.
_BEGUN = f"unix_micros(time) - IF({STOPPED}, coalesce(duration, 0D), 0D) * 1e6D AS begun"

_BY_BEGIN = f"PARTITION BY {names(*_LIFE)}, {_IS_EDGE} ORDER BY begun, number"
_START = f"IF({STARTED}, struct(number, begun), NULL)"

# Spells of one connection with the same stream may overlap: an end belongs to the start that is nearest to the time at
# which, by its own account, it began. That may be a little before the start was told.
_NEIGHBOURS = (
    f"last({_START}, true) OVER ({_BY_BEGIN} ROWS UNBOUNDED PRECEDING) AS before",
    f"lead({_START}) OVER ({_BY_BEGIN}) AS after",
)
_NEAREST = """CASE
    WHEN after.number < number AND NOT coalesce(begun - before.begun <= after.begun - begun, false) THEN after.number
    WHEN before.number < number THEN before.number
    END AS start_number"""

# A second end of the same spell is that of another, whose start was lost.
_IS_SECOND = f"row_number() OVER (PARTITION BY {names(*_LIFE)}, event, start_number ORDER BY number) > 1"

_EDGE = f"""CASE
    WHEN {STARTED} THEN number
    WHEN {STOPPED} THEN IF(start_number IS NULL OR {_IS_SECOND}, -1 - number, start_number)
    END AS edge"""

_BY_NUMBER = f"PARTITION BY {names(*_LIFE)} ORDER BY number"

# All that comes behind a start belongs to it, and what comes behind an end to what ends next.
_SPELL = f"""coalesce(edge, IF(
    last(IF(edge IS NULL, NULL, {STARTED}), true) OVER ({_BY_NUMBER} ROWS UNBOUNDED PRECEDING),
    last(edge, true) OVER ({_BY_NUMBER} ROWS UNBOUNDED PRECEDING),
    last(IF({STOPPED}, edge, NULL), true) OVER ({_BY_NUMBER} DESC ROWS UNBOUNDED PRECEDING))) AS spell"""


def _told_apart(rows: DataFrame) -> DataFrame:
    """Add which `spell` of _LIFE each event belongs to; null if nothing tells."""
    return (
        rows.selectExpr("*", _BEGUN)
        .selectExpr("*", *_NEIGHBOURS)
        .selectExpr("*", _NEAREST)
        .selectExpr("*", _EDGE)
        .selectExpr("*", _SPELL)
    )
