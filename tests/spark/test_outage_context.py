"""What went on during outages, of many at once: as if each had looked through everything, and without doing so."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_analytics.catalogue import Catalogue
from spark_analytics.questions.api import list_outages
from spark_analytics.questions.ask import Scope
from spark_analytics.store.tables import TABLES
from tests.spark.report_world import Row, write

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
INSTANT = timedelta(microseconds=1)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def named(stream: str, begin: str, end: str, begun: float, ended: float | None, **more: Any) -> Row:
    times = {begin: at(begun), end: None if ended is None else at(ended)}
    return {"app": "live", "stream": stream, **times, **more}


def chance_world(chance: random.Random) -> dict[str, list[Row]]:
    """Whole seconds out of a few, so that all kinds of edges meet; some last for no time, or have no end."""

    def times(longest: int) -> tuple[int, int]:
        begin = chance.randrange(120)
        return begin, begin + chance.randrange(longest)

    tables: dict[str, list[Row]] = {"viewers": [], "deliveries": [], "outages": [], "recordings": []}
    for stream in ("a", "b", "a", "a"):
        for number in range(60):
            begin, end = times(30)
            tables["viewers"].append(
                named(stream, "started_at", "ended_at", begin, end if number % 9 else None)
            )
            begin, end = times(30)
            role = "viewer" if number % 4 else "destination"
            tables["deliveries"].append(
                named(stream, "began", "ended", begin, end, role=role, dropped=number % 3)
            )
            begin, end = times(12)
            tables["outages"].append(
                named(stream, "began", "ended", begin, end, destination=f"d{number}", seconds=end - begin)
            )
    return tables


def expected(outage: Row, tables: dict[str, list[Row]]) -> tuple[int, int, int]:
    """Viewers, those who left, and what they lost, by looking at every row."""
    begin, end = outage["began"], max(outage["ended"], outage["began"] + INSTANT)

    def during(table: str, begun: str, ended: str) -> list[Row]:
        rows = [row for row in tables[table] if row["stream"] == outage["stream"] and row[begun] < end]
        return [row for row in rows if row[ended] is None or max(row[ended], row[begun] + INSTANT) > begin]

    plays = during("viewers", "started_at", "ended_at")
    left = [play for play in plays if play["ended_at"] is not None and play["ended_at"] <= end]
    reports = [row for row in during("deliveries", "began", "ended") if row["role"] == "viewer"]
    return len(plays), len(left), sum(row["dropped"] for row in reports)


@pytest.mark.parametrize("seed", range(3))
def test_each_outage_has_what_overlaps_with_it(tmp_path: Path, seed: int) -> None:
    tables = chance_world(random.Random(seed))
    write(tmp_path, tables)
    found = list_outages(Catalogue(tmp_path).open(), Scope())
    assert len(found) == len(tables["outages"])
    for row in found:
        told = row["viewers"], row["viewers_left"], row["viewers_dropped"]
        assert told == expected(row, tables)
    assert len({row["viewers_dropped"] for row in found}) > 5


def test_what_clocks_do_not_tell(tmp_path: Path) -> None:
    """An outage of no time, plays that end before they begin, a recording whose end is not known."""
    tables = {
        "outages": [named("a", "began", "ended", 10, 10, destination="YouTube", seconds=0.0)],
        "viewers": [
            named("a", "started_at", "ended_at", 5, 15),
            named("a", "started_at", "ended_at", 12, 8),
            named("a", "started_at", "ended_at", 10, 10),
        ],
        "recordings": [named("a", "started_at", "ended_at", 5, None, file_id="f", path="/rec/f.flv")],
    }
    write(tmp_path, tables)
    (found,) = list_outages(Catalogue(tmp_path).open(), Scope())
    assert (found["viewers"], found["viewers_left"], found["viewers_dropped"]) == (2, 1, 0)
    assert (found["path"], found["byte_offset"]) == ("/rec/f.flv", None)


def many(table: str, count: int, **columns: Any) -> pa.Table:
    schema = TABLES[table].arrow_schema()
    filled = [
        pa.array(columns[field.name]).cast(field.type)
        if field.name in columns
        else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.table(filled, schema=schema)


def test_many_reports_are_not_looked_at_one_by_one(tmp_path: Path) -> None:
    """Of a hundred viewers on a day: turned into objects, they took two seconds and 130 MB."""
    count = 288_000
    begins = int(NOON.timestamp() * 1e6) + np.arange(count) // 100 * 30_000_000
    days = (begins // 86_400_000_000).astype("int32")
    columns = {
        "role": np.full(count, "viewer"), "app": np.full(count, "live"), "stream": np.full(count, "a"),
        "began": begins, "ended": begins + 30_000_000, "dropped": np.ones(count, "int64"), "day": days,
    }  # fmt: skip
    outages = [
        named("a", "began", "ended", hour * 3600, hour * 3600 + 30, destination="YouTube", seconds=30.0)
        for hour in range(24)
    ]
    write(tmp_path, {"outages": outages})
    with Catalogue(tmp_path).change() as change:
        change.replace("deliveries", many("deliveries", count, **columns))
        change.publish()
    snapshot = Catalogue(tmp_path).open()
    begin = time.thread_time()
    found = list_outages(snapshot, Scope())
    assert time.thread_time() - begin < 1
    assert [row["viewers_dropped"] for row in found] == [100] * 24
