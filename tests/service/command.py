"""The harness of the tests that run `twistd rtmprelay` as an operator does: in processes of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from rtmprelay.config.options import Options
from rtmprelay.media import MediaFrame
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import ConnectAccepted, PublishAccepted, SessionReport, StatusReceived
from tests.helpers import DEADLINE, LOOPBACK, wait_for

TWISTD = [
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'twistd'; from twisted.scripts.twistd import run; run()",
]
TWIST = [sys.executable, "-m", "twisted"]

#: Passes an open port as file descriptor 3, as systemd does, and becomes the server.
LIKE_SYSTEMD = """
import os, sys
listening = int(sys.argv[1])
os.dup2(listening, 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_FDNAMES="rtmprelay.socket", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""

#: In the foreground, without a pid file.
FOREGROUND = ("-n", "--pidfile=")


def run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=DEADLINE, check=False)


def refusal(*options: str) -> str:
    """The error message of bad options, which must be one line. No process is started: that costs a second."""
    with pytest.raises(SystemExit) as ended:
        Options().parseOptions([*options])
    message = str(ended.value)
    assert message.startswith("rtmprelay: ")
    assert "\n" not in message
    return message


def limited(files: int | None) -> list[str]:
    """What to put before a command that may have so many files open."""
    return [] if files is None else ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"]


class Server:
    """A server in a process of its own, whose log is a file.

    Args:
        folder: Its current directory.
        of_twistd: The options in front of `rtmprelay`.
        listen: Its RTMP endpoint.
        log: The name of its log file.
        command: What to run instead of `twistd`.
        subcommand: The word in front of our options.
        pass_fds: Open files that it inherits.
        files: How many files it may have open.

    Attributes:
        host: Where it is reached.
    """

    host = "127.0.0.1"

    def __init__(
        self,
        folder: Path,
        *options: str,
        of_twistd: Sequence[str] = FOREGROUND,
        environment: Mapping[str, str] | None = None,
        listen: str = LOOPBACK,
        log: str = "out.log",
        command: Sequence[str] = TWISTD,
        subcommand: str = "rtmprelay",
        pass_fds: Sequence[int] = (),
        files: int | None = None,
    ) -> None:
        self.log = folder / log
        self._clients: list[BlockingClient] = []
        self._out = self.log.open("w")
        self.process = subprocess.Popen(
            [*limited(files), *command, *of_twistd, subcommand, "--listen", listen, *options],
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdout=self._out,
            stderr=subprocess.STDOUT,
            pass_fds=pass_fds,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop it, and close its clients."""
        self.stop()
        for client in self._clients:
            client.close()

    def text(self) -> str:
        """What it has logged."""
        return self.log.read_text()

    def lines(self, event: str | None = None) -> list[dict[str, Any]]:
        """The lines of its JSON log; only those of one event if it is given."""
        lines = [json.loads(line) for line in self.text().splitlines() if line.startswith("{")]
        return lines if event is None else [line for line in lines if line.get("event") == event]

    def wait_for_text(self, text: str) -> None:
        """Wait until it has logged some text."""
        wait_for(lambda: text in self.text(), f"{text!r} in the log")

    def port(self, log: Path | None = None) -> int:
        """Its RTMP port, as soon as it is open."""
        return port_in(log or self.log, self.process, host=self.host)

    def http_port(self) -> int:
        """Its HTTP port, as soon as it is open."""
        return port_in(self.log, self.process, "HTTP", self.host)

    def ask(self, method: str, path: str, document: object = None, token: str = "") -> Any:
        """Send an HTTP request; returns the document that comes back."""
        request = urllib.request.Request(
            f"http://{self.host}:{self.http_port()}{path}",
            method=method,
            data=None if document is None else json.dumps(document).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            content = answer.read()
        return json.loads(content) if content else None

    def connect(self, app: str = "live") -> BlockingClient:
        """A client whose `connect` was accepted; `close` closes it too."""
        client = BlockingClient(self.port(), app)
        self._clients.append(client)
        return client

    def send_signal(self, number: int) -> None:
        self.process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> bool:
        """Stop it. True if it stopped as Twisted does: everything is shut down, then the signal ends the process."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(DEADLINE) == -number
        finally:
            self.process.kill()
            self.process.wait()
            self._out.close()


def port_in(
    log: Path,
    process: subprocess.Popen[bytes] | None = None,
    protocol: str = "RTMP",
    host: str = "127.0.0.1",
) -> int:
    """The port of a protocol that a log says is open, in text or in JSON."""

    def found() -> re.Match[str] | None:
        if process is not None:
            assert process.poll() is None, log.read_text()
        text = log.read_text() if log.exists() else ""
        return re.search(rf"Listening on {re.escape(host)}:(\d+) for {protocol}", text)

    match = wait_for(found, f"{protocol} in {log.name}")
    assert match is not None
    return int(match[1])


class BlockingClient:
    """An RTMP client on a blocking socket.

    Args:
        where: A port of this machine, or the path of a unix socket.
    """

    def __init__(self, where: int | Path, app: str = "live", wait: bool = True) -> None:
        if isinstance(where, Path):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(DEADLINE)
            self.socket.connect(str(where))
        else:
            self.socket = socket.create_connection(("127.0.0.1", where), DEADLINE)
        self.session = ClientSession(app, f"rtmp://127.0.0.1/{app}")
        self.events: list[SessionReport] = []
        if wait:
            self.wait(ConnectAccepted)

    def receive(self, size: int = 65536) -> bool:
        """Send what the session wants to send, and read once. False at the end of the connection."""
        self.socket.sendall(self.session.bytes_to_send())
        data = self.socket.recv(size)
        self.events += self.session.receive_data(data, 0.0) if data else []
        return bool(data)

    def receive_events(self, count: int) -> None:
        """Read until the session has reported so many events, or the server closes the connection."""
        while len(self.events) < count and self.receive():
            pass

    def wait(self, *kinds: type[object]) -> None:
        """Read until the session has reported one of these events."""
        while not any(isinstance(event, kinds) for event in self.events):
            assert self.receive(), "the server closed the connection"
        self.socket.sendall(self.session.bytes_to_send())

    def publish(self, name: str) -> str:
        """Publish; returns `accepted` or the code of the refusal."""
        self.session.publish(name)
        self.wait(PublishAccepted, StatusReceived)
        (answer,) = [one for one in self.events if isinstance(one, PublishAccepted | StatusReceived)]
        return "accepted" if isinstance(answer, PublishAccepted) else answer.code

    def send(self, *frames: MediaFrame) -> None:
        for frame in frames:
            self.socket.sendall(self.session.send_media(frame))

    def close(self) -> None:
        self.socket.close()
