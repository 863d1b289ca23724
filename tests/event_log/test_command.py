"""The event log of the real command: options, signals, and kill -9."""

from __future__ import annotations

import gzip
import json
import random
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from rtmprelay.config.options import Options
from rtmprelay.quantities import MEBIBYTE
from tests.event_log.helpers import parse
from tests.helpers import wait_for
from tests.rounds import rounds
from tests.service.command import BlockingClient, Server


def read(*arguments: str) -> Options:
    options = Options()
    options.parseOptions([*arguments])
    return options


def test_all_options_are_read_and_create_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    settings = read("--event-log", str(folder))["config"].event_log
    assert (settings.folder, settings.gzip, settings.keep) == (folder, False, None)
    assert settings.max_file_size == 64 * MEBIBYTE
    assert not folder.exists()
    settings = read(
        "--event-log", str(folder), "--event-log-gzip", "--keep-event-log", "90d", "--event-log-size", "1M"
    )["config"].event_log
    assert (settings.gzip, settings.keep, settings.max_file_size) == (True, 90 * 86400, MEBIBYTE)
    assert read()["config"].event_log.folder is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--event-log", "/dev/null/events"], "--event-log: '/dev/null/events' cannot be used"),
        (["--event-log", ""], "--event-log: '' cannot be a folder"),
        (["--event-log", ".", "--keep-event-log", "7"], "--keep-event-log: '7' is not a duration"),
        (["--event-log", ".", "--event-log-size", "big"], "--event-log-size: 'big' is not a size"),
        (["--event-log", ".", "--event-log-size", "1k"], "--event-log-size: '1k' is too small"),
        (["--event-log-gzip"], "--event-log-gzip: there is no event log; give --event-log"),
        (["--keep-event-log", "7d"], "--keep-event-log: there is no event log; give --event-log"),
    ],
)
def test_a_wrong_option_is_refused_with_the_reason(arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit, match=r"^rtmprelay: ") as caught:
        read(*arguments)
    assert message in str(caught.value)


def test_sigterm_completes_the_file(tmp_path: Path) -> None:
    server = Server(tmp_path, "--event-log", "events")
    try:
        BlockingClient(server.port()).socket.close()
        folder = tmp_path / "events"
        # Without being asked, within a second or so.
        wait_for(lambda: any(b"connection_closed" in path.read_bytes() for path in folder.iterdir()), "flush")
    finally:
        assert server.stop(signal.SIGTERM)
    (path,) = (tmp_path / "events").iterdir()
    events = [line["event"] for line in parse(path.read_bytes())]
    assert events[0] == "server_started"
    assert events[-1] == "server_stopped"
    assert path.read_bytes().endswith(b"\n")


def knock(port: int, until: float) -> None:
    """Open and close connections: each makes two events."""
    while time.monotonic() < until:
        socket.create_connection(("127.0.0.1", port), 5).close()


@pytest.mark.fewer_rounds
def test_kill_minus_nine_leaves_complete_lines(tmp_path: Path) -> None:
    """Servers that are killed under load; each one begins a new file, and the old ones are compressed."""
    moments = random.Random(11)
    folder = tmp_path / "events"
    kills = rounds(2, full=4)
    for _ in range(kills):
        server = Server(tmp_path, "--event-log", "events", "--event-log-size", "64k")
        try:
            knock(server.port(), time.monotonic() + moments.uniform(0.5, 1.2))
        finally:
            server.process.kill()
            server.process.wait()
            server._out.close()
    paths = sorted(folder.iterdir())
    assert len(paths) >= kills
    numbers: dict[str, list[int]] = {}
    for path in paths:
        data = path.read_bytes()
        assert data.endswith(b"\n"), path
        for line in parse(data):
            numbers.setdefault(line["instance"], []).append(line["number"])
    assert len(numbers) == kills
    for of_one in numbers.values():
        assert sorted(of_one) == list(range(1, len(of_one) + 1))


def test_a_torn_file_is_left_alone_and_a_new_one_begins(tmp_path: Path) -> None:
    """What a power failure leaves in the middle of a line is not continued, and not lost when it is compressed."""
    folder = tmp_path / "events"
    folder.mkdir()
    torn = folder / "events_20250101_000000.jsonl"
    torn.write_bytes(b'{"event":"server_started"}\n{"event":"play_sta')
    subprocess.run(["touch", "-d", "2025-01-01", str(torn)], check=True)
    server = Server(tmp_path, "--event-log", "events", "--event-log-gzip")
    try:
        server.port()
        compressed = folder / "events_20250101_000000.jsonl.gz"
        wait_for(lambda: compressed.exists() and not torn.exists(), "compression")
    finally:
        server.stop()
    assert gzip.decompress(compressed.read_bytes()).endswith(b'"play_sta')
    other = next(path for path in folder.iterdir() if path != compressed)
    assert json.loads(other.read_bytes().splitlines()[0])["event"] == "server_started"
