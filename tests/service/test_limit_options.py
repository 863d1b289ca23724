"""`--limit NAME=VALUE`."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import attrs
import pytest

from rtmprelay.config.limits import limits_help, with_limits
from rtmprelay.config.relay import RelayConfig
from rtmprelay.errors import ConfigError
from rtmprelay.session.reports import PlayAccepted, PublishAccepted, StatusReceived
from tests.helpers import group, start_frames, wait_for
from tests.service.command import BlockingClient, Server


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
        ("nonsense=1", "unknown limit 'nonsense'; known limits: "),
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
def test_what_cannot_be_used_is_told(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        with_limits(RelayConfig(), [text])
    assert str(caught.value).startswith(sentence)


def test_the_help_shows_what_can_be_written() -> None:
    lines = [line.strip() for line in limits_help().splitlines()[1:]]
    assert "max_players=none" in lines
    assert "idle_timeout=60" in lines
    assert with_limits(RelayConfig(), lines) == RelayConfig()


# -- what an operator sees of them -------------------------------------------------------------------------------


class Watched:
    """A server with limits, and its figures."""

    def __init__(self, folder: Path, *limits: str) -> None:
        options = [part for limit in limits for part in ("--limit", limit)]
        self.server = Server(folder, "--http-status", "127.0.0.1:0", "--log-format", "json", *options)
        self.port = self.server.port()
        wait_for(lambda: len(self._ports()) == 2, "HTTP")
        (self._http,) = set(self._ports()) - {self.port}

    def _ports(self) -> list[int]:
        return [int(port) for port in re.findall(r"Listening on 127\.0\.0\.1:(\d+)", self.server.text())]

    def exceeded(self) -> dict[str, float]:
        """How often each limit was reached, as /metrics says."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._http}/metrics", timeout=20) as answer:
            text = answer.read().decode()
        found = re.findall(r'rtmprelay_limits_exceeded_total\{limit="(\w+)"\} (\S+)', text)
        return {name: float(count) for name, count in found}

    def lines(self, event: str) -> list[dict[str, Any]]:
        """What the log says of events of a kind."""
        lines = [json.loads(line) for line in self.server.text().splitlines()]
        return [line for line in lines if line.get("event") == event]


@pytest.mark.parametrize(
    "limit", ["max_connections=1", "max_connections_per_address=1", "connection_rate_per_address=0"]
)
def test_connections_that_are_not_wanted_are_counted_by_the_limit(limit: str, tmp_path: Path) -> None:
    watched = Watched(tmp_path, limit)
    name, _, most = limit.partition("=")
    try:
        first = BlockingClient(watched.port) if most == "1" else None
        with pytest.raises((AssertionError, ConnectionError)):
            BlockingClient(watched.port)
        wait_for(lambda: watched.exceeded().get(name) == 1, "the count")
        (line,) = watched.lines("connection_refused")
        assert f"(limit: {name})" in line["reason"]
        if first is not None:
            first.socket.close()
    finally:
        watched.server.stop()


def test_players_that_are_not_wanted_are_counted_by_the_limit(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "max_players=1")
    try:
        encoder, first, second = (BlockingClient(watched.port) for _ in range(3))
        encoder.session.publish("film")
        encoder.wait(PublishAccepted)
        encoder.send(*start_frames(), *group(0))
        first.session.play("film")
        first.wait(PlayAccepted)
        second.session.play("film")
        second.wait(StatusReceived)
        wait_for(lambda: watched.exceeded().get("max_players") == 1, "the count")
        (line,) = watched.lines("play_refused")
        assert "(limit: max_players)" in line["reason"]
        for client in (encoder, first, second):
            client.socket.close()
    finally:
        watched.server.stop()


def test_a_publisher_that_sends_too_much_is_counted_by_the_limit(tmp_path: Path) -> None:
    watched = Watched(tmp_path, "max_publisher_kbps=80")
    try:
        encoder = BlockingClient(watched.port)
        encoder.session.publish("film")
        encoder.wait(PublishAccepted)
        frames = [frame for number in range(100) for frame in group(number * 200, size=10_000)]
        with pytest.raises(ConnectionError):
            encoder.send(*frames)
        wait_for(lambda: watched.exceeded().get("max_publisher_kbps") == 1, "the count")
    finally:
        watched.server.stop()
