"""From what was read to the rows of the tables: frames in, frames out, no session and no files.

`scanned` is what the workers send (`indexing.scan_rows`); `files` has a row for each file that was read
(`indexing.recording_row.FileFrame`).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.window import Window

from spark_analytics.analysis.findings import FREEZE, GAP, SILENCE
from spark_analytics.analysis.rules import SESSION_HOLE, USUAL_STEPS
from spark_analytics.analysis.seconds import LARGEST, SUMS
from spark_analytics.indexing.scan_rows import INCIDENT, KEYFRAME, SECOND
from spark_analytics.schemas import DAY, INCIDENTS, KEYFRAMES, SECONDS, SESSIONS, Table

#: Holes between files that are shorter cannot be told from the inaccuracy of their times.
_LEAST_HOLE_MS = 1000

#: Files whose times say nothing.
_WITHOUT_TIMES = ("unreadable", "empty", "not_flv", "header_only")


def keyframes_table(scanned: DataFrame, files: DataFrame) -> DataFrame:
    """Rows of `keyframes`."""
    rows = scanned.where(fn.col("row") == KEYFRAME).join(fn.broadcast(files), "file_id")
    return _as_table(KEYFRAMES, _with_wall(rows, fn.col("time_ms") * 1000))


def seconds_table(scanned: DataFrame, files: DataFrame) -> DataFrame:
    """Rows of `seconds`: those of one second in several parts of a file become one."""
    rows = scanned.where(fn.col("row") == SECOND)
    # All that follows stays within a file, so this is the only time that rows move.
    together = rows.repartition("file_id").groupBy("file_id", "second")
    sums = together.agg(
        *(fn.sum(name).alias(name) for name in SUMS), *(fn.max(name).alias(name) for name in LARGEST)
    ).join(fn.broadcast(files), "file_id")
    so_far = Window.partitionBy("file_id").orderBy("second").rowsBetween(Window.unboundedPreceding, 0)
    skew = fn.sum(fn.col("audio_step_ms") - fn.col("audio_slots") * fn.col("frame_ms")).over(so_far)
    missing = fn.floor(fn.col("video_step_ms") / fn.col("step_ms") - fn.col("video_steps") + 0.25)
    complete = sums.withColumn("dropped_est", fn.greatest(missing, fn.lit(0))).withColumn(
        "av_skew_ms", fn.round(skew, 3)
    )
    return _as_table(SECONDS, _with_wall(complete, fn.col("second") * 1_000_000))


def incidents_table(scanned: DataFrame, files: DataFrame, times_before: DataFrame) -> DataFrame:
    """Rows of `incidents`.

    Args:
        times_before: file_id, part, time_before: the time of the last frame before a part of a file.
    """
    rows = (
        scanned.where(fn.col("row") == INCIDENT)
        .join(fn.broadcast(files), "file_id")
        .join(fn.broadcast(times_before), ["file_id", "part"], "left")
        .withColumn("time_ms", fn.coalesce("time_ms", "time_before", fn.lit(0)))
    )
    return _as_table(INCIDENTS, _with_wall(rows.where(_is_unusual()), fn.col("time_ms") * 1000))


def _is_unusual() -> Column:
    """Whether a standstill is more than what is between any two frames of this file."""
    usual = (
        fn.when(fn.col("kind") == FREEZE, fn.col("step_ms"))
        .when(fn.col("kind") == SILENCE, fn.col("frame_ms"))
        .when(fn.col("kind") == GAP, fn.least("step_ms", "frame_ms"))
    )
    return usual.isNull() | (fn.col("length_ms") >= USUAL_STEPS * usual)


def _with_wall(rows: DataFrame, microseconds: Column) -> DataFrame:
    """Add when it was, from the time in the file."""
    wall = fn.timestamp_micros(fn.col("started_us") + microseconds)
    return rows.withColumn("wall", wall).withColumn(DAY, fn.to_date("wall"))


def _as_table(table: Table, rows: DataFrame) -> DataFrame:
    return rows.select(*(fn.col(column.name).cast(column.type) for column in table.columns))


def sessions_table(recordings: DataFrame) -> DataFrame:
    """Rows of `sessions`: files of a stream that follow each other closely."""
    in_order = Window.partitionBy("app", "stream").orderBy("started_at", "path")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    files = (
        recordings.where(~fn.col("status").isin(*_WITHOUT_TIMES))
        .withColumn("until", fn.max("ended_at").over(before))
        .withColumn("hole_ms", (fn.unix_micros("started_at") - fn.unix_micros("until")) / 1000)
        .withColumn("is_new", fn.coalesce(fn.col("hole_ms") > SESSION_HOLE * 1000, fn.lit(True)))
        .withColumn("number", fn.sum(fn.col("is_new").cast("int")).over(in_order))
    )
    hole = fn.when(~fn.col("is_new") & (fn.col("hole_ms") > _LEAST_HOLE_MS), fn.col("hole_ms"))
    sessions = files.groupBy("app", "stream", "number").agg(
        fn.min("started_at").alias("started_at"),
        fn.max("ended_at").alias("ended_at"),
        fn.count("*").alias("files"),
        fn.count("vanished_at").alias("vanished"),
        fn.array_sort(fn.collect_list(fn.struct("started_at", "path"))).getField("path").alias("paths"),
        fn.sum("duration_ms").alias("recorded_ms"),
        fn.coalesce(fn.round(fn.sum(hole)), fn.lit(0)).alias("missing_ms"),
        fn.sum("size").alias("size"),
        fn.sum("lost_bytes").alias("lost_bytes"),
    )
    return _as_table(SESSIONS, sessions.withColumn(DAY, fn.to_date("started_at")))
