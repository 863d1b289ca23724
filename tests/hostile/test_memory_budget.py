"""Publishers with large keyframes and players that do not read, all at once, under a memory budget: the figures."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rtmprelay.media import MediaFrame
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import ConnectAccepted, PlayAccepted, PublishAccepted, StatusReceived
from tests.helpers import inter, keyframe, start_frames, wait_for
from tests.hostile.conversations import KEY
from tests.hostile.process import MEBIBYTE, AttackedServer

#: What the process may use beside the budget: the interpreter, its modules, and what the allocator has not given back.
_BESIDE = 1.17


class Talker:
    """A client of RTMP on asyncio."""

    def __init__(self, port: int) -> None:
        self.session = ClientSession("live", f"rtmp://127.0.0.1:{port}/live")
        self._port = port
        self.refused = False

    async def ask(self, name: str, play: bool) -> bool:
        """Publish or play; whether that was allowed."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**16)
        asked = False
        while True:
            self.writer.write(self.session.bytes_to_send())
            data = await self.reader.read(65536)
            if not data:
                return False
            for report in self.session.receive_data(data, 0.0):
                if isinstance(report, ConnectAccepted) and not asked:
                    asked = True
                    (self.session.play if play else self.session.publish)(f"{name}?key={KEY}")
                if isinstance(report, PublishAccepted | PlayAccepted):
                    return True
                if isinstance(report, StatusReceived) and report.level == "error":
                    return False

    async def send(self, frames: list[MediaFrame]) -> None:
        self.writer.write(b"".join(self.session.send_media(frame) for frame in frames))
        await self.writer.drain()

    async def leave(self) -> None:
        """Close, once the server has everything: with answers unread the kernel would reset the connection instead."""
        self.writer.write_eof()
        while await self.reader.read(65536):
            pass
        self.writer.close()
        await self.writer.wait_closed()


def ended(server: AttackedServer) -> list[dict[str, Any]]:
    """The ends of all publishes of the test."""
    return [
        line
        for line in server.lines()
        if line.get("event") == "publish_stopped" and line["stream"].startswith("live/cam")
    ]


def memory(server: AttackedServer) -> dict[str, Any]:
    """The memory part of /health."""
    told: dict[str, Any] = json.loads(server.page("/health").partition(b"\n\n")[2])["memory"]
    return told


def is_free_again(server: AttackedServer) -> bool:
    """Whether nothing is scarce, with room for more than one publisher: the share that ends scarcity is close to it."""
    now = memory(server)
    return bool(now["scarcity"] == "none" and now["used"] < now["budget"] // 4)


@pytest.mark.parametrize(
    ("publishers", "players", "budget", "size"),
    [(30, 60, 48, 400_000), pytest.param(200, 500, 512, 1_000_000, marks=pytest.mark.full)],
    ids=["some", "two hundred"],
)
def test_publishers_that_were_taken_stay_whole_and_memory_under_its_bound(
    publishers: int, players: int, budget: int, size: int, tmp_path: Path
) -> None:
    server = AttackedServer(
        tmp_path,
        *("--limit", f"memory_budget={budget}M"),
        *("--limit", "stall_timeout=60", "--limit", "idle_timeout=60"),
    )

    async def run() -> tuple[int, int]:
        encoders = [Talker(server.port) for _ in range(publishers)]
        allowed = await asyncio.gather(
            *(encoder.ask(f"cam{number}", False) for number, encoder in enumerate(encoders))
        )
        taken = [(number, encoder) for number, encoder in enumerate(encoders) if allowed[number]]
        first = [encoder.send([*start_frames(), keyframe(0, size)]) for _, encoder in taken]
        await asyncio.gather(*first)
        watchers = [Talker(server.port) for _ in range(players)]
        # They never read again after the answer, as far as their sockets go.
        await asyncio.gather(
            *(
                watcher.ask(f"cam{taken[number % len(taken)][0]}", True)
                for number, watcher in enumerate(watchers)
            )
        )
        for second in range(1, 5):
            frames = [
                keyframe(second * 1_000, size),
                *(inter(second * 1_000 + at, size // 20) for at in (200, 400, 600)),
            ]
            await asyncio.gather(*(encoder.send(frames) for _, encoder in taken))
        await asyncio.gather(*(encoder.leave() for _, encoder in taken))
        for watcher in watchers:
            watcher.writer.transport.abort()
        return len(taken), 4 + len(start_frames()) + 3 * 4 + 1

    try:
        server.assert_works()
        start = server.memory()
        taken, messages = asyncio.run(run())
        assert b"rtmprelay_memory_used_bytes" in server.page("/metrics")
        most = server.most_memory()
        wait_for(lambda: len(ended(server)) == taken, "the end of all publishes")
        stopped = ended(server)
        received = sum(line["messages"] for line in stopped)
        sys.stdout.write(
            f"\nbudget {budget} MiB: {taken} of {publishers} publishers taken, {players} stalled players,"
            f" at most {most / MEBIBYTE:.0f} MiB of memory ({start / MEBIBYTE:.0f} before)\n"
        )
        assert taken > 0
        assert not server.offences(), "nobody who was taken is cut off"
        assert received == taken * messages, "nothing is missing of what they sent"
        assert most - start < budget * MEBIBYTE * _BESIDE
        wait_for(lambda: is_free_again(server), "memory when all have gone")
        server.assert_unharmed()
    finally:
        server.stop()
