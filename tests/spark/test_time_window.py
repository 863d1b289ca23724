"""The time of a question: what is in it, and what is not."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_analytics.questions.ask import EVER, LONGEST, TimeWindow

MIDNIGHT = datetime(2026, 11, 16, tzinfo=UTC)
DAY = timedelta(days=1)


def test_the_end_is_not_in_it() -> None:
    window = TimeWindow(MIDNIGHT, MIDNIGHT + DAY)
    assert window.overlaps(MIDNIGHT)
    assert not window.overlaps(MIDNIGHT + DAY)
    assert window.days() == (date(2026, 11, 16), date(2026, 11, 16))
    assert window.days(before=DAY, after=2 * DAY) == (date(2026, 11, 15), date(2026, 11, 18))
    # What ended when it begins was before.
    assert not window.overlaps(MIDNIGHT - DAY, MIDNIGHT)
    assert window.overlaps(MIDNIGHT - DAY, MIDNIGHT + timedelta(microseconds=1))
    assert window.overlaps(MIDNIGHT - DAY, None)


def test_how_much_of_a_time_is_in_it() -> None:
    window = TimeWindow(MIDNIGHT, MIDNIGHT + timedelta(minutes=1))
    assert window.seconds_of(MIDNIGHT - DAY, MIDNIGHT + DAY) == 60
    assert window.seconds_of(MIDNIGHT + timedelta(seconds=50), MIDNIGHT + DAY) == 10
    assert window.seconds_of(MIDNIGHT - DAY, MIDNIGHT - timedelta(hours=1)) == 0
    assert TimeWindow().seconds_of(MIDNIGHT, MIDNIGHT + DAY) == 86_400


def test_days_at_the_ends_of_time() -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert TimeWindow(first, last).days(LONGEST, LONGEST) == (date.min, date.max)
    assert TimeWindow(first, first).days() == (date.min, date.min)
    assert TimeWindow(MIDNIGHT, MIDNIGHT).days(EVER, EVER) == (date.min, date.max)
    assert TimeWindow().days() == (date.min, date.max)


def test_whole_days_and_the_rest() -> None:
    evening, noon = MIDNIGHT + timedelta(hours=18), MIDNIGHT + timedelta(days=3, hours=12)
    whole = TimeWindow(MIDNIGHT + DAY, MIDNIGHT + 3 * DAY)
    parts = [TimeWindow(evening, MIDNIGHT + DAY), TimeWindow(MIDNIGHT + 3 * DAY, noon)]
    assert TimeWindow(evening, noon).whole_days() == (whole, parts)
    assert TimeWindow(MIDNIGHT, MIDNIGHT + DAY).whole_days() == (TimeWindow(MIDNIGHT, MIDNIGHT + DAY), [])
    assert TimeWindow().whole_days() == (TimeWindow(), [])
    assert TimeWindow(evening).whole_days() == (TimeWindow(MIDNIGHT + DAY), parts[:1])
    hour = TimeWindow(evening, evening + timedelta(hours=1))
    assert hour.whole_days() == (None, [hour])
    over_midnight = TimeWindow(evening, evening + timedelta(hours=9))
    assert over_midnight.whole_days() == (
        None,
        [TimeWindow(evening, MIDNIGHT + DAY), TimeWindow(MIDNIGHT + DAY, over_midnight.until)],
    )


hours = st.none() | st.integers(-60, 60).map(lambda hour: MIDNIGHT + timedelta(hours=hour))


@given(hours, hours, st.integers(-60, 60), st.integers(0, 60))
def test_days_and_rest_are_all_of_it(
    since: datetime | None, until: datetime | None, begin: int, length: int
) -> None:
    if since is not None and until is not None and since > until:
        since, until = until, since
    window = TimeWindow(since, until)
    whole, parts = window.whole_days()
    time = MIDNIGHT + timedelta(hours=begin), MIDNIGHT + timedelta(hours=begin + length)
    pieces = [*parts, *([whole] if whole is not None else [])]
    assert sum(piece.seconds_of(*time) for piece in pieces) == window.seconds_of(*time)
    assert all(len({*part.days()}) == 1 for part in parts)


@given(hours, hours, st.integers(-60, 60), st.none() | st.integers(0, 60))
def test_tables_are_asked_for_the_same(
    since: datetime | None, until: datetime | None, begin: int, length: int | None
) -> None:
    window = TimeWindow(since, until)
    began = MIDNIGHT + timedelta(hours=begin)
    ended = None if length is None else began + timedelta(hours=length)
    time = pa.timestamp("us", "UTC")
    rows = pa.table({"began": pa.array([began], time), "ended": pa.array([ended], time)})
    assert rows.filter(window.where("began", "ended")).num_rows == window.overlaps(began, ended)
    assert rows.filter(window.where("began")).num_rows == window.overlaps(began, began)
