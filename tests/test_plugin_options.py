"""The options after the argument of a plugin."""

from __future__ import annotations

import pytest

from rtmprelay.errors import ConfigError
from rtmprelay.plugin_factories import split_options

KNOWN = {"number", "count", "list"}


def test_argument_without_options_gives_the_defaults() -> None:
    argument, options = split_options("/a/b", KNOWN)
    assert argument == "/a/b"
    assert options.text("number") is None
    assert options.number("number", 3.5, 0, 10) == 3.5
    assert options.count("count", 4, 0, 10) == 4
    assert options.texts("list") == []


def test_options_are_parsed_by_their_type() -> None:
    argument, options = split_options("x#number=1.5&count=7&list=a,b,,c", KNOWN)
    assert argument == "x"
    assert options.text("count") == "7"
    assert options.number("number", 0, 0, 10) == 1.5
    assert options.count("count", 0, 0, 10) == 7
    assert options.texts("list") == ["a", "b", "c"]


@pytest.mark.parametrize("text", ["11", "-1", "nan", "inf", "x", "1e99", "١٢"])
def test_number_out_of_bounds_is_refused(text: str) -> None:
    _, options = split_options(f"x#number={text}&count={text}", KNOWN)
    with pytest.raises(ConfigError, match="a number from 0 to 10 is expected"):
        options.number("number", 1, 0, 10)
    with pytest.raises(ConfigError, match="a whole number from 0 to 10 is expected"):
        options.count("count", 1, 0, 10)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("other=1", "unknown option 'other'; known options: count, list, number"),
        ("number", "the option number has no value"),
        ("number=", "the option number has no value"),
        ("number=1&number=1", "the option number is there twice"),
        ("number=1&", "unknown option ''"),
    ],
)
def test_malformed_options_are_refused(written: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        split_options(f"x#{written}", KNOWN)
