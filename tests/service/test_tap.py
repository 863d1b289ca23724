"""`twistd rtmprelay` as an operator runs it."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rtmprelay import __version__, tap
from rtmprelay.session.reports import PlayAccepted
from tests.helpers import LOOPBACK, keyframe, start_frames, wait_for
from tests.service.command import (
    FOREGROUND,
    TWIST,
    TWISTD,
    BlockingClient,
    Server,
    port_in,
    refusal,
    run,
)

Start = Callable[..., Server]


# -- help and bad options -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [TWISTD, TWIST], ids=["twistd", "twist"])
def test_help_is_printed_in_any_folder(command: list[str], tmp_path: Path) -> None:
    done = run([*command, "rtmprelay", "--help"], tmp_path)
    assert done.returncode == 0
    for option in ("--listen", "--chunk-size", "--merge-window", "--log-level", "--log-format", "tcp:1935"):
        assert option in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_twistd_lists_the_command(tmp_path: Path) -> None:
    assert "An RTMP server and relay." in run([*TWISTD, "--help"], tmp_path).stdout


def test_version_is_printed(tmp_path: Path) -> None:
    done = run([*TWISTD, "rtmprelay", "--version"], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"rtmprelay {__version__}\n", "")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--listen", "nonsense:x=1"], "--listen: 'nonsense:x=1'"),
        (["--listen", ""], "--listen: ''"),
        (["--listen", "99999"], "--listen: 99999 is not a port"),
        (["--listen", "tcp:99999"], "--listen: 99999 is not a port"),
        (["--listen", "tcp:abc"], "--listen: 'tcp:abc'"),
        (["--listen", "0", "--listen", "tcp"], "--listen: 'tcp'"),
        (
            ["--listen", "ssl:0:privateKey=/no/key.pem:certKey=/no/cert.pem"],
            "'/no/cert.pem' cannot be read: No such file or directory",
        ),
        (["--chunk-size", "12"], "--chunk-size: '12'"),
        (["--chunk-size", "many"], "--chunk-size: 'many'"),
        (["--merge-window", "40"], "--merge-window: '40' is not a time from 0 to 1000ms"),
        (["--merge-window", "2s"], "--merge-window: '2s' is not a time from 0 to 1000ms"),
        (["--merge-window", "1001ms"], "write 0, or a duration such as 40ms"),
        (["--merge-window", ""], "--merge-window: ''"),
        (["--log-level", "loud"], "--log-level: 'loud' is not one of debug, info, warn, error"),
        (["--log-format", "xml"], "--log-format: 'xml' is not one of text, json"),
        (["--frobnicate"], "frobnicate"),
        (["--listen"], "listen"),
        (["argument"], "argument"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_bad_option_is_refused_in_one_line(options: list[str], named: str) -> None:
    assert named in refusal(*options)


def test_command_exits_with_the_refusal_and_starts_nothing(tmp_path: Path) -> None:
    options = ["--listen", "nonsense:x=1"]
    done = run([*TWISTD, *FOREGROUND, "rtmprelay", *options], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{refusal(*options)}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ([], 0.04),
        (["--merge-window", "40ms"], 0.04),
        (["--merge-window", "0"], 0.0),
        (["--merge-window=120ms"], 0.12),
    ],
)
def test_merge_window_is_parsed(options: list[str], seconds: float) -> None:
    parsed = tap.Options()
    parsed.parseOptions(options)
    assert parsed["config"].merge_window == seconds


def test_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run([*TWISTD, *FOREGROUND, "rtmprelay", "--listen", f"127.0.0.1:{port}"], tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert f"--listen: port {port} is in use" in line


def test_unix_socket_in_a_missing_folder_is_reported(tmp_path: Path) -> None:
    options = ["--listen", f"unix:{tmp_path}/absent/socket"]
    done = run([*TWISTD, *FOREGROUND, "rtmprelay", *options], tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "absent' for the socket" in line


def test_daemon_refuses_to_log_to_its_standard_output(tmp_path: Path) -> None:
    done = run([*TWISTD, "--logfile=-", "--pidfile=x.pid", "rtmprelay", "--listen", LOOPBACK], tmp_path)
    if done.returncode == 0:
        # It should not have started: stop it.
        wait_for((tmp_path / "x.pid").exists, "the pid file")
        os.kill(int((tmp_path / "x.pid").read_text()), signal.SIGTERM)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "--logfile" in line


# -- a running server ----------------------------------------------------------------------------------------


def read_json(text: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines
    for line in lines:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
        assert line["level"] in ("debug", "info", "warn", "error", "critical")
        assert isinstance(line["message"], str)
    return lines


def test_every_line_of_a_json_log_is_json(start_server: Start) -> None:
    server = start_server("--log-format", "json", "--log-level", "debug")
    encoder = server.connect()
    assert encoder.publish("cam?token=SECRET") == "accepted"
    encoder.send(*start_frames(), keyframe(0))
    player = server.connect()
    player.session.play("cam")
    player.wait(PlayAccepted)
    player.close()
    server.wait_for_text("play_stopped")
    assert server.stop()
    lines = read_json(server.text())
    assert "starting up" in lines[0]["message"]
    assert lines[-1]["message"] == "Server Shut Down."
    of_publisher = [line["event"] for line in lines if line.get("connection") == "c000001"]
    assert of_publisher == [
        "connection_opened",
        "handshake_completed",
        "connect",
        "create_stream",
        "publish_started",
        "codec_detected",
        "publish_stopped",
        "connection_closed",
    ]
    of_player = [line["event"] for line in lines if line.get("connection") == "c000002"]
    assert of_player == [
        "connection_opened",
        "handshake_completed",
        "connect",
        "create_stream",
        "play_started",
        "play_stopped",
        "connection_closed",
    ]
    (codecs,) = server.lines("codec_detected")
    assert (codecs["stream_key"], codecs["video"], codecs["audio"]) == ("live/cam", "H.264 AVC", "AAC")
    assert any(line["message"].startswith("Player added") for line in lines)
    assert "SECRET" not in server.text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_the_server_cleanly_with_a_client_connected(start_server: Start, number: int) -> None:
    server = start_server()
    client = server.connect()
    assert client.publish("cam") == "accepted"
    assert server.stop(number)
    assert "NetStream.Unpublish.Success" in client.socket.recv(65536).decode("latin-1")
    assert "publish of live/cam by c000001 stopped" in server.text()
    assert "rtmprelay stopped after" in server.text().splitlines()[-1]
    assert "Traceback" not in server.text()


#: twistd, with SIGTERM at the worst moment: everything is started, and the reactor does not run yet.
_ENDED_WHILE_STARTING = """
import os, signal, sys
from rtmprelay.service import RelayService
from twisted.scripts.twistd import run

start = RelayService.startService
RelayService.startService = lambda self: (start(self), os.kill(os.getpid(), signal.SIGTERM))
sys.argv[0] = "twistd"
run()
"""


def test_sigterm_during_the_start_stops_the_server_cleanly(tmp_path: Path) -> None:
    twistd = [sys.executable, "-c", _ENDED_WHILE_STARTING, *FOREGROUND]
    done = run([*twistd, "rtmprelay", "--listen", LOOPBACK, "--event-log", "events"], tmp_path)
    assert done.returncode == -signal.SIGTERM
    assert "rtmprelay stopped after" in done.stdout.splitlines()[-1]
    (events,) = (tmp_path / "events").iterdir()
    assert [json.loads(line)["event"] for line in events.read_text().splitlines()] == [
        "server_started",
        "server_stopped",
    ]


def test_log_level_warn_hides_the_normal_run(start_server: Start) -> None:
    server = start_server("--log-level", "warn")
    (port,) = wait_for(lambda: listening_ports(server.process.pid), "an open port")
    BlockingClient(port).close()
    assert server.stop()
    assert server.text() == ""


def test_log_file_gets_all_lines(start_server: Start, tmp_path: Path) -> None:
    server = start_server("--log-format", "json", of_twistd=(*FOREGROUND, "--logfile=relay.log"))
    log = tmp_path / "relay.log"
    server.port(log)
    assert server.stop()
    assert server.text() == ""
    assert read_json(log.read_text())[-1]["event"] == "server_stopped"


def test_logger_option_of_twistd_overrides_the_log_options(start_server: Start, tmp_path: Path) -> None:
    logger = ("--logger=twisted.logger.STDLibLogObserver", "--logfile=unused.log")
    server = start_server("--log-format", "json", of_twistd=(*FOREGROUND, *logger))
    wait_for(lambda: listening_ports(server.process.pid), "an open port")
    assert server.stop()
    assert not (tmp_path / "unused.log").exists()


def listening_ports(pid: int) -> list[int]:
    """The ports on which a process listens, from /proc."""
    inodes = set()
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            inodes.add(os.readlink(entry.path))
        lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    except FileNotFoundError:
        return []
    fields = [line.split() for line in lines]
    return [
        int(field[1].partition(":")[2], 16)
        for field in fields
        if field[3] == "0A" and f"socket:[{field[9]}]" in inodes
    ]


def test_daemon_writes_its_pid_file_and_log_and_stops_cleanly(tmp_path: Path) -> None:
    options = ["--listen", LOOPBACK, "--log-format", "json"]
    done = run([*TWISTD, "--pidfile=relay.pid", "rtmprelay", *options], tmp_path)
    pid_file, log = tmp_path / "relay.pid", tmp_path / "twistd.log"
    assert done.returncode == 0, done.stdout + done.stderr
    wait_for(pid_file.exists, "the pid file")
    pid = int(pid_file.read_text())
    try:
        BlockingClient(port_in(log)).close()
    finally:
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not pid_file.exists(), "the end of the daemon")
    assert read_json(log.read_text())[-1]["event"] == "server_stopped"


def test_daemon_that_cannot_start_says_it_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run([*TWISTD, "--pidfile=relay.pid", "rtmprelay", "--listen", listen], tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "is in use" in line
    assert not (tmp_path / "relay.pid").exists()


# -- without a process of its own ----------------------------------------------------------------------------


def test_limit_of_open_files_is_raised_if_the_system_allows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    limits_set: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _what, limits: limits_set.append(limits))
    tap._raise_file_limit()
    assert limits_set == [(4096, 4096)]

    def refuse(_what: int, _limits: tuple[int, int]) -> None:
        raise ValueError("not here")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    tap._raise_file_limit()


def test_options_become_the_configuration_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    options = tap.Options()
    options.parseOptions(["--listen", "127.0.0.1:0", "--listen", "tcp:0", "--chunk-size", "4096"])
    config = options["config"]
    assert config.listen == ("tcp:0:interface=127.0.0.1:backlog=1024", "tcp:0:backlog=1024")
    assert config.chunk_size == 4096
    monkeypatch.setattr(tap, "_raise_file_limit", lambda: None)
    service = tap.makeService(options)
    assert service.config is config


# -- signals and log files -----------------------------------------------------------------------------------


def test_sigusr1_rotates_the_log_file(start_server: Start, tmp_path: Path) -> None:
    """logrotate relies on it: the old file is renamed, and later lines go to a new one."""
    server = start_server("--log-level", "debug", of_twistd=(*FOREGROUND, "--logfile=relay.log"))
    port = server.port(tmp_path / "relay.log")
    server.send_signal(signal.SIGUSR1)
    wait_for((tmp_path / "relay.log.1").exists, "the rotation")
    BlockingClient(port).close()
    wait_for(lambda: "Connection c000001 closed" in (tmp_path / "relay.log").read_text(), "a new line")
    assert "Listening on" in (tmp_path / "relay.log.1").read_text()


def test_signals_without_a_file_to_reload_or_rotate_are_ignored(start_server: Start) -> None:
    server = start_server()
    server.port()
    server.send_signal(signal.SIGUSR1)
    server.send_signal(signal.SIGHUP)
    server.wait_for_text("There is no --config and no --relay-config")
    server.connect()
    assert server.process.poll() is None


def test_log_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    done = run([*TWISTD, "-n", "--logfile=missing/relay.log", "rtmprelay", "--listen", LOOPBACK], tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "--logfile: 'missing/relay.log' cannot be written" in line
