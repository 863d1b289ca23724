"""`--limit NAME=VALUE`: what it changes, and what an operator sees when a limit is reached."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from rtmprelay.config.limits import limits_help, with_limits
from rtmprelay.config.relay import RelayConfig
from rtmprelay.errors import ConfigError
from rtmprelay.session.reports import PlayAccepted, StatusReceived
from tests.helpers import group, start_frames, wait_for
from tests.service.command import Server


@pytest.mark.parametrize(
    ("text", "group", "value"),
    [
        ("idle_timeout=2.5", "connection_limits", 2.5),
        ("idle_timeout=7", "connection_limits", 7.0),
        ("idle_timeout=5m", "connection_limits", 300.0),
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
def test_limit_option_changes_only_its_limit(text: str, group: str | None, value: object) -> None:
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


def test_last_value_of_a_limit_counts() -> None:
    relay = with_limits(RelayConfig(), ["max_players=3", "chunk_rate=5", "max_players=4"])
    assert (relay.stream_limits.max_players, relay.connection_limits.chunk_rate) == (4, 5)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nonsense=1", "unknown limit 'nonsense' (--help-limits lists them all)"),
        ("idle_timeout", "idle_timeout needs a value: write idle_timeout=NUMBER"),
        ("idle_timeout=-1", "idle_timeout: '-1' is not a number of seconds or a duration such as 90s"),
        ("idle_timeout=none", "idle_timeout: 'none' is not a number of seconds"),
        ("max_bytes=1.5", "max_bytes: '1.5' is not a whole number"),
        (
            "max_players=many",
            "max_players: 'many' is not a whole number such as 8 or 64M, or none",
        ),
        ("max_bytes=", "max_bytes: '' is not"),
        ("max_bytes=\u0661", "max_bytes: '\u0661' is not"),
        ("max_bytes=" + "9" * 99, "max_bytes: '999"),
        ("amf_depth=101", "amf_depth: 101 is too much; the largest possible value is 100"),
    ],
)
def test_bad_limit_is_refused_with_its_reason(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        with_limits(RelayConfig(), [text])
    assert str(caught.value).startswith(sentence)


def test_limits_help_lists_valid_options_with_their_defaults() -> None:
    lines = [line.strip() for line in limits_help().splitlines()[1:]]
    assert "max_players=none" in lines
    assert "idle_timeout=60" in lines
    assert with_limits(RelayConfig(), lines) == RelayConfig()


# -- a running server --------------------------------------------------------------------------------------------


@pytest.fixture
def limited(start_server: Callable[..., Server]) -> Callable[[str], Server]:
    """Starts a server with one limit changed."""
    return lambda limit: start_server("--http-status", ":0", "--log-format", "json", "--limit", limit)


def times_exceeded(server: Server, limit: str) -> float | None:
    """How often a limit was reached, from /metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port()}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    found = re.search(rf'rtmprelay_limits_exceeded_total\{{limit="{limit}"\}} (\S+)', text)
    return None if found is None else float(found[1])


@pytest.mark.parametrize(
    "limit", ["max_connections=1", "max_connections_per_address=1", "connection_rate_per_address=0"]
)
def test_refused_connection_is_counted_under_its_limit(limit: str, limited: Callable[[str], Server]) -> None:
    server = limited(limit)
    name, _, most = limit.partition("=")
    if most == "1":
        server.connect()
    with pytest.raises((AssertionError, ConnectionError)):
        server.connect()
    wait_for(lambda: times_exceeded(server, name) == 1, "the count")
    (line,) = server.lines("connection_refused")
    assert f"(limit: {name})" in line["reason"]


def test_refused_player_is_counted_under_its_limit(limited: Callable[[str], Server]) -> None:
    server = limited("max_players=1")
    encoder, first, second = (server.connect() for _ in range(3))
    assert encoder.publish("film") == "accepted"
    encoder.send(*start_frames(), *group(0))
    first.session.play("film")
    first.wait(PlayAccepted)
    second.session.play("film")
    second.wait(StatusReceived)
    wait_for(lambda: times_exceeded(server, "max_players") == 1, "the count")
    (line,) = server.lines("play_refused")
    assert "(limit: max_players)" in line["reason"]


def test_publisher_over_its_bitrate_is_closed_and_counted(limited: Callable[[str], Server]) -> None:
    server = limited("max_publisher_kbps=80")
    encoder = server.connect()
    assert encoder.publish("film") == "accepted"
    frames = [frame for number in range(100) for frame in group(number * 200, size=10_000)]
    with pytest.raises(ConnectionError):
        encoder.send(*frames)
    wait_for(lambda: times_exceeded(server, "max_publisher_kbps") == 1, "the count")
