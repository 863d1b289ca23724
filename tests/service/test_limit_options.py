"""`--limit NAME=VALUE`."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from rtmprelay.config import RelayConfig
from rtmprelay.errors import ConfigError
from rtmprelay.limit_options import limits_help, with_limits


@pytest.mark.parametrize(
    ("text", "group", "value"),
    [
        ("idle_timeout=2.5", "connection_limits", 2.5),
        ("idle_timeout=7", "connection_limits", 7.0),
        ("max_bytes=64M", "queue_limits", 64 * 1024 * 1024),
        ("gop_frames=10", "stream_limits", 10),
        ("max_players=3", "stream_limits", 3),
        ("max_players=none", "stream_limits", None),
        ("max_connections=0", "admission_limits", 0),
        ("connection_rate_per_address=none", "admission_limits", None),
        ("max_publisher_kbps=8000", None, 8000),
        ("amf_depth=100", "connection_limits", 100),
    ],
)
def test_a_limit_changes_and_nothing_else_does(text: str, group: str | None, value: object) -> None:
    name = text.partition("=")[0]
    before = RelayConfig()
    after = with_limits(before, [text])
    holder: Any = after if group is None else getattr(after, group)
    assert getattr(holder, name) == value
    assert type(getattr(holder, name)) is type(value)
    original = before if group is None else getattr(before, group)
    restored: Any = attrs.evolve(holder, **{name: getattr(original, name)})
    whole: Any = after
    assert (restored if group is None else attrs.evolve(whole, **{group: restored})) == before


def test_the_last_one_counts() -> None:
    relay = with_limits(RelayConfig(), ["max_players=3", "chunk_rate=5", "max_players=4"])
    assert (relay.stream_limits.max_players, relay.connection_limits.chunk_rate) == (4, 5)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nonsense=1", "there is no limit 'nonsense'; there are: "),
        ("idle_timeout", "idle_timeout needs a value: write idle_timeout=NUMBER"),
        ("idle_timeout=-1", "idle_timeout: '-1' is not a number"),
        ("idle_timeout=none", "idle_timeout: 'none' is not a number"),
        ("max_bytes=1.5", "max_bytes: '1.5' is not a whole number"),
        (
            "max_players=many",
            "max_players: 'many' is not a whole number, with K, M or G behind it if you like, or none",
        ),
        ("max_bytes=", "max_bytes: '' is not"),
        ("max_bytes=\u0661", "max_bytes: '\u0661' is not"),
        ("max_bytes=" + "9" * 99, "max_bytes: '999"),
        ("amf_depth=101", "amf_depth: 101 is too much; the most that can be had is 100"),
    ],
)
def test_what_cannot_be_used_is_told(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        with_limits(RelayConfig(), [text])
    assert str(caught.value).startswith(sentence)


def test_the_help_shows_what_can_be_written() -> None:
    lines = [line.strip() for line in limits_help().splitlines()[1:]]
    assert "max_players=none" in lines
    assert "idle_timeout=60" in lines
    assert with_limits(RelayConfig(), lines) == RelayConfig()
