"""`twistd rtmprelay` as an operator runs it: a process of its own."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rtmprelay import __version__, tap
from rtmprelay.session.reports import PlayAccepted, PublishAccepted
from tests.helpers import LOOPBACK, keyframe, start_frames, wait_for
from tests.service.command import TWIST, TWISTD, BlockingClient, Server, port_in, run


@pytest.fixture
def clients() -> Iterator[Callable[[int], BlockingClient]]:
    """Make clients that are closed behind the test."""
    made: list[BlockingClient] = []

    def make(port: int) -> BlockingClient:
        client = BlockingClient(port)
        made.append(client)
        return client

    yield make
    for client in made:
        client.socket.close()


# -- without a server ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [TWISTD, TWIST], ids=["twistd", "twist"])
def test_help_from_any_folder(command: list[str], tmp_path: Path) -> None:
    done = run([*command, "rtmprelay", "--help"], tmp_path)
    assert done.returncode == 0
    for option in ("--listen", "--chunk-size", "--merge-window", "--log-level", "--log-format", "tcp:1935"):
        assert option in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_command_is_listed(tmp_path: Path) -> None:
    assert "An RTMP server and relay." in run([*TWISTD, "--help"], tmp_path).stdout


def test_version(tmp_path: Path) -> None:
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
        (["--listen", "ssl:0:privateKey=/no/key.pem:certKey=/no/cert.pem"], "directory: '/no/"),
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
def test_a_bad_option_is_told_in_one_line(options: list[str], named: str, tmp_path: Path) -> None:
    done = run([*TWISTD, "-n", "--pidfile=", "rtmprelay", *options], tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("rtmprelay: ")
    assert named in line
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
def test_how_long_frames_may_wait(options: list[str], seconds: float) -> None:
    parsed = tap.Options()
    parsed.parseOptions(options)
    assert parsed["config"].merge_window == seconds


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_port_in_use(log_format: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = ["--listen", f"127.0.0.1:{port}", "--log-format", log_format]
        done = run([*TWISTD, "-n", "--pidfile=", "rtmprelay", *options], tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    # One line for the operator, and one in the log.
    (logged,) = [line for line in done.stdout.splitlines() if "Address already in use" in line]
    for line in (logged, *done.stderr.splitlines()):
        assert f"127.0.0.1:{port}" in line
        assert "Address already in use" in line
    assert len(done.stderr.splitlines()) == 1


def test_a_unix_socket_that_cannot_be_made(tmp_path: Path) -> None:
    options = ["--listen", f"unix:{tmp_path}/absent/socket"]
    done = run([*TWISTD, "-n", "--pidfile=", "rtmprelay", *options], tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert "No such file or directory" in done.stdout


def test_a_daemon_cannot_log_to_its_standard_output(tmp_path: Path) -> None:
    done = run([*TWISTD, "--logfile=-", "--pidfile=x.pid", "rtmprelay", "--listen", LOOPBACK], tmp_path)
    if done.returncode == 0:
        # It should not have started; do not leave it behind.
        wait_for((tmp_path / "x.pid").exists, "the pid file")
        os.kill(int((tmp_path / "x.pid").read_text()), signal.SIGTERM)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "--logfile" in line


# -- with a server -------------------------------------------------------------------------------------------


def read_json(text: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines
    for line in lines:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
        assert line["level"] in ("debug", "info", "warn", "error", "critical")
        assert isinstance(line["message"], str)
    return lines


def test_json_from_the_first_line_to_the_last(
    tmp_path: Path, clients: Callable[[int], BlockingClient]
) -> None:
    server = Server(tmp_path, "--log-format", "json", "--log-level", "debug")
    try:
        port = server.port()
        encoder = clients(port)
        encoder.session.publish("cam?token=SECRET")
        encoder.wait(PublishAccepted)
        encoder.send(*start_frames(), keyframe(0))
        player = clients(port)
        player.session.play("cam")
        player.wait(PlayAccepted)
        player.socket.close()
        wait_for(lambda: "play_stopped" in server.text(), "the end of the play")
    finally:
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
    (codecs,) = [line for line in lines if line.get("event") == "codec_detected"]
    assert (codecs["stream_key"], codecs["video"], codecs["audio"]) == ("live/cam", "H.264 AVC", "AAC")
    assert any(line["message"].startswith("Player added") for line in lines)
    assert "SECRET" not in server.text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly_with_a_client_connected(
    tmp_path: Path, clients: Callable[[int], BlockingClient], number: int
) -> None:
    server = Server(tmp_path)
    try:
        client = clients(server.port())
        client.session.publish("cam")
        client.wait(PublishAccepted)
    finally:
        assert server.stop(number)
    assert "NetStream.Unpublish.Success" in client.socket.recv(65536).decode("latin-1")
    assert "publish of live/cam by c000001 stopped" in server.text()
    assert server.text().endswith("Server Shut Down.\n")
    assert "Traceback" not in server.text()


#: twistd, asked to end at the worst moment: everything is started, and the reactor does not run yet.
_ENDED_WHILE_STARTING = """
import os, signal, sys
from rtmprelay.service import RelayService
from twisted.scripts.twistd import run

start = RelayService.startService
RelayService.startService = lambda self: (start(self), os.kill(os.getpid(), signal.SIGTERM))
sys.argv[0] = "twistd"
run()
"""


def test_a_signal_to_end_that_comes_while_it_starts_stops_it_cleanly(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        _ENDED_WHILE_STARTING,
        "-n",
        "--pidfile=",
        "rtmprelay",
        "--listen",
        LOOPBACK,
    ]
    done = run([*command, "--event-log", "events"], tmp_path)
    assert done.returncode == -signal.SIGTERM
    assert done.stdout.endswith("Server Shut Down.\n")
    (events,) = (tmp_path / "events").iterdir()
    assert [json.loads(line)["event"] for line in events.read_text().splitlines()] == [
        "server_started",
        "server_stopped",
    ]


def test_the_log_level_filters(tmp_path: Path, clients: Callable[[int], BlockingClient]) -> None:
    server = Server(tmp_path, "--log-level", "warn")
    try:
        wait_for(lambda: listening_ports(server.process.pid), "listening")
        (port,) = listening_ports(server.process.pid)
        clients(port)
    finally:
        assert server.stop()
    assert server.text() == ""


def test_a_log_file(tmp_path: Path) -> None:
    server = Server(tmp_path, "--log-format", "json", of_twistd=("-n", "--pidfile=", "--logfile=relay.log"))
    log = tmp_path / "relay.log"
    try:
        server.port(log)
    finally:
        assert server.stop()
    assert server.text() == ""
    assert read_json(log.read_text())[-1]["message"] == "Server Shut Down."


def test_a_logger_on_the_command_line_wins(tmp_path: Path) -> None:
    server = Server(
        tmp_path,
        "--log-format",
        "json",
        of_twistd=("-n", "--pidfile=", "--logger=twisted.logger.STDLibLogObserver", "--logfile=unused.log"),
    )
    try:
        wait_for(lambda: listening_ports(server.process.pid), "listening")
    finally:
        assert server.stop()
    assert not (tmp_path / "unused.log").exists()


def listening_ports(pid: int) -> list[int]:
    """The ports on which a process listens, as the kernel knows them."""
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


def test_a_daemon_with_a_pid_file(tmp_path: Path, clients: Callable[[int], BlockingClient]) -> None:
    done = run(
        [*TWISTD, "--pidfile=relay.pid", "rtmprelay", "--listen", LOOPBACK, "--log-format", "json"], tmp_path
    )
    pid_file = tmp_path / "relay.pid"
    assert done.returncode == 0, done.stdout + done.stderr
    wait_for(pid_file.exists, "the pid file")
    pid = int(pid_file.read_text())
    try:
        log = tmp_path / "twistd.log"
        clients(port_in(log))
    finally:
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not pid_file.exists(), "the end of the daemon")
    assert read_json(log.read_text())[-1]["message"] == "Server Shut Down."


def test_a_daemon_that_cannot_start_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run([*TWISTD, "--pidfile=relay.pid", "rtmprelay", "--listen", listen], tmp_path)
    assert done.returncode == 1
    assert f"Couldn't listen on {listen}" in done.stderr
    log = tmp_path / "twistd.log"
    wait_for(lambda: "Address already in use" in log.read_text(), "the reason in the log")
    # The one that says it and the one that tidies up are two processes.
    wait_for(lambda: not (tmp_path / "relay.pid").exists(), "the end of the pid file")


# -- in this process -----------------------------------------------------------------------------------------


def test_the_file_limit_is_raised_where_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _what, limits: asked.append(limits))
    tap._raise_file_limit()
    assert asked == [(4096, 4096)]

    def refuse(_what: int, _limits: tuple[int, int]) -> None:
        raise ValueError("not here")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    tap._raise_file_limit()


def test_the_options_become_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    options = tap.Options()
    options.parseOptions(["--listen", "127.0.0.1:0", "--listen", "tcp:0", "--chunk-size", "4096"])
    config = options["config"]
    assert config.listen == ("tcp:0:interface=127.0.0.1:backlog=1024", "tcp:0:backlog=1024")
    assert config.chunk_size == 4096
    monkeypatch.setattr(tap, "_raise_file_limit", lambda: None)
    service = tap.makeService(options)
    assert service.config is config


def test_sigusr1_begins_a_new_log_file(tmp_path: Path) -> None:
    """What logrotate asks for: the old file is put aside, and lines go to a new one."""
    server = Server(tmp_path, of_twistd=("-n", "--pidfile=", "--logfile=relay.log"))
    try:
        port = server.port(tmp_path / "relay.log")
        server.process.send_signal(signal.SIGUSR1)
        wait_for((tmp_path / "relay.log.1").exists, "the rotation")
        BlockingClient(port).socket.close()
        wait_for(lambda: "Connection c000001 closed" in (tmp_path / "relay.log").read_text(), "a new line")
        assert "Listening on" in (tmp_path / "relay.log.1").read_text()
    finally:
        server.stop()


def test_signals_without_anything_to_do_end_nobody(tmp_path: Path) -> None:
    """SIGHUP without a configuration file and SIGUSR1 without a log file are borne."""
    server = Server(tmp_path)
    try:
        port = server.port()
        server.process.send_signal(signal.SIGUSR1)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "There is no --relay-config" in server.text(), "the answer to SIGHUP")
        BlockingClient(port).socket.close()
        assert server.process.poll() is None
    finally:
        server.stop()


def test_a_log_file_that_cannot_be_written(tmp_path: Path) -> None:
    done = run([*TWISTD, "-n", "--logfile=missing/relay.log", "rtmprelay", "--listen", LOOPBACK], tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "--logfile: 'missing/relay.log' cannot be written" in line
