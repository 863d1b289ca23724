"""How many watch at the same time: the same as counting them at every moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_analytics.catalogue import Catalogue
from spark_analytics.engine.duck import DuckEngine
from spark_analytics.questions.api import list_audience, list_viewers
from spark_analytics.questions.ask import ALWAYS, Scope, TimeWindow
from spark_analytics.store.schema import Table
from spark_analytics.store.tables import VIEWERS
from spark_analytics.store.versions import Snapshot
from tests.spark.report_world import write

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
STEP = timedelta(seconds=5)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    root = tmp_path_factory.mktemp("concurrency")
    write(root, {"viewers": []})
    return Catalogue(root).open()


class EngineOfPlays(DuckEngine):
    """Answers as if a catalogue had these plays: to write one for each example would take longer than to ask."""

    def __init__(self, empty: Snapshot, plays: list[tuple[int, int]]) -> None:
        super().__init__(empty)
        rows = [
            {
                "app": "live",
                "stream": "test",
                "connection": f"c{number}",
                "started_at": at(begin),
                "ended_at": at(end),
                "watch_seconds": float(end - begin),
                "day": at(begin).date(),
            }
            for number, (begin, end) in enumerate(plays)
        ]
        self._connection.register("plays", pa.Table.from_pylist(rows, VIEWERS.arrow_schema()))

    def _view_of(self, table: Table) -> str:
        if table is VIEWERS:
            return "CREATE VIEW viewers AS SELECT * FROM plays"
        return super()._view_of(table)


plays = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda ends: (min(ends), max(ends))), min_size=1
)


@settings(max_examples=25)
@given(plays, st.integers(0, 40), st.integers(0, 40))
def test_the_same_as_counting_at_every_moment(
    empty: Snapshot, times: list[tuple[int, int]], since: int, length: int
) -> None:
    until = since + length
    engine = EngineOfPlays(empty, times)
    scope = Scope(TimeWindow(at(since), at(until)))
    viewers = [sum(begin <= second < end for begin, end in times) for second in range(since, until)]
    highest = max(viewers, default=0)
    found = list_viewers(engine, scope)
    if found:
        (row,) = found
        assert row["peak"] == highest
        assert row["peak_at"] == (at(since + viewers.index(highest)) if highest else None)
        assert row["watch_hours"] * 3600 == pytest.approx(sum(viewers))
    else:
        assert not highest
    first = int(NOON.timestamp()) // 5
    expected: dict[int, list[int]] = {}
    for second, count in enumerate(viewers, since):
        if count:
            expected.setdefault(first + second // 5, []).append(count)
    steps = {
        int(row["minute"].timestamp()) // 5: row
        for row in list_audience(engine, scope, STEP // timedelta(microseconds=1))
    }
    assert {number for number, row in steps.items() if row["viewers"]} == set(expected)
    for number, counts in expected.items():
        assert steps[number]["viewers"] == max(counts)
        inside = min(at(until), NOON + 5 * timedelta(seconds=number - first + 1)) - max(
            at(since), NOON + 5 * timedelta(seconds=number - first)
        )
        assert steps[number]["average"] == pytest.approx(sum(counts) / inside.total_seconds())
    for name, moments in (("joins", [begin for begin, _ in times]), ("leaves", [end for _, end in times])):
        inside_time = [moment for moment in moments if since <= moment < until]
        overlapping = [
            moment
            for moment, (begin, end) in zip(moments, times, strict=True)
            if since <= moment < until and (begin >= since or end > since) and begin < until
        ]
        assert sum(row[name] for row in steps.values()) == len(overlapping) <= len(inside_time)


def test_a_play_of_years_has_few_minutes(empty: Snapshot) -> None:
    engine = EngineOfPlays(empty, [(0, 10**8)])
    minutes = list_audience(engine, Scope(ALWAYS))
    assert len(minutes) == 60 * 24 * 60 + 2
    assert sum(60 * row["average"] for row in minutes) == pytest.approx(60 * 86_400)
