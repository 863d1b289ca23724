"""`twistd rtmprelay --relay-to`, `--relay-config` and `--check-destinations` as an operator runs them."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rtmprelay.session.reports import PublishAccepted
from tests.helpers import keyframe, start_frames, wait_for
from tests.service.command import TWISTD, BlockingClient, Server, refusal, run
from tests.service.harness import closed_port

KEY = "KEY-that-nobody-may-see"

BAD_OPTIONS = {
    "bad scheme": (["--relay-to", f"http://host/app/{KEY}"], "--relay-to (number 1): its scheme is 'http'"),
    "no scheme": (["--relay-to", f"host/app/{KEY}"], "--relay-to (number 1): it is not an RTMP URL"),
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


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_option_is_refused_with_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options, expected = BAD_OPTIONS[name]
    message = refusal(*options)
    assert expected in message
    assert KEY not in message


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_file_is_refused_with_one_line(name: str, tmp_path: Path) -> None:
    text, expected = BAD_FILES[name]
    file = tmp_path / "relay.json"
    file.write_text(text)
    message = refusal("--relay-config", str(file))
    assert expected in message
    assert KEY not in message


def test_refusal_is_printed_alone_with_exit_status_1(tmp_path: Path) -> None:
    (tmp_path / "relay.json").write_text("[]")
    done = run([*TWISTD, "-n", "rtmprelay", "--relay-config", "relay.json"], tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "it is not a JSON object" in done.stderr


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers, each in a folder of its own; they are stopped after the test."""
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


def test_relay_to_sends_the_stream_and_logs_no_key(server: Callable[..., Server]) -> None:
    target = server("--log-format", "json")
    relay = server("--log-format", "json", "--relay-to", f"rtmp://127.0.0.1:{target.port()}/app/{KEY}?x=1")
    client = start_publishing(relay.port())
    wait_for(lambda: lines(target, "codec_detected"), "the stream at the other server")
    client.socket.close()
    (connected,) = lines(relay, "destination_connected")
    assert connected["destination"] == f"127.0.0.1:{target.port()}/app"
    assert KEY not in relay.text()
    # There the key is the name of the stream, which is logged; its query is not.
    assert lines(target, "publish_started")[0]["stream"] == f"app/{KEY}"
    assert "x=1" not in target.text()


def write_config(path: Path, **ports: int) -> None:
    """Write a configuration with these destinations."""
    entries = [
        {"name": name, "url": f"rtmp://127.0.0.1:{port}/app", "stream_key": name}
        for name, port in ports.items()
    ]
    path.write_text(json.dumps({"destinations": entries}))


def test_sighup_applies_only_the_difference(server: Callable[..., Server], tmp_path: Path) -> None:
    """A new destination gets the live stream, a removed one ends, and the third keeps its connection."""
    kept, removed, added = (server("--log-format", "json") for _ in range(3))
    config = tmp_path / "relay.json"
    write_config(config, kept=kept.port(), removed=removed.port())
    relay = server("--log-format", "json", "--relay-config", str(config))
    client = start_publishing(relay.port())
    wait_for(
        lambda: lines(kept, "publish_started") and lines(removed, "publish_started"), "both destinations"
    )
    config.write_text('{"destinations": [{"name": "kept"}]}')
    relay.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "The destinations stay as they are" in relay.text(), "the refusal of a bad file")
    assert "the field 'url' is missing" in relay.text()
    write_config(config, kept=kept.port(), added=added.port())
    relay.process.send_signal(signal.SIGHUP)
    wait_for(lambda: lines(added, "publish_started") and lines(removed, "publish_stopped"), "the change")
    (ended,) = lines(removed, "publish_stopped")
    assert ended["clean"] is True
    assert lines(kept, "publish_stopped") == []
    assert len(lines(kept, "connection_opened")) == 1
    client.socket.close()


def test_check_destinations_prints_each_step_and_exits_with_0_if_all_succeeded(
    server: Callable[..., Server], tmp_path: Path
) -> None:
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
