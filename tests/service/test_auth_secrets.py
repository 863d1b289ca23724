"""Whatever happens: no key, token or password is in a log, an event, an answer, a metric, a file name or a process list."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from typing_extensions import override

from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import ConnectAccepted, SessionReport, StatusReceived
from tests.helpers import DEADLINE, group, start_frames, wait_for
from tests.service.auth_world import HASHED, MARK, PASSWORD, PLAIN, WATCH, film, write_keys
from tests.service.command import Server
from tests.service.interop import FFmpeg

SECRET = f"{MARK}-" + "s" * 40
HTTP_TOKEN, HOOK_TOKEN = f"{MARK}-http-token", f"{MARK}-hook-token"
WRONG = f"{MARK}-wrong"


class Recorder(http.server.ThreadingHTTPServer):
    """A server that is asked who may publish, and told what happens."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[dict[str, Any]] = []
        self.told: list[bytes] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Recorder
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = 204
        if self.path.startswith("/auth"):
            question = json.loads(body)
            self.server.asked.append(question)
            status = 403 if question["name"] == "forbidden" else 204
        else:
            self.server.told.append(body)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Be quiet."""


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """The server, in a thread."""
    server = Recorder()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)


class Client:
    """An encoder or a player on a plain socket."""

    def __init__(self, port: int, app: str = "live") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self.session = ClientSession(app, f"rtmp://127.0.0.1/{app}")
        self.events: list[SessionReport] = []

    def until(self, count: int) -> None:
        """Talk until so much has been said, or the server has enough."""
        while len(self.events) < count:
            self.socket.sendall(self.session.bytes_to_send())
            data = self.socket.recv(65536)
            if not data:
                return
            self.events += self.session.receive_data(data, 0.0)

    def connect(self) -> Client:
        """Open the application."""
        self.until(2)
        assert any(isinstance(event, ConnectAccepted) for event in self.events)
        return self


def token(**claims: Any) -> str:
    """A good token."""
    content = {"action": ["publish", "play"], "stream": "*", "exp": time.time() + 300, **claims}
    return jwt.encode(content, SECRET, "HS256")


def get(url: str, **headers: str) -> bytes:
    """An answer, good or bad; of one without end only its beginning."""
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
    """Everything that there is, at once."""
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
    ]


def http_port(server: Server) -> int:
    """Where HTTP is spoken."""

    def found() -> list[int]:
        lines = [json.loads(line) for line in server.text().splitlines() if line.startswith("{")]
        return [int(line["address"].rpartition(":")[2]) for line in lines if line.get("protocol") == "HTTP"]

    wait_for(found, "HTTP")
    return found()[0]


def be_refused(port: int) -> None:
    """Try all that does not work."""
    for app, name in (
        ("live", "film"),
        ("live", f"film?key={WRONG}"),
        ("live", f"film?key={PLAIN}&token={WRONG}.{WRONG}.{WRONG}"),
        ("live", f"film?key={PLAIN}&token={token(exp=1)}&x={MARK}"),
        ("live", f"forbidden?key={PLAIN}&token={token()}"),
        (f"live?key={WRONG}", f"film?token={token()}"),
        (f"live?key={WRONG}", f"film?authmod=adobe&user={MARK}&response={MARK}"),
    ):
        for ask in (ClientSession.publish, ClientSession.play):
            client = Client(port, app).connect()
            ask(client.session, name)
            client.until(3)
            assert any(
                isinstance(event, StatusReceived) and event.level == "error" for event in client.events
            )
            client.socket.close()
    client = Client(port, f"studio?authmod=adobe&user=anna&challenge={MARK}&response={MARK}&opaque={MARK}")
    client.until(2)
    client.socket.close()


def ask_over_http(url: str) -> bytes:
    """All answers there are, and those to viewers with wrong keys."""
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


def test_nothing_secret_is_anywhere(
    tmp_path: Path, recorder: Recorder, ffmpeg: FFmpeg, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTMPRELAY_HTTP_TOKEN", HTTP_TOKEN)
    monkeypatch.setenv("SOME_KEY", MARK)
    server = Server(tmp_path, *options(tmp_path, recorder))
    try:
        port, url = server.port(), f"http://127.0.0.1:{http_port(server)}"
        be_refused(port)
        encoder = Client(port).connect()
        encoder.session.publish(f"film?key={HASHED}&token={token()}")
        encoder.until(3)
        encoder.socket.sendall(encoder.session.bytes_to_send())
        for frame in [*start_frames(), *group(0)]:
            encoder.socket.sendall(encoder.session.send_media(frame))
        wait_for(lambda: '"publish_started"' in server.text(), "the publish")
        answers = ask_over_http(url)
        for password, code in ((PASSWORD, 0), (WRONG, 1)):
            address = f"rtmp://anna:{password}@127.0.0.1:{port}/studio/film?token={token()}"
            command = [
                "-v",
                "error",
                "-readrate",
                "3",
                "-i",
                str(film(ffmpeg)),
                "-c",
                "copy",
                "-f",
                "flv",
                address,
            ]
            done = subprocess.run(
                [ffmpeg.program, *command], capture_output=True, timeout=DEADLINE, check=False
            )
            assert bool(done.returncode) == bool(code), done.stderr
        encoder.socket.close()
        wait_for(lambda: server.text().count('"publish_stopped"') >= 2, "the end of the streams")
    finally:
        assert server.stop()
    # Whoever is asked who may publish must know what they brought: it goes there, and nowhere else.
    assert any(MARK in json.dumps(question) for question in recorder.asked)
    places: dict[str, bytes] = {"answers": answers, "webhook": b"\n".join(recorder.told)}
    for path in tmp_path.rglob("*"):
        assert MARK not in path.name
        if path.is_file() and path.name not in ("keys.json", "jwt.key", "hook.token"):
            places[path.name] = path.read_bytes()
    assert {"out.log", "events.jsonl", "environments", "processes"} <= places.keys()
    for name, data in places.items():
        assert data, f"{name} is empty"
        assert MARK.encode() not in data, f"{name}: {_around(data, MARK.encode())!r}"
        # No token and nothing of a login either.
        assert b"eyJ" not in data, f"{name}: {_around(data, b'eyJ')!r}"
        assert b"authmod" not in data, f"{name}: {_around(data, b'authmod')!r}"
    assert b"publish_refused" in places["webhook"]
    assert b"RTMPRELAY_STREAM=live/film" in places["environments"]
    assert b"Traceback" not in places["out.log"]


def _around(data: bytes, mark: bytes) -> bytes:
    place = data.find(mark)
    return data[max(0, place - 100) : place + 100]


def test_the_relays_own_command_line_need_not_hold_one(tmp_path: Path) -> None:
    """All secrets of authorizers and hooks can be given as files: the process list has only their names."""
    (tmp_path / "token").write_text(HOOK_TOKEN)
    server = Server(tmp_path, "--hook", "http:http://127.0.0.1:9/#token-file=token&events=server_stopped")
    try:
        server.port()
        line = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
        assert HOOK_TOKEN.encode() not in line
        assert os.fsencode("token-file=token") in line
    finally:
        server.stop()
