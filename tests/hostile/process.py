"""The server that is attacked, and what can be seen of it from outside."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from rtmprelay.media import MediaFrame
from rtmprelay.session.events import MediaReceived, PlayAccepted, PublishAccepted
from tests.helpers import group, start_frames
from tests.service.command import BlockingClient, Server, wait_for


class AttackedServer:
    """A relay in a process of its own, short of patience, that logs in JSON."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.server = Server(
            folder,
            "--log-format",
            "json",
            "--limit",
            "connection_rate_per_address=none",
            "--limit",
            "handshake_timeout=4",
            *options,
        )
        self.port = self.server.port()
        self._process = self.server.process.pid

    def connect(self) -> socket.socket:
        """A connection of which the server knows nothing yet."""
        return socket.create_connection(("127.0.0.1", self.port), 10)

    def memory(self) -> int:
        """Bytes of memory that it uses."""
        pages = int(Path(f"/proc/{self._process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def files(self) -> int:
        """How many files it has open."""
        return len(os.listdir(f"/proc/{self._process}/fd"))

    def lines(self) -> list[dict[str, Any]]:
        """Its log; a line that is no JSON fails the test."""
        return [json.loads(line) for line in self.server.text().splitlines()]

    def wait_until_alone(self, files: int) -> None:
        """Wait until all strangers are gone."""
        wait_for(lambda: self.files() <= files, "the end of all connections")

    def assert_unharmed(self) -> None:
        """No traceback, nothing logged as an error, and a normal publish and play works."""
        self.assert_works()
        for line in self.lines():
            assert line["level"] not in ("error", "critical"), line
            assert "Traceback" not in str(line), line

    def assert_works(self) -> None:
        """Frames that go in come out."""
        name = f"normal-{time.monotonic_ns()}"
        encoder = BlockingClient(self.port)
        encoder.session.publish(name)
        encoder.wait(PublishAccepted)
        frames = [*start_frames(), *group(0)]
        encoder.send(*frames)
        player = BlockingClient(self.port)
        player.session.play(name)
        player.wait(PlayAccepted)
        got: list[MediaFrame] = []
        encoder.send(*group(400))
        frames += group(400)
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

    def stop(self) -> None:
        """End it; it must still be able to."""
        assert self.server.stop()
