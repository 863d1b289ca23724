"""An HTTP server with the API of the relay, for data that a real relay cannot easily have."""

from __future__ import annotations

import json
import queue
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import rtmprelay

_PAGES = Path(rtmprelay.__file__).parent / "web" / "page"
DASHBOARD = _PAGES / "dashboard"

#: The folders with the files of the page: it plays recordings with what the page to watch reads playlists with.
FOLDERS = (DASHBOARD, _PAGES / "watch")

TOKEN = "token-of-the-fake"

#: As strict as that of the relay.
POLICY = "default-src 'self'; img-src 'self' data:; media-src 'self' blob:; frame-ancestors 'none'"

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def stream(key: str, **more: Any) -> dict[str, Any]:
    """A stream as `/streams` shows it."""
    app, _, name = key.partition("/")
    return {
        "key": key,
        "app": app,
        "name": name,
        "live": True,
        "publisher": {"connection": "c1", "address": "192.0.2.7:50123"},
        "started_at": "2026-01-01T12:00:00.000Z",
        "duration": 3725.4,
        "video": {
            "codec": "H.264 AVC",
            "width": 1920,
            "height": 1080,
            "fps": 30,
            "declared_bitrate_kbps": 6000,
        },
        "audio": {"codec": "AAC", "sample_rate": 48000, "channels": 2, "declared_bitrate_kbps": 160},
        "bitrate_kbps": 6120.5,
        "fps": 29.97,
        "gop_seconds": 1.4,
        "keyframe_interval": 2.0,
        "players": 12,
        "messages_in": 123456,
        "bytes_in": 2_850_000_000,
        "messages_out": 1481472,
        "bytes_out": 34_200_000_000,
        "messages_dropped": 0,
        "dropped_by_reason": {},
        "recording": None,
        "destinations": [],
        "media": {
            "flv": f"/{key}.flv",
            "mp4": f"/{key}.mp4",
            "hls": f"/{key}/index.m3u8",
            "page": f"/{key}/",
        },
    } | more


def destination(name: str, **more: Any) -> dict[str, Any]:
    """A destination as `/destinations` shows it."""
    return {
        "name": name,
        "url": f"rtmps://ingest.example/live/****{len(name):04x}",
        "status": "connected",
        "enabled": True,
        "last_error": None,
        "error_class": None,
        "next_attempt": None,
        "next_attempt_in": None,
        "given_up": False,
        "messages_sent": 123400,
        "messages_dropped": 0,
        "messages_queued": 0,
        "dropped_by_reason": {},
        "bytes_sent": 2_849_000_000,
        "bitrate_kbps": 6118.2,
        "last_sent_time": "2026-01-01T13:02:05.300Z",
        "connect_time": "2026-01-01T12:00:01.000Z",
        "connected_duration": 3724.1,
        "reconnect_count": 0,
        "failures": 0,
        "match": "*",
        "lasting": False,
        "metadata": {},
        "outlets": [],
    } | more


def recording(name: str, **more: Any) -> dict[str, Any]:
    """A file as `/recordings` shows it."""
    return {
        "name": name,
        "size": 2_700_000_000,
        "duration": 3600.2,
        "started": "2026-01-01T20:15:00.000Z",
        "stream": "live/concert",
        "growing": False,
    } | more


def player(connection: str, **more: Any) -> dict[str, Any]:
    """A player as `/players` shows it."""
    return {
        "connection": connection,
        "address": "192.0.2.7:50123",
        "stream": "live/concert",
        "protocol": "rtmp",
        "started_at": "2026-01-01T12:00:00.000Z",
        "duration": 62.5,
        "bytes_sent": 47_000_000,
        "messages_dropped": 0,
        "dropped_by_reason": {},
        "bytes_queued": 0,
        "stalls": 0,
    } | more


def step(name: str, problem: str | None = None, detail: str = "") -> dict[str, Any]:
    """A step of trying out a destination."""
    return {"name": name, "seconds": 0.0123, "problem": problem, "detail": detail}


class FakeRelay:
    """The server. Change `streams`, `destinations` and the rest, then call `send_status`."""

    def __init__(self) -> None:
        self.streams: dict[str, Any] = {}
        self.destinations: dict[str, Any] = {}
        self.pulls: dict[str, Any] = {}
        self.cluster: dict[str, Any] | None = None
        self.hello: dict[str, Any] = {
            "api_version": 1,
            "version": "0.0.0",
            "changes_allowed": True,
            "interval": 1.0,
            "history": {"interval": 1.0, "streams": {}, "destinations": {}},
            "events": [],
        }
        #: What `/recordings`, `/players` and the settings of a destination say.
        self.files: list[dict[str, Any]] | None = None
        self.players: list[dict[str, Any]] = []
        self.settings: dict[str, Any] = {}
        #: The steps of each destination that is tried out.
        self.steps: list[dict[str, Any]] = [step("dns"), step("tcp"), step("publish")]
        self.machine: dict[str, Any] | None = None
        #: Live media by path.
        self.media: dict[str, bytes] = {}
        #: A path before all others, as a reverse proxy may add it.
        self.prefix = ""
        #: The status and the message that `/events` answers with instead of events.
        self.refusal: tuple[int, str] | None = None
        #: The changes that were requested: method, path, body.
        self.changes: list[tuple[str, str, Any]] = []
        #: The status and the message that changes are refused with.
        self.change_refusal: tuple[int, str] | None = None
        #: How often each path was asked for.
        self.asked: Counter[str] = Counter()
        self.clients: set[queue.SimpleQueue[bytes | None]] = set()
        self.now = "2026-01-01T13:02:06.000Z"
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Stop the server and end all event streams."""
        self._server.shutdown()
        self.disconnect()
        self._server.server_close()

    def disconnect(self) -> None:
        """End all event streams."""
        for client in list(self.clients):
            client.put(None)

    def status(self) -> dict[str, Any]:
        """The content of a `status` message."""
        destinations = self.destinations.values()
        health = {
            "api_version": 1,
            "status": "ok",
            "version": "0.0.0",
            "uptime": 93784.0,
            "streams": len(self.streams),
            "players": sum(each["players"] for each in self.streams.values()),
            "total_destinations": len(destinations),
            "connected_destinations": sum(each["status"] == "connected" for each in destinations),
            "refused_addresses": [],
            "warnings": [],
            "memory": {
                "budget": 1,
                "used": 0,
                "assembly": 0,
                "caches": 0,
                "queues": 0,
                "outputs": 0,
                "scarcity": "none",
            },
            "machine": self.machine,
            "failed_destinations": sum(each["status"] == "error" for each in destinations),
            "total_messages_sent": sum(each["messages_sent"] for each in destinations),
            "total_messages_dropped": sum(each["messages_dropped"] for each in destinations),
            "total_bytes_sent": sum(each["bytes_sent"] for each in destinations),
            "destinations": {},
            "last_updated": self.now,
        }
        return {
            "last_updated": self.now,
            "health": health,
            "streams": self.streams,
            "destinations": self.destinations,
            "pulls": self.pulls,
            "cluster": self.cluster,
        }

    def send(self, kind: str, data: Any) -> None:
        """Send a message to all pages."""
        message = f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()
        for client in list(self.clients):
            client.put(message)

    def send_status(self) -> None:
        """Send the status to all pages."""
        self.send("status", self.status())

    def file(self, path: str) -> tuple[bytes, str] | None:
        """A file of the page, and its type."""
        name = "index.html" if path == "/" else path.removeprefix("/assets/")
        file = next((folder / name for folder in FOLDERS if (folder / name).is_file()), None)
        if "/" in name or file is None:
            return None
        return file.read_bytes(), _TYPES[file.suffix]

    def read(self, path: str) -> Any:
        """What is read when the page needs it; None if there is no such thing."""
        if path == "/recordings":
            return {"recordings": [], "files": self.files}
        if path == "/players":
            return {"total": len(self.players), "players": self.players}
        if path.startswith("/destinations/") and path.endswith("/settings"):
            return self.settings.get(path.split("/")[2])
        return None

    def change(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Carry out a change: the status and the body of the response."""
        self.changes.append((method, path, body))
        if self.change_refusal:
            return self.change_refusal[0], error(*self.change_refusal)
        if (method, path) == ("POST", "/destinations"):
            self.destinations[body["name"]] = destination(body["name"], status="idle")
            return 201, self.destinations[body["name"]]
        if path == "/check" or path.endswith("/check"):
            succeeded = all(each["problem"] is None for each in self.steps)
            address = {
                "address": "rtmps://ingest.example/live/***",
                "succeeded": succeeded,
                "steps": self.steps,
            }
            return 200, {"succeeded": succeeded, "addresses": [address]}
        return 204, None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        relay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                """Does nothing."""

            def answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Security-Policy", POLICY)
                self.send_header("X-Content-Type-Options", "nosniff")
                self.end_headers()
                self.wfile.write(body)

            def answer_json(self, status: int, value: Any) -> None:
                self.answer(status, b"" if value is None else json.dumps(value).encode())

            def do_GET(self) -> None:
                path = self.path.partition("?")[0].removeprefix(relay.prefix)
                relay.asked[path] += 1
                found = relay.file(path)
                if found is not None:
                    self.answer(200, *found)
                elif path == "/events":
                    self.events()
                elif path == "/control":
                    authorized = self.headers["Authorization"] == f"Bearer {TOKEN}"
                    answer = {"api_version": 1, "changes_allowed": True, "authorized": authorized}
                    self.answer_json(200, answer)
                elif (read := relay.read(path)) is not None:
                    self.answer_json(200, read)
                elif path.endswith(".still") and path not in relay.media:
                    self.answer_json(204, None)
                elif path in relay.media:
                    self.answer(200, relay.media[path], "video/mp4")
                else:
                    self.answer_json(404, error(404, "There is nothing here."))

            def events(self) -> None:
                if relay.refusal:
                    return self.answer_json(relay.refusal[0], error(*relay.refusal))
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                client: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
                for kind, data in (("hello", relay.hello), ("status", relay.status())):
                    client.put(f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode())
                relay.clients.add(client)
                self.close_connection = True
                try:
                    while (message := client.get()) is not None:
                        self.wfile.write(message)
                except OSError:
                    pass
                finally:
                    relay.clients.discard(client)

            def change(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                if self.headers["Authorization"] != f"Bearer {TOKEN}":
                    return self.answer_json(401, error(401, "The token is missing or wrong."))
                self.answer_json(*relay.change(self.command, self.path, json.loads(body) if body else None))

            do_POST = do_PATCH = do_DELETE = change  # noqa: N815

        return Handler


def error(status: int, message: str) -> dict[str, Any]:
    """An error in the form of the relay."""
    return {"error": {"status": status, "code": "error", "message": message}}
