"""The grammar of sizes, durations and counts."""

from __future__ import annotations

import pytest

from rtmprelay.errors import ConfigError
from rtmprelay.quantities import format_size, read_count, read_duration, read_seconds, read_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("40ms", 0.04),
        ("120MS", 0.12),
        ("90s", 90),
        ("30m", 1800),
        ("12h", 43200),
        ("7d", 604800),
        ("2W", 1209600),
        ("1.5h", 5400),
        (" 5m\n", 300),
    ],
)
def test_a_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("500k", 512000), ("100G", 100 << 30), ("1.5T", 3 << 39), ("2MiB", 2 << 20), ("2mb", 2 << 20)],
)
def test_a_size_is_read_in_bytes(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "7", "-1", "m", "1y", "1e3", "nan", "1 h x", "\u0663m", "9" * 30])
def test_anything_else_is_no_duration_and_no_size(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a duration such as"):
        read_duration(text)
    with pytest.raises(ConfigError, match="is not a size such as"):
        read_size(text if text != "m" else "g")


def test_a_value_below_the_least_is_refused_with_the_least() -> None:
    assert read_duration("1s", least=1) == 1
    assert read_size("128k", least=131072) == 131072
    with pytest.raises(ConfigError, match=r"'0\.5s' is too short: the least is 1s"):
        read_duration("0.5s", least=1)
    with pytest.raises(ConfigError, match="'10k' is too small: the least is 128K"):
        read_size("10k", least=131072)


def test_nothing_is_neither_a_duration_nor_a_size_unless_the_caller_allows_it() -> None:
    for nothing in ("0s", "0ms", "0.0001ms"):
        with pytest.raises(ConfigError, match=r"is too short: the least is 0\.001s"):
            read_duration(nothing)
    with pytest.raises(ConfigError, match="is too small: the least is 1 byte"):
        read_size("0.0001k")
    assert read_duration("0ms", least=0) == 0


def test_a_long_wrong_value_is_quoted_in_part() -> None:
    with pytest.raises(ConfigError) as caught:
        read_duration("x" * 10_000)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("8", 8),
        ("10K", 10240),
        ("64m", 64 << 20),
        ("1.5K", None),
        ("", None),
        ("-1", None),
        ("5s", None),
    ],
)
def test_a_count_is_a_whole_number(text: str, count: int | None) -> None:
    assert read_count(text) == count


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("2.5", 2.5),
        ("30s", 30),
        ("500ms", 0.5),
        ("2m", 120),
        ("", None),
        ("-1", None),
        ("1 s", None),
    ],
)
def test_seconds_may_be_a_plain_number_or_a_duration(text: str, seconds: float | None) -> None:
    assert read_seconds(text) == seconds


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (131072, "128K"),
        (64 << 20, "64M"),
        (3 << 39, "1536G"),
        (1000, "1000 bytes"),
        (1, "1 byte"),
        (0, "0 bytes"),
    ],
)
def test_a_size_is_written_with_the_largest_unit_that_divides_it(size: int, text: str) -> None:
    assert format_size(size) == text
