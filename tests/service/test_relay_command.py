"""`--relay-to`, `--relay-config` and `--check-destinations` as an operator uses them."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import free_port, keyframe, start_frames, wait_for
from tests.service.command import FOREGROUND, TWISTD, BlockingClient, Server, refusal, run

Start = Callable[..., Server]

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
def test_bad_option_is_refused_in_one_line_without_the_key(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options, expected = BAD_OPTIONS[name]
    message = refusal(*options)
    assert expected in message
    assert KEY not in message


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_relay_config_is_refused_in_one_line_without_the_key(name: str, tmp_path: Path) -> None:
    text, expected = BAD_FILES[name]
    file = tmp_path / "relay.json"
    file.write_text(text)
    message = refusal("--relay-config", str(file))
    assert expected in message
    assert KEY not in message


def test_refusal_is_printed_alone_with_exit_status_1(tmp_path: Path) -> None:
    (tmp_path / "relay.json").write_text("[]")
    done = run([*TWISTD, *FOREGROUND, "rtmprelay", "--relay-config", "relay.json"], tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "it is not a JSON object" in done.stderr


def start_publishing(server: Server) -> BlockingClient:
    client = server.connect()
    assert client.publish("test") == "accepted"
    client.send(*start_frames(), keyframe(0))
    return client


def check_destinations(folder: Path, *urls: str) -> subprocess.CompletedProcess[str]:
    options = [part for url in urls for part in ("--relay-to", url)]
    return run([*TWISTD, *FOREGROUND, "rtmprelay", "--check-destinations", *options], folder)


def test_relay_to_publishes_at_the_destination_and_logs_no_key(start_server: Start) -> None:
    target = start_server("--log-format", "json")
    url = f"rtmp://127.0.0.1:{target.port()}/app/{KEY}?x=1"
    relay = start_server("--log-format", "json", "--relay-to", url)
    start_publishing(relay)
    wait_for(lambda: target.lines("codec_detected"), "the stream at the destination")
    (connected,) = relay.lines("destination_connected")
    assert connected["destination"] == f"127.0.0.1:{target.port()}/app"
    assert KEY not in relay.text()
    # The key is the stream's name there, and the query is not part of it.
    assert target.lines("publish_started")[0]["stream"] == f"app/{KEY}"
    assert "x=1" not in target.text()


def write_config(path: Path, **ports: int) -> None:
    """Write a configuration with these destinations."""
    entries = [
        {"name": name, "url": f"rtmp://127.0.0.1:{port}/app", "stream_key": name}
        for name, port in ports.items()
    ]
    path.write_text(json.dumps({"destinations": entries}))


def test_sighup_applies_only_the_changes_of_the_relay_config(start_server: Start, tmp_path: Path) -> None:
    """A new destination gets the live stream, a removed one is ended, and one that stays is not disturbed."""
    stays, goes, comes = (start_server("--log-format", "json") for _ in range(3))
    config = tmp_path / "relay.json"
    write_config(config, stays=stays.port(), goes=goes.port())
    relay = start_server("--log-format", "json", "--relay-config", str(config))
    start_publishing(relay)
    wait_for(lambda: stays.lines("publish_started") and goes.lines("publish_started"), "both destinations")
    config.write_text('{"destinations": [{"name": "stays"}]}')
    relay.send_signal(signal.SIGHUP)
    relay.wait_for_text("The destinations stay as they are")
    assert "the field 'url' is missing" in relay.text()
    write_config(config, stays=stays.port(), comes=comes.port())
    relay.send_signal(signal.SIGHUP)
    wait_for(lambda: comes.lines("publish_started") and goes.lines("publish_stopped"), "the change")
    (ended,) = goes.lines("publish_stopped")
    assert ended["clean"] is True
    assert stays.lines("publish_stopped") == []
    assert len(stays.lines("publish_started")) == 1


def test_check_destinations_prints_each_step_and_exits_with_0_if_all_succeeded(
    start_server: Start, tmp_path: Path
) -> None:
    good = f"rtmp://127.0.0.1:{start_server().port()}/app/{KEY}"
    done = check_destinations(tmp_path, good)
    assert done.returncode == 0, done.stderr
    steps = [line.split()[:2] for line in done.stdout.splitlines()[1:]]
    assert steps == [["ok", step] for step in ("dns", "tcp", "handshake", "connect", "publish", "stays")]
    done = check_destinations(tmp_path, good, f"rtmp://127.0.0.1:{free_port()}/app/{KEY}")
    assert done.returncode == 1
    assert "FAIL tcp" in done.stdout
    assert "connection refused" in done.stdout
    assert KEY not in done.stdout + done.stderr
