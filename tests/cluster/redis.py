"""A Redis server of a test's own: started on a free port, ended by its id."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Self

import pytest

from tests.helpers import free_port, wait_for

PROGRAM = shutil.which("redis-server")

needs_redis = pytest.mark.skipif(
    PROGRAM is None, reason="there is no redis-server: apt-get install redis-server"
)


class RedisServer:
    """Redis on loopback, without a disk."""

    def __init__(self, folder: Path, *options: str, port: int | None = None) -> None:
        assert PROGRAM is not None
        self._more = ("--appendonly", "no", "--dir", str(folder), *options)
        self.port = port or free_port()
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [str(PROGRAM), "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", *self._more],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self._answers, "Redis")
        return process

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as link:
            link.sendall(b"PING\r\n")
            return link.recv(100) != b""
        return False

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def commands(self) -> int:
        """How many commands it has run."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as link:
            link.sendall(b"INFO stats\r\n")
            text = b""
            while b"total_commands_processed:" not in text or b"\r\n" not in text.partition(b"processed:")[2]:
                text += link.recv(65536)
        return int(text.partition(b"total_commands_processed:")[2].partition(b"\r\n")[0])

    def tell(self, *commands: str) -> None:
        """Run commands, whose words hold no space, on a connection of its own; none may fail."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as link, link.makefile("rb") as answers:
            for command in commands:
                words = [word.encode().strip(b"'") for word in command.split(" ")]
                parts = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
                link.sendall(b"*%d\r\n%s" % (len(words), parts))
                answer = answers.readline()
                assert answer[:1] in b"+:", (command, answer)

    def freeze(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it at once; what it knew is gone."""
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        """Start it again, empty, on the same port."""
        self.process = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.thaw()
        self.kill()
