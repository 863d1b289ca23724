"""The server that is attacked, and what can be seen of it from outside."""

from __future__ import annotations

import json
import os
import socket
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rtmprelay.media import MediaFrame
from rtmprelay.session.reports import MediaReceived, PlayAccepted, PublishAccepted
from tests.helpers import group, start_frames, wait_for
from tests.hostile.conversations import KEY, MARK
from tests.service.command import TWISTD, BlockingClient, Server

MEBIBYTE = 1024 * 1024

#: What it may have kept for good after whatever was done to it.
MOST_GROWTH = 20 * MEBIBYTE

#: Large blocks are given back to the system as soon as they are free. Otherwise the allocator keeps some of them, more
#: or fewer from run to run, and the memory of the process does not show what the server holds.
_GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": str(64 * 1024)}

#: Shorter than usual, so that a test need not wait for long.
_PATIENCE = {
    "handshake_timeout": "4",
    "connect_timeout": "4",
    "idle_timeout": "8",
    "stall_timeout": "4",
    # A machine that is busy with other things may be slower than the usual bound, and then nobody goes over it.
    "chunk_rate": "1000",
    # All of them come from here, and those who guess must not delay the others.
    "connection_rate_per_address": "none",
    "guess_delay": "0",
}

#: Options for a test of thousands: nobody is ended for being slow while the machine is busy.
PATIENT = tuple(
    part
    for limit in ("handshake_timeout", "connect_timeout", "message_timeout", "idle_timeout", "stall_timeout")
    for part in ("--limit", f"{limit}=120")
)

#: Seconds; short, so that it is the server that lets go, and not Python's collector sooner or later.
_LETTING_GO = 5.0

#: What clients call things, and the sentence that has it in it.
_NAMED_BY_CLIENTS = ("stream", "app", "command", "message")

_PAGES = ("/", "/health", "/streams", "/destinations", "/recordings", "/metrics")


def _write(path: Path, content: object) -> Path:
    """A file with secrets in it."""
    path.write_text(json.dumps(content))
    path.chmod(0o600)
    return path


class AttackedServer:
    """A relay in a process of its own, with short timeouts, a key, a log in JSON and metrics."""

    def __init__(
        self, folder: Path, *options: str, files: int | None = None, before: Sequence[str] = ()
    ) -> None:
        """Args:
        files: How many files it may have open.
        before: What to put before the command.
        """
        self.folder = folder
        keys = _write(
            folder / "keys.json",
            {"streams": [{"match": "live/*", "publish": {"keys": [KEY]}, "play": {"keys": [KEY]}}]},
        )
        destination = {"name": "nobody", "url": "rtmp://127.0.0.1:9/app", "stream_key": KEY}
        relay = _write(folder / "relay.json", {"destinations": [{**destination, "match": "live/normal-*"}]})
        limits = [part for limit in _PATIENCE.items() for part in ("--limit", "=".join(limit))]
        self.server = Server(
            folder,
            # Every connection is in the log.
            *("--log-level", "debug"),
            *("--log-format", "json", "--auth", f"keys-file:{keys}", "--hook", "jsonl:events.jsonl"),
            *("--relay-config", str(relay), "--http-status", "127.0.0.1:0"),
            *limits,
            *options,
            command=[*before, *TWISTD],
            environment=_GIVE_BACK,
            files=files,
        )
        self._read = 0
        self._lines: list[dict[str, Any]] = []
        (self.port, *_) = self.ports("RTMP")
        self._process = self.server.process.pid
        # It opens this one when it has something to write; then it has all files that it ever has.
        wait_for((folder / "events.jsonl").exists, "the first event")

    def ports(self, protocol: str, count: int = 1) -> list[int]:
        """Where it listens, as its log says."""

        def found() -> list[int]:
            addresses = [line["address"] for line in self.lines() if line.get("protocol") == protocol]
            return [int(address.rpartition(":")[2]) for address in addresses]

        wait_for(lambda: len(found()) >= count, "listening")
        return found()

    def connect(self) -> socket.socket:
        """Open a connection, and send nothing."""
        return socket.create_connection(("127.0.0.1", self.port), 20)

    def memory(self) -> int:
        """Bytes of memory that it uses."""
        pages = int(Path(f"/proc/{self._process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def most_memory(self) -> int:
        """Bytes of memory that it used when it used most."""
        status = Path(f"/proc/{self._process}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def files(self) -> int:
        """How many files it has open."""
        return len(os.listdir(f"/proc/{self._process}/fd"))

    # -- what it says ----------------------------------------------------------------------------------------

    def lines(self) -> list[dict[str, Any]]:
        """Its log; a line that is no JSON fails the test."""
        with self.server.log.open("rb") as log:
            log.seek(self._read)
            new = log.read()
        # The last line may be half written.
        new = new[: new.rfind(b"\n") + 1]
        self._read += len(new)
        self._lines += [json.loads(line) for line in new.splitlines()]
        return self._lines

    def closings(self, since: int = 0) -> list[dict[str, Any]]:
        """The lines about connections that ended."""
        return [line for line in self.lines()[since:] if line.get("event") == "connection_closed"]

    def offences(self, since: int = 0) -> Counter[str]:
        """How often each limit was named as the reason for an end."""
        return Counter(line["limit"] for line in self.closings(since) if line["limit"] is not None)

    def figure(self, name: str) -> float:
        """One of its metrics; 0 if there is none of this name and label."""
        for line in self.page("/metrics").decode().splitlines():
            if line.rpartition(" ")[0] == name:
                return float(line.rpartition(" ")[2])
        return 0.0

    def page(self, path: str) -> bytes:
        """What it answers over HTTP."""
        port, *_ = self.ports("HTTP")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            body: bytes = answer.read()
            return str(answer.headers).encode() + body

    def pages(self) -> dict[str, bytes]:
        """All that it shows."""
        return {path: self.page(path) for path in _PAGES}

    # -- whether it is well ----------------------------------------------------------------------------------

    def wait_until_alone(self, files: int) -> None:
        """Wait until all strangers are gone."""
        wait_for(lambda: self.files() <= files, "the end of all connections")

    def assert_no_larger(self, before: int, most: int = MOST_GROWTH) -> None:
        """It uses hardly more memory than before; what a connection had is let go of a moment after its socket."""
        deadline = time.monotonic() + _LETTING_GO
        while (grown := self.memory() - before) >= most:
            assert time.monotonic() < deadline, f"{grown / MEBIBYTE:.1f} MiB more than before"
            time.sleep(0.01)

    def assert_unharmed(self, since: int = 0) -> None:
        """A normal publish and play works, and of each connection the log has one beginning, one end, and no traceback."""
        self.assert_works()
        lines = self.lines()[since:]
        for line in lines:
            assert line["level"] not in ("error", "critical"), line
            assert "Traceback" not in str(line), line
        for event in ("connection_opened", "connection_closed"):
            named = Counter(line["connection"] for line in lines if line.get("event") == event)
            assert not [name for name, count in named.items() if count > 1], "one line for each"

    def publish(self, name: str) -> BlockingClient:
        """A well-behaved encoder that publishes."""
        encoder = BlockingClient(self.port)
        encoder.session.publish(f"{name}?key={KEY}")
        encoder.wait(PublishAccepted)
        encoder.send(*start_frames(), *group(0))
        return encoder

    def assert_works(self) -> None:
        """Frames that go in come out."""
        name = f"normal-{time.monotonic_ns()}"
        encoder = self.publish(name)
        player = BlockingClient(self.port)
        player.session.play(f"{name}?key={KEY}")
        player.wait(PlayAccepted)
        got: list[MediaFrame] = []
        encoder.send(*group(400))
        frames = [*start_frames(), *group(0), *group(400)]
        while len(got) < len(frames):
            got = [
                frame for event in player.events if isinstance(event, MediaReceived) for frame in event.frames
            ]
            if len(got) < len(frames):
                data = player.socket.recv(65536)
                assert data, "the server closed the player's connection"
                player.events += player.session.receive_data(data, 0.0)
        assert got == frames
        encoder.socket.close()
        player.socket.close()

    def assert_keeps_secrets(self) -> None:
        """The key is nowhere: not in the log, an event, an answer, a metric or a file's name.

        Of a client that was broken the key may have become a part of what it calls the stream, the application or a
        command; there it cannot be told from a name, and is let pass.
        """
        for page, answer in self.pages().items():
            assert MARK not in answer, page
        for path in self.folder.rglob("*"):
            assert MARK.decode() not in path.name
        for line in [*self.lines(), *self._events()]:
            named = [str(line.get(field, "")) for field in _NAMED_BY_CLIENTS]
            rest = {name: value for name, value in line.items() if name not in _NAMED_BY_CLIENTS}
            assert MARK.decode() not in json.dumps(rest), line
            assert not any(MARK.decode() in text and "?" in text for text in named[:2]), named

    def _events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "events.jsonl").read_text().splitlines()]

    def stop(self) -> None:
        """End it; it must still be able to."""
        assert self.server.stop()
