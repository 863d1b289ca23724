"""The whole demo on real sockets: in this process, and as a command."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from rtmprelay.cli.main import main
from rtmprelay.demo.display import Display, Row
from rtmprelay.demo.run import Demo, DemoSettings
from tests.helpers import real_reactor_test, the_reactor, until

#: Seconds after which even a demo on a busy machine must be over.
TIMEOUT = 90
COMMAND = [sys.executable, "-m", "rtmprelay", "demo"]


class Shown(Display):
    """Keeps what is shown."""

    interval = 0.1

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.rows: list[Sequence[Row]] = []

    def say(self, *lines: str) -> None:
        self.lines += lines

    def show(self, seconds: float, rows: Sequence[Row]) -> None:
        self.rows.append(rows)

    def messages(self, name: str) -> int:
        return next((row.messages for rows in self.rows[-1:] for row in rows if row.name == name), 0)


@real_reactor_test
async def test_all_receivers_get_what_was_sent(tmp_path: Path) -> None:
    shown = Shown()
    settings = DemoSettings(tmp_path, seconds=0.5, destinations=3, keeps_recording=True)
    verdict = await Demo(settings, shown, the_reactor()).start()
    assert verdict.passed, verdict.lines()
    names = ["destination-1", "destination-2", "destination-3", "player", "recording"]
    assert [receiver.name for receiver in verdict.receivers] == names
    assert {receiver.digest for receiver in verdict.receivers} == {verdict.digest}
    assert {receiver.messages for receiver in verdict.receivers} == {verdict.messages}
    assert verdict.messages > 30
    assert verdict.recording is not None
    assert Path(verdict.recording).parent == tmp_path
    last = shown.rows[-1]
    assert [row.name for row in last] == ["source", *names]
    assert last[1].state == "connected"
    assert any("http://127.0.0.1:" in line for line in shown.lines)


@pytest.mark.parametrize("spoiled", ["destination-2", "player", "recording"])
@real_reactor_test
async def test_changed_byte_fails_the_comparison(spoiled: str, tmp_path: Path) -> None:
    """A comparison that cannot fail proves nothing."""
    settings = DemoSettings(tmp_path, seconds=0.3, spoiled=spoiled)
    verdict = await Demo(settings, Shown(), the_reactor()).start()
    assert not verdict.passed
    assert [one.name for one in verdict.receivers if one.problem is not None] == [spoiled]
    assert verdict.conclusion().startswith(f"FAILED: {spoiled} differs from message 10 ")


@real_reactor_test
async def test_removed_destination_lacks_the_end(tmp_path: Path) -> None:
    shown = Shown()
    demo = Demo(DemoSettings(tmp_path), shown, the_reactor())
    running = demo.start()
    await until(lambda: shown.messages("destination-1") > 3, "the beginning", 30)
    await demo.relay.destinations.remove("destination-1")
    more = demo.sent.messages + 3
    await until(lambda: demo.sent.messages > more, "more messages", 30)
    demo.finish()
    verdict = await running
    problems = {one.name: one.problem for one in verdict.receivers}
    assert "lacks" in (problems.pop("destination-1") or "")
    assert set(problems.values()) == {None}


@real_reactor_test
async def test_lost_source_fails_the_demo(tmp_path: Path) -> None:
    demo = Demo(DemoSettings(tmp_path), Shown(), the_reactor())
    running = demo.start()
    await until(lambda: demo.sent.messages > 3, "the beginning", 30)
    for connection in list(demo.relay.factory.connections):
        connection.close_now("a test")
    verdict = await running
    assert verdict.conclusion() == "FAILED: the relay closed the connection of the source"


def test_command_prints_json_and_keeps_the_recording(tmp_path: Path) -> None:
    arguments = ["--seconds", "1", "--json", "--record-dir", "kept", "--log", "demo.log"]
    done = subprocess.run(
        [*COMMAND, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["ok"] is True
    assert (tmp_path / document["recording"]).stat().st_size > 10_000
    assert "http://127.0.0.1:" in done.stderr
    assert "Recording of live/demo" in (tmp_path / "demo.log").read_text()


def test_command_shows_a_table_and_ends_with_the_verdict_on_ctrl_c(tmp_path: Path) -> None:
    screen, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    demo = subprocess.Popen(
        COMMAND, cwd=tmp_path, stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    )
    os.close(terminal)
    try:
        seen = _read_until(screen, b"identical")
        demo.send_signal(signal.SIGINT)
        seen += _read_until(screen, b"got exactly what was sent")
        assert demo.wait(TIMEOUT) == 0
    finally:
        demo.kill()
        demo.wait()
        os.close(screen)
    text = seen.decode()
    assert "receiver" in text
    assert "latency ms (worst)" in text
    assert "OK: destination-1, destination-2, player and recording" in text
    assert list(tmp_path.iterdir()) == [], "without --record-dir nothing is left"


def _read_until(screen: int, wanted: bytes) -> bytes:
    seen = b""
    deadline = time.monotonic() + TIMEOUT
    while wanted not in seen:
        assert time.monotonic() < deadline, seen.decode()
        seen += os.read(screen, 65536)
    return seen


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--spoil", "nobody"],
            "--spoil: there is no 'nobody'; there are: destination-1, destination-2, player, recording",
        ),
        (["--seconds", "0"], "0 is not from 1 to"),
        (["--seconds", "soon"], "'soon' is not a number of seconds"),
        (["--destinations", "51"], "51 is not from 1 to 50"),
        (["--record-dir", "/proc/nowhere"], "/proc/nowhere: No such file or directory"),
    ],
)
def test_command_refuses_bad_options(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status: object = main(["demo", *arguments])
    except SystemExit as stopped:
        status = stopped.code
    assert status not in (0, None)
    assert sentence in capsys.readouterr().err
