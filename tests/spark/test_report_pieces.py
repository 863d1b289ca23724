"""What the page is made of: ticks, names, lines and words."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from spark_analytics.report import plots
from spark_analytics.report.curves import Period, bars_of
from spark_analytics.report.drawing import nice_ticks, time_ticks
from spark_analytics.report.page import style
from spark_analytics.report.pieces import bytes_in_words, duration, hours, moment, plural, quantity
from tests.spark.report_world import FIRST


@given(st.floats(min_value=0, max_value=1e15))
def test_ticks_are_few_round_and_reach_far_enough(highest: float) -> None:
    ticks = nice_ticks(highest)
    assert 2 <= len(ticks) <= 7
    assert ticks[0] == 0
    assert ticks[-1] >= highest * (1 - 1e-9)
    assert ticks == sorted(ticks)


@given(
    st.floats(min_value=0, max_value=4e9),
    st.floats(min_value=0, max_value=5e9),
    st.integers(2, 14),
)
def test_ticks_of_time_are_inside(second: float, seconds: float, most: int) -> None:
    begin = datetime.fromtimestamp(second, UTC)
    end = begin + timedelta(seconds=min(seconds, 3e9))
    ticks = time_ticks(begin, end, most)
    assert len(ticks) <= most + 1
    assert all(begin <= tick.time <= end and tick.label for tick in ticks)


@given(st.integers(min_value=0, max_value=10**9))
def test_ticks_of_what_is_counted_are_whole(highest: int) -> None:
    ticks = nice_ticks(highest, whole=True)
    assert 2 <= len(ticks) <= 7
    assert all(tick.is_integer() for tick in map(float, ticks))
    assert ticks[-1] >= highest


def test_bars_are_as_long_as_the_time_allows() -> None:
    def steps(**length: float) -> tuple[int, int]:
        period = Period(FIRST, FIRST + timedelta(**length))
        bars = bars_of(period, [(FIRST, FIRST + timedelta(seconds=90))])
        assert sum(seconds for _, seconds in bars.bars) == 90
        return bars.step, len(bars.bars)

    assert steps(minutes=10) == (60, 10)
    assert steps(hours=4) == (300, 48)
    assert steps(hours=12) == (900, 48)
    assert steps(days=2) == (3600, 48)
    assert steps(days=14) == (86_400, 14)
    assert steps(days=365) == (6 * 86_400, 61)


def test_line_of_what_is_counted_has_no_slopes() -> None:
    points = [(FIRST + timedelta(minutes=minute), float(minute % 3)) for minute in range(9)]
    series = plots.Series("viewers", points, stepped=True)
    end = FIRST + timedelta(minutes=9)
    drawn = plots.line_chart([series], FIRST, end, 960, "Viewers", whole=True)
    (way,) = re.findall(r'd="M([^"]*)" class="c1 line"', drawn)
    numbers = [float(number) for number in way.split()]
    places = list(zip(numbers[::2], numbers[1::2], strict=True))
    assert all(x == left or y == below for (left, below), (x, y) in pairwise(places))
    assert places[-1][0] == 950
    assert re.findall(r'class="tick" text-anchor="end">([\d.]+)<', drawn) == ["0", "1", "2"]


def test_labels_of_time() -> None:
    noon = datetime(2026, 11, 16, 22, tzinfo=UTC)
    assert [tick.label for tick in time_ticks(noon, noon + timedelta(hours=4), 4)] == [
        "22:00\n16 Nov", "23:00", "00:00\n17 Nov", "01:00", "02:00",
    ]  # fmt: skip
    assert [tick.label for tick in time_ticks(noon, noon + timedelta(days=3), 4)] == [
        "17 Nov",
        "18 Nov",
        "19 Nov",
    ]


#: The advance widths of DejaVu Sans from the space to the tilde, in thousandths of its size: of the fonts that a browser may
#: take for the page, it is one of the widest.
DEJAVU_SANS = (
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636, 636,
    636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,
    603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635,
    634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
)  # fmt: skip
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"

#: How large names are written, in pixels: see `.name` in the style.
NAME_SIZE = 12


def drawn_width(words: str) -> float:
    """How wide a name is in a browser with that font; Chinese and the like, and the ellipsis, fill a square."""
    thousandths = [DEJAVU_SANS[ord(char) - 32] if char.isascii() else 1000 for char in words]
    return sum(thousandths) * NAME_SIZE / 1000


ASCII = st.characters(min_codepoint=32, max_codepoint=126)
CHINESE = st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF)


@given(st.text(st.one_of(ASCII, CHINESE), max_size=200), st.floats(40, 1000))
@example("WWWWWWWWWWWWWWWWWW", 180.0)
@example("commmmmmmmmmmmmmmon", 140.0)
@example("100 % @ home", 70.0)
def test_names_fit(words: str, room: float) -> None:
    short = plots._fitting(words, room)
    assert drawn_width(short) <= room
    if short != words and ELLIPSIS in short:
        beginning, _, end = short.partition(ELLIPSIS)
        assert words.startswith(beginning)
        assert words.endswith(end)


@given(st.text(st.one_of(ASCII, CHINESE), max_size=200))
def test_names_are_not_cut_without_need(words: str) -> None:
    assert plots._fitting(words, 1.1 * NAME_SIZE * len(words)) == words


def test_the_size_of_names_is_that_of_the_style() -> None:
    assert f".name {{ fill: var(--ink); font-size: {NAME_SIZE}px; }}" in style()


@given(st.text(max_size=200), st.floats(20, 1000))
def test_any_name_can_be_cut(words: str, room: float) -> None:
    assert len(plots._fitting(words, room)) <= max(len(words), 3)


def test_a_line_is_broken_where_nothing_is() -> None:
    times = [FIRST + timedelta(hours=hour) for hour in range(6)]
    series = plots.Series("x", list(zip(times, [1.0, 2.0, None, 3.0, None, 4.0], strict=True)))
    picture = plots.line_chart([series], times[0], times[-1], 400, "x")
    assert picture.count("<path") == 1
    assert picture.count("<circle") == 2, "a point alone is a dot"


def test_words() -> None:
    assert [duration(seconds) for seconds in (0, 2.5, 59.6, 61, 3600, 3661, 90_000, 864_000)] == [
        "0 s", "2.5 s", "1 min", "1 min 1 s", "1 h", "1 h 1 min", "1 d 1 h", "10 d",
    ]  # fmt: skip
    assert [bytes_in_words(size) for size in (0, 999, 1500, 2.5e6, 3e9, 5e11, 1e12)] == [
        "0 B", "999 B", "1.5 kB", "2.5 MB", "3.0 GB", "500 GB", "1.0 TB",
    ]  # fmt: skip
    assert [quantity(value) for value in (0.123, 1.25, 99.94, 1234.5)] == ["0.12", "1.2", "99.9", "1,234"]
    assert (hours(44), hours(1815), hours(5400)) == ("44 s", "30 min", "1.5 h")
    assert (plural(1, "file"), plural(2000, "file")) == ("1 file", "2,000 files")
    assert moment(FIRST) == "2026-11-02"
    assert moment(FIRST + timedelta(hours=5)) == "2026-11-02 05:00"
