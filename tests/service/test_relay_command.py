"""`twistd rtmprelay --relay-to`, `--relay-config` and `--check-destinations` as an operator runs them."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rtmprelay.session.reports import PublishAccepted
from tests.helpers import keyframe, start_frames, wait_for
from tests.service.command import TWISTD, BlockingClient, Server, run
from tests.service.harness import closed_port

KEY = "KEY-that-nobody-may-see"

BAD_OPTIONS = {
    "bad scheme": (["--relay-to", f"http://host/app/{KEY}"], "--relay-to (number 1): its scheme is 'http'"),
    "no scheme": (["--relay-to", f"host/app/{KEY}"], "--relay-to (number 1): it is no address"),
    "no host": (["--relay-to", f"rtmp:///app/{KEY}"], "--relay-to (number 1): it has no host"),
    "no application": (["--relay-to", "rtmp://host"], "--relay-to (number 1): it has no application"),
    "bad port": (["--relay-to", f"rtmp://host:0/app/{KEY}"], "--relay-to (number 1): its port is wrong"),
    "duplicate": (
        ["--relay-to", f"rtmp://host/app/{KEY}", "--relay-to", f"rtmp://host/app/{KEY}"],
        "--relay-to (number 2): 'host:1935/app' and 'host:1935/app-2' go to the same place",
    ),
    "missing file": (["--relay-config", "missing.json"], "--relay-config: 'missing.json' cannot be read"),
    "nothing to check": (["--check-destinations"], "--check-destinations: there are no enabled destinations"),
}

BAD_FILES: dict[str, tuple[str, str]] = {
    "invalid JSON": ('{"destinations": [', "it is not valid JSON"),
    "not an object": ("[]", "it is not a JSON object"),
    "unknown field": (
        json.dumps({"destinations": [{"name": "a", "url": "rtmp://h/a", "stream_kye": KEY}]}),
        "unknown field 'stream_kye' @ $.destinations[0]",
    ),
    "mistyped field": (
        json.dumps(
            {"destinations": [{"name": "a", "url": "rtmp://h/a", "stream_key": KEY, "max_retries": "3"}]}
        ),
        "a whole number is expected @ $.destinations[0].max_retries",
    ),
    "bad address": (
        json.dumps({"destinations": [{"name": "a", "url": f"ftp://h/a/{KEY}"}]}),
        "destinations[0] ('a'): url: its scheme is 'ftp'",
    ),
}


def assert_one_line(error: str, expected: str) -> None:
    """The message is one line, says what is expected, and shows no key."""
    assert error.count("\n") == 1, error
    assert expected in error
    assert KEY not in error


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_a_bad_option_is_told_in_one_line(name: str, tmp_path: Path) -> None:
    options, expected = BAD_OPTIONS[name]
    done = run([*TWISTD, "-n", "rtmprelay", *options], tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert_one_line(done.stderr, expected)


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_told_in_one_line(name: str, tmp_path: Path) -> None:
    text, expected = BAD_FILES[name]
    (tmp_path / "relay.json").write_text(text)
    done = run([*TWISTD, "-n", "rtmprelay", "--relay-config", "relay.json"], tmp_path)
    assert done.returncode == 1
    assert_one_line(done.stderr, expected)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start servers, each in a folder of its own; stopped afterwards."""
    started: list[Server] = []

    def start(*options: str) -> Server:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(Server(folder, *options))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def lines(server: Server, event: str) -> list[dict[str, Any]]:
    """The events of one kind in a JSON log."""
    entries = [json.loads(line) for line in server.text().splitlines() if line.startswith("{")]
    return [entry for entry in entries if entry.get("event") == event]


def start_publishing(port: int) -> BlockingClient:
    client = BlockingClient(port)
    client.session.publish("test")
    client.wait(PublishAccepted)
    client.send(*start_frames(), keyframe(0))
    return client


def test_relay_to_publishes_there(server: Callable[..., Server]) -> None:
    """The stream arrives at the other server, and no log has the key."""
    target = server("--log-format", "json")
    relay = server("--log-format", "json", "--relay-to", f"rtmp://127.0.0.1:{target.port()}/app/{KEY}?x=1")
    client = start_publishing(relay.port())
    wait_for(lambda: lines(target, "codec_detected"), "the stream at the other server")
    client.socket.close()
    (connected,) = lines(relay, "destination_connected")
    assert connected["destination"] == f"127.0.0.1:{target.port()}/app"
    assert KEY not in relay.text()
    # The other server knows the stream by its name, and the query by nothing.
    assert lines(target, "publish_started")[0]["stream"] == f"app/{KEY}"
    assert "x=1" not in target.text()


def write_config(path: Path, **ports: int) -> None:
    """A configuration with these destinations."""
    entries = [
        {"name": name, "url": f"rtmp://127.0.0.1:{port}/app", "stream_key": name}
        for name, port in ports.items()
    ]
    path.write_text(json.dumps({"destinations": entries}))


def test_sighup_applies_only_the_difference(server: Callable[..., Server], tmp_path: Path) -> None:
    """A new destination gets the live stream, a removed one is ended, one that stays notices nothing."""
    stays, goes, comes = (server("--log-format", "json") for _ in range(3))
    config = tmp_path / "relay.json"
    write_config(config, stays=stays.port(), goes=goes.port())
    relay = server("--log-format", "json", "--relay-config", str(config))
    client = start_publishing(relay.port())
    wait_for(lambda: lines(stays, "publish_started") and lines(goes, "publish_started"), "both destinations")
    config.write_text('{"destinations": [{"name": "stays"}]}')
    relay.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "The destinations stay as they are" in relay.text(), "the refusal of a bad file")
    assert "the field 'url' is missing" in relay.text()
    write_config(config, stays=stays.port(), comes=comes.port())
    relay.process.send_signal(signal.SIGHUP)
    wait_for(lambda: lines(comes, "publish_started") and lines(goes, "publish_stopped"), "the change")
    (ended,) = lines(goes, "publish_stopped")
    assert ended["clean"] is True
    assert lines(stays, "publish_stopped") == []
    assert len(lines(stays, "connection_opened")) == 1
    client.socket.close()


def test_check_destinations(server: Callable[..., Server], tmp_path: Path) -> None:
    """Each step is told with its time; only if all went well is the exit status 0."""
    port = server().port()
    good = ["--relay-to", f"rtmp://127.0.0.1:{port}/app/{KEY}"]
    done = run([*TWISTD, "-n", "rtmprelay", "--check-destinations", *good], tmp_path)
    assert done.returncode == 0, done.stderr
    steps = [line.split()[:2] for line in done.stdout.splitlines()[1:]]
    assert steps == [["ok", step] for step in ("dns", "tcp", "handshake", "connect", "publish", "stays")]
    bad = ["--relay-to", f"rtmp://127.0.0.1:{closed_port()}/app/{KEY}"]
    done = run([*TWISTD, "-n", "rtmprelay", "--check-destinations", *good, *bad], tmp_path)
    assert done.returncode == 1
    assert "FAIL tcp" in done.stdout
    assert "connection refused" in done.stdout
    assert KEY not in done.stdout + done.stderr


def test_check_destinations_tells_a_refusal(server: Callable[..., Server], tmp_path: Path) -> None:
    """A key that is in use is refused by name of the step and the reason."""
    port = server().port()
    holder = start_publishing(port)
    done = run(
        [
            *TWISTD,
            "-n",
            "rtmprelay",
            "--check-destinations",
            "--relay-to",
            f"rtmp://127.0.0.1:{port}/live/test",
        ],
        tmp_path,
    )
    holder.socket.close()
    assert done.returncode == 1
    (failed,) = [line for line in done.stdout.splitlines() if "FAIL" in line]
    assert failed.split()[1] == "publish"
    assert "NetStream.Publish.BadName" in failed


def test_check_destinations_notices_who_closes_right_after(tmp_path: Path) -> None:
    """That is how some platforms say that a key is wrong: accept, and close."""
    fickle = tmp_path / "fickle.py"
    fickle.write_text(FICKLE_SERVER)
    process = subprocess.Popen([sys.executable, str(fickle)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        url = f"rtmp://127.0.0.1:{port}/live/{KEY}"
        done = run([*TWISTD, "-n", "rtmprelay", "--check-destinations", "--relay-to", url], tmp_path)
    finally:
        process.kill()
        process.wait()
    assert done.returncode == 1
    assert "ok   publish" in done.stdout
    assert "FAIL stays" in done.stdout


FICKLE_SERVER = """
from twisted.internet import reactor
from zope.interface import implementer
from rtmprelay.config.relay import RelayConfig
from rtmprelay.interfaces import IStreamObserver
from rtmprelay.service import RelayService

service = RelayService(RelayConfig(listen=("tcp:0:interface=127.0.0.1",)))

@implementer(IStreamObserver)
class Fickle:
    def stream_started(self, stream):
        for connection in service.factory.connections:
            reactor.callLater(0.05, connection.close_politely, "no")
    def stream_stopped(self, stream, clean):
        pass

service.registry.add_observer(Fickle())
service.startService()
print(service.addresses[0].port, flush=True)
reactor.callLater(30, reactor.stop)
reactor.run()
"""


def test_a_black_hole_does_not_hang_the_check(tmp_path: Path) -> None:
    """A server that accepts and says nothing is told as such after 10 s."""
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen()
        url = f"rtmp://127.0.0.1:{hole.getsockname()[1]}/app/{KEY}"
        done = run([*TWISTD, "-n", "rtmprelay", "--check-destinations", "--relay-to", url], tmp_path)
    assert done.returncode == 1
    assert "FAIL handshake" in done.stdout
    assert "does not answer" in done.stdout
