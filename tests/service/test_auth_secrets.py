"""No key, token or password appears in a log, event, HTTP answer, metric, file name or process list."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from typing_extensions import override

from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import StatusReceived
from tests.helpers import DEADLINE, group, start_frames, wait_for
from tests.service.auth_helpers import HASHED, MARK, PASSWORD, PLAIN, WATCH, film, write_keys
from tests.service.command import BlockingClient, Server
from tests.service.interop import FFmpeg

SECRET = f"{MARK}-" + "s" * 40
HTTP_TOKEN, HOOK_TOKEN = f"{MARK}-http-token", f"{MARK}-hook-token"
WRONG = f"{MARK}-wrong"


class Recorder(http.server.ThreadingHTTPServer):
    """An HTTP server for an authorizer and a webhook."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[dict[str, Any]] = []
        self.events: list[bytes] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Recorder
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = 204
        if self.path.startswith("/auth"):
            request = json.loads(body)
            self.server.requests.append(request)
            status = 403 if request["name"] == "forbidden" else 204
        else:
            self.server.events.append(body)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """The HTTP server, in a thread."""
    server = Recorder()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)


def token(**claims: Any) -> str:
    """A valid token."""
    content = {"action": ["publish", "play"], "stream": "*", "exp": time.time() + 300, **claims}
    return jwt.encode(content, SECRET, "HS256")


def get(url: str, **headers: str) -> bytes:
    """The headers and the body of an answer, good or bad; only the beginning of one without end."""
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=2) as response:
            data: bytes = response.read(20_000) if "/events" not in url else response.read1(20_000)
            return str(response.headers).encode() + data
    except urllib.error.HTTPError as error:
        return str(error.headers).encode() + error.read()
    except TimeoutError:
        return b""


def options(folder: Path, recorder: Recorder) -> list[str]:
    """All authorizers, all hooks, the event log, recordings and HTTP at once."""
    write_keys(folder)
    (folder / "jwt.key").write_text(SECRET)
    (folder / "hook.token").write_text(HOOK_TOKEN)
    program = folder / "program"
    program.write_text(
        f"#!/bin/sh\nenv >> {folder}/environments\ncat /proc/$$/cmdline /proc/$$/environ >> {folder}/processes\n"
    )
    program.chmod(0o755)
    return [
        *("--auth", "keys-file:keys.json", "--auth", "jwt:jwt.key", "--auth", "allow-from:127.0.0.0/8"),
        *("--auth", f"http:{recorder.url}/auth?secret={MARK}-auth#cache=1&token-file=hook.token"),
        *("--hook", "jsonl:events.jsonl", "--hook", f"exec:*={program}"),
        *("--hook", f"http:{recorder.url}/events?secret={MARK}-hook#token-file=hook.token"),
        *("--event-log", "log", "--record-all", "--record-dir", "recordings"),
        *("--http-status", "127.0.0.1:0", "--log-level", "debug", "--log-format", "json"),
        # Two dozen wrong ones of one address would take minutes.
        *("--limit", "guess_delay=0.01", "--limit", "longest_guess_delay=0.02"),
    ]


def be_refused(port: int) -> None:
    """Publish, play and log in with everything that is refused."""
    for app, name in (
        ("live", "film"),
        ("live", f"film?key={WRONG}"),
        ("live", f"film?key={PLAIN}&token={WRONG}.{WRONG}.{WRONG}"),
        ("live", f"film?key={PLAIN}&token={token(exp=1)}&x={MARK}"),
        ("live", f"forbidden?key={PLAIN}&token={token()}"),
        (f"live?key={WRONG}", f"film?token={token()}"),
        (f"live?key={WRONG}", f"film?authmod=adobe&user={MARK}&response={MARK}"),
    ):
        for request in (ClientSession.publish, ClientSession.play):
            client = BlockingClient(port, app)
            request(client.session, name)
            client.wait(StatusReceived)
            assert any(
                isinstance(event, StatusReceived) and event.level == "error" for event in client.events
            )
            client.close()
    login = f"studio?authmod=adobe&user=anna&challenge={MARK}&response={MARK}&opaque={MARK}"
    client = BlockingClient(port, login, wait=False)
    client.receive_events(2)
    client.close()


def ask_over_http(url: str) -> bytes:
    """The answers of all routes, and those to viewers with wrong credentials."""
    answers = [
        get(f"{url}{path}")
        for path in (
            "/",
            "/health",
            "/streams",
            "/destinations",
            "/recordings",
            "/metrics",
            "/control",
            "/events",
        )
    ]
    for path in ("live/film.flv", "live/film.mp4", "live/none.flv"):
        answers += [
            get(f"{url}/{path}"),
            get(f"{url}/{path}?key={WRONG}"),
            get(f"{url}/{path}?token={WRONG}"),
        ]
        answers.append(get(f"{url}/{path}", Authorization=f"Bearer {WRONG}"))
    answers.append(get(f"{url}/control", Authorization=f"Bearer {WRONG}"))
    answers.append(get(f"{url}/live/film.flv?key={WATCH}&token={token()}"))
    return b"".join(answers)


def publish_with_ffmpeg(ffmpeg: FFmpeg, url: str) -> int:
    """Publish the film; returns ffmpeg's exit status."""
    copy = ["-v", "error", "-readrate", "3", "-i", str(film(ffmpeg)), "-c", "copy", "-f", "flv"]
    done = subprocess.run([ffmpeg.program, *copy, url], capture_output=True, timeout=DEADLINE, check=False)
    return done.returncode


def test_no_secret_appears_in_any_output(
    start_server: Callable[..., Server], tmp_path: Path, recorder: Recorder, ffmpeg: FFmpeg
) -> None:
    secrets = {"RTMPRELAY_HTTP_TOKEN": HTTP_TOKEN, "SOME_KEY": MARK}
    server = start_server(*options(tmp_path, recorder), environment=secrets)
    port = server.port()
    be_refused(port)
    encoder = server.connect()
    assert encoder.publish(f"film?key={HASHED}&token={token()}") == "accepted"
    encoder.send(*start_frames(), *group(0))
    server.wait_for_text('"publish_started"')
    answers = ask_over_http(f"http://127.0.0.1:{server.http_port()}")
    for password, expected in ((PASSWORD, 0), (WRONG, 1)):
        url = f"rtmp://anna:{password}@127.0.0.1:{port}/studio/film?token={token()}"
        assert bool(publish_with_ffmpeg(ffmpeg, url)) == bool(expected)
    encoder.close()
    wait_for(lambda: len(server.lines("publish_stopped")) >= 2, "the end of the streams")
    assert server.stop()
    # The authorizer's server must get the client's credentials. They go there and nowhere else.
    assert any(MARK in json.dumps(request) for request in recorder.requests)
    places: dict[str, bytes] = {"answers": answers, "webhook": b"\n".join(recorder.events)}
    for path in tmp_path.rglob("*"):
        assert MARK not in path.name
        if path.is_file() and path.name not in ("keys.json", "jwt.key", "hook.token"):
            places[path.name] = path.read_bytes()
    assert {"out.log", "events.jsonl", "environments", "processes"} <= places.keys()
    for name, data in places.items():
        assert data, f"{name} is empty"
        # Neither a secret, nor the beginning of a token, nor a part of a login.
        for secret in (MARK.encode(), b"eyJ", b"authmod"):
            assert secret not in data, f"{name}: {_around(data, secret)!r}"
    assert b"publish_refused" in places["webhook"]
    assert b"RTMPRELAY_STREAM=live/film" in places["environments"]
    assert b"Traceback" not in places["out.log"]


def _around(data: bytes, mark: bytes) -> bytes:
    place = data.find(mark)
    return data[max(0, place - 100) : place + 100]


def test_process_list_shows_the_name_of_the_token_file_and_not_the_token(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(HOOK_TOKEN)
    server = start_server("--hook", "http:http://127.0.0.1:9/#token-file=token&events=server_stopped")
    server.port()
    line = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
    assert HOOK_TOKEN.encode() not in line
    assert os.fsencode("token-file=token") in line
