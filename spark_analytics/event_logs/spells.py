"""Spells: plays and publishes, each from its first event to its last, wherever in the logs these are."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_analytics.event_logs.batch import Batch
from spark_analytics.event_logs.columns import SUMS, earlier, names, seconds_between

PLAY, PUBLISH = "play", "publish"

#: Who does what to which stream. One connection may do it several times, one after the other or even at once.
KEY = ("instance", "connection", "app", "stream", "kind")

_STARTED = "event IN ('play_started', 'publish_started')"
_STOPPED = "event IN ('play_stopped', 'publish_stopped')"
_REPORT = "event = 'media_statistics'"

_KIND = f"""CASE
    WHEN event IN ('play_started', 'play_stopped') OR ({_REPORT} AND role = 'player') THEN '{PLAY}'
    WHEN event IN ('publish_started', 'publish_stopped', 'codec_detected') OR ({_REPORT} AND role = 'publisher')
        THEN '{PUBLISH}'
    END AS kind"""

# Two spells of one connection with the same stream may overlap: which of them an end belongs to is told by how long it
# lasted. All that comes between belongs to the one that began last.
_NTH = f"""IF({_STOPPED},
    row_number() OVER (PARTITION BY {names(*KEY)}, event
        ORDER BY unix_micros(time) - coalesce(duration, 0D) * 1e6D, number),
    count_if({_STARTED}) OVER (PARTITION BY {names(*KEY)} ORDER BY number ROWS UNBOUNDED PRECEDING)) AS nth"""

_TOGETHER = (
    f"max(IF({_STARTED}, time, NULL)) AS start_time",
    f"max(IF({_STOPPED}, time, NULL)) AS stopped_at",
    f"max(IF({_STOPPED}, number, NULL)) AS stop_number",
    f"max(IF({_STOPPED}, duration, NULL)) AS duration",
    f"max(IF({_STOPPED}, reason, NULL)) AS reason",
    f"max(IF({_STOPPED}, clean, NULL)) AS clean",
    f"first(IF({_STOPPED}, dropped_by_reason, NULL), true) AS dropped_by_reason",
    f"max(IF({_REPORT}, time, NULL)) AS reported_at",
    "max_by(video, IF(event = 'codec_detected', number, NULL)) AS video_codec",
    "max_by(audio, IF(event = 'codec_detected', number, NULL)) AS audio_codec",
    *(f"max(IF({_STOPPED}, {name}, NULL)) AS total_{name}" for name in SUMS),
    *(f"try_sum(IF({_REPORT}, {name}, NULL)) AS sum_{name}" for name in SUMS),
)

# The server died before it had told anything.
_IS_UNKNOWN = "stopped_at IS NULL AND reported_at IS NULL AND server_how = 'died'"

_COMPLETED = (
    *KEY,
    "stopped_at",
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
    # Without the event of its beginning, how long it lasted tells.
    f"coalesce(start_time, {earlier('stopped_at', 'coalesce(duration, 0D)')}) AS started_at",
    "coalesce(stopped_at, gone_at) AS ended_at",
    "coalesce(duration, {lasted}) AS seconds".format(
        lasted=seconds_between("start_time", "coalesce(stopped_at, gone_at, last_seen)")
    ),
    "stopped_at IS NULL AND NOT settled AS is_open",
    "IF(stopped_at IS NULL, settled, stop_number > known_number) AS is_new",
    *(f"coalesce(total_{name}, sum_{name}, IF({_IS_UNKNOWN}, NULL, 0)) AS {name}" for name in SUMS),
    *(f"greatest(coalesce(total_{name}, 0) - coalesce(sum_{name}, 0), 0) AS rest_{name}" for name in SUMS),
)


def spells(batch: Batch) -> DataFrame:
    """One row for each play and each publish.

    Columns: KEY; `started_at`; `stopped_at`, `reason`, `clean`, `dropped_by_reason` (null without an end);
    `rest_...`: what came behind the last of its statistics, which was at `reported_at`; `ended_at`, `seconds`, and each
    of SUMS, as far as they are known; `video_codec`, `audio_codec`, `peer`, `client`; some of `Batch.servers`;
    `is_open`; `is_new`: it has ended, and that was not known before.
    """
    rows = batch.events.selectExpr("*", _KIND).where("kind IS NOT NULL").selectExpr("*", _NTH)
    together = rows.groupBy(*KEY, "nth").agg(*map(fn.expr, _TOGETHER))
    together = together.where("start_time IS NOT NULL OR stopped_at IS NOT NULL")
    people = _people(batch.events)
    return (
        batch.with_servers(together).join(people, ["instance", "connection"], "left").selectExpr(*_COMPLETED)
    )


def _people(events: DataFrame) -> DataFrame:
    """Who is behind each connection."""
    told = events.where("event IN ('connection_opened', 'connect')")
    return told.groupBy("instance", "connection").agg(
        fn.max("peer").alias("peer"), fn.max("client").alias("client")
    )
