"""`rtmprelay serve` and `status`, as an operator runs them."""

from __future__ import annotations

import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from rtmprelay.cli import status
from rtmprelay.cli.main import main
from tests.helpers import keyframe, start_frames, wait_for
from tests.service.command import Server, run

COMMAND = [sys.executable, "-m", "rtmprelay"]


def serve(folder: Path, *options: str) -> Server:
    return Server(folder, *options, of_twistd=(), command=COMMAND, subcommand="serve")


def test_serve_says_where_to_publish_and_ends_on_a_signal(tmp_path: Path) -> None:
    (tmp_path / "relay.toml").write_text('http-status = ":0"\nrecord-all = true\n')
    with serve(tmp_path, "--config", "relay.toml") as server:
        port, http_port = server.port(), server.http_port()
        server.wait_for_text(f"Publish to and play from rtmp://127.0.0.1:{port}/APP/NAME")
        server.wait_for_text(f"The page is http://127.0.0.1:{http_port}/ (from this machine only)")
        server.wait_for_text(f"Every stream is recorded in {tmp_path / 'recordings'}")
        server.wait_for_text("Anybody who reaches a port may publish and play there (--auth)")
        publisher = server.connect()
        assert publisher.publish("film") == "accepted"
        publisher.send(*start_frames(), keyframe(0))
        shown = wait_for(lambda: _status_of(http_port), "the stream in the status")
        assert shown is not None
        assert "1 live stream" in shown
        assert [path.name for path in tmp_path.iterdir() if path.suffix == ".pid"] == []
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0


def _status_of(port: int) -> str | None:
    document = {
        name: status._ask(f"http://127.0.0.1:{port}", name) for name in ("health", "streams", "destinations")
    }
    lines = "\n".join(status.lines(document, 100))
    return lines if "live/film" in lines else None


def test_serve_refuses_a_bad_option_in_one_line(tmp_path: Path) -> None:
    done = run([*COMMAND, "serve", "--lisen", "1"], tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "rtmprelay: option --lisen not recognized; did you mean --listen? (see rtmprelay serve --help)\n"
    )


def test_status_without_a_relay_says_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--once", "http://127.0.0.1:1"]) == 1
    error = capsys.readouterr().err
    assert "no relay answers at http://127.0.0.1:1" in error
    assert "--http-status :8080" in error


@pytest.mark.parametrize("answer", [b"{}", b"[]", b"no json", b'{"streams": 3}'])
def test_status_of_something_else_is_one_line(answer: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert main(["status", "--once", f"http://127.0.0.1:{server.server_port}"]) == 1
        server.shutdown()
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:99999", "http://", "http://[", "127.0.0.1:1", "http://a b/"]
)
def test_status_of_an_odd_address_is_one_line(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--once", url]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_status_of_another_scheme_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--once", "file:///etc/passwd"]) == 1
    assert "is not an address such as" in capsys.readouterr().err


def test_status_lines_fit_the_terminal_and_hold_no_control_characters() -> None:
    stream = {
        "key": "live/\x1b[2Jfilm",
        "live": True,
        "video": {"codec": "H.264 AVC", "width": 1920, "height": 1080},
        "audio": None,
        "bitrate_kbps": 2500.4,
        "fps": None,
        "players": 3,
        "recording": None,
        "duration": 3725.0,
    }
    destination = {
        "name": "One",
        "status": "error",
        "bitrate_kbps": None,
        "messages_dropped": 7,
        "last_error": "x" * 200,
        "failures": 12,
        "given_up": False,
        "next_attempt_in": 31.2,
    }
    health = {
        "version": "1.2",
        "warnings": ["anybody may publish"],
        "refused_addresses": [{"address": "192.0.2.7", "refused": 9, "limit": "max_connections_per_address"}],
        "pulls": {"origin": {"status": "idle", "viewers": 0, "last_error": None}},
    }
    document = {
        "health": health,
        "streams": {"streams": {"a": stream}},
        "destinations": {"destinations": {"b": destination}},
    }
    shown = status.lines(document, 60)
    assert all(len(line) <= 60 and line.isprintable() for line in shown)
    assert shown[:2] == [
        "rtmprelay 1.2: 1 live stream, 3 players, 1 destination",
        "Warning: anybody may publish",
    ]
    whole = "\n".join(status.lines(document, 400))
    assert "1:02:05" in whole
    assert "192.0.2.7 was refused 9 times (max_connections_per_address)" in whole
    assert "origin        idle   0" in whole
    assert "x (12 times), next attempt in 31 s" in whole
