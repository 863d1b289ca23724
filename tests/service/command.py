"""Running the command as an operator does, in processes of their own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rtmprelay.media import MediaFrame
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import ConnectAccepted, SessionReport

DEADLINE = 20.0

LOOPBACK = "tcp:0:interface=127.0.0.1"

TWISTD = [
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'twistd'; from twisted.scripts.twistd import run; run()",
]
TWIST = [sys.executable, "-m", "twisted"]


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE, check=False)


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.01)


class Server:
    """A server in a process of its own, which writes its log to a file."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        of_twistd: tuple[str, ...] = ("-n", "--pidfile="),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log = folder / "out.log"
        self._out = self.log.open("w")
        command = [*TWISTD, *of_twistd, "rtmprelay", "--listen", LOOPBACK, *options]
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdout=self._out,
            stderr=subprocess.STDOUT,
        )

    def text(self) -> str:
        return self.log.read_text()

    def port(self, log: Path | None = None) -> int:
        return port_in(log or self.log, self.process)

    def stop(self, number: int = signal.SIGTERM) -> bool:
        """End it; whether it ended as Twisted does: everything stopped, then by the very signal that asked for it."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(DEADLINE) == -number
        finally:
            self.process.kill()
            self.process.wait()
            self._out.close()


def port_in(log: Path, process: subprocess.Popen[bytes] | None = None) -> int:
    """The port that a log says is open."""

    def found() -> re.Match[str] | None:
        if process is not None:
            assert process.poll() is None, log.read_text()
        return re.search(r"Listening on 127\.0\.0\.1:(\d+)", log.read_text() if log.exists() else "")

    wait_for(found, "listening")
    match = found()
    assert match is not None
    return int(match[1])


class BlockingClient:
    """An RTMP client on a plain socket."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self.session = ClientSession("live", "rtmp://127.0.0.1/live")
        self.events: list[SessionReport] = []
        self.wait(ConnectAccepted)

    def wait(self, kind: type[object]) -> None:
        while not any(isinstance(event, kind) for event in self.events):
            self.socket.sendall(self.session.bytes_to_send())
            data = self.socket.recv(65536)
            assert data, "the server closed the connection"
            self.events += self.session.receive_data(data, 0.0)
        self.socket.sendall(self.session.bytes_to_send())

    def send(self, *frames: MediaFrame) -> None:
        for frame in frames:
            self.socket.sendall(self.session.send_media(frame))
