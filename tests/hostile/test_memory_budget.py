"""Publishers with large keyframes and players that do not read, all at once, under a memory budget: the figures."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from rtmprelay.media import MediaFrame
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import ConnectAccepted, PlayAccepted, PublishAccepted, StatusReceived
from tests.helpers import inter, keyframe, start_frames, wait_for
from tests.hostile.cgroup import memory_group
from tests.hostile.conversations import KEY
from tests.hostile.process import MEBIBYTE, PATIENT, AttackedServer

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


@attrs.frozen
class Load:
    """Who comes, and the budget in MiB."""

    publishers: int
    players: int
    budget: int
    keyframe: int

    @property
    def messages(self) -> int:
        """What each publisher sends: its headers, a keyframe, and four seconds of others."""
        return len(start_frames()) + 1 + 4 * 4


SOME = Load(30, 60, 48, 400_000)
TWO_HUNDRED = Load(200, 500, 512, 1_000_000)


async def crowd(server: AttackedServer, load: Load) -> int:
    """Publishers with large keyframes, and players that do not read; how many publishers were taken."""
    encoders = [Talker(server.port) for _ in range(load.publishers)]
    allowed = await asyncio.gather(
        *(encoder.ask(f"cam{number}", False) for number, encoder in enumerate(encoders))
    )
    taken = [(number, encoder) for number, encoder in enumerate(encoders) if allowed[number]]
    size = load.keyframe
    await asyncio.gather(*(encoder.send([*start_frames(), keyframe(0, size)]) for _, encoder in taken))
    watchers = [Talker(server.port) for _ in range(load.players)]
    # They never read again after the answer, as far as their sockets go.
    await asyncio.gather(
        *(watcher.ask(f"cam{taken[number % len(taken)][0]}", True) for number, watcher in enumerate(watchers))
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
    return len(taken)


def assert_budget_holds(server: AttackedServer, load: Load, what: str) -> None:
    """Memory stays under its bound, and every publisher that was taken is whole."""
    server.assert_works()
    start = server.memory()
    taken = asyncio.run(crowd(server, load))
    assert b"rtmprelay_memory_used_bytes" in server.page("/metrics")
    most = server.most_memory()
    wait_for(lambda: len(ended(server)) == taken, "the end of all publishes")
    received = sum(line["messages"] for line in ended(server))
    sys.stdout.write(
        f"\n{what}: {taken} of {load.publishers} publishers taken, {load.players} stalled players,"
        f" at most {most / MEBIBYTE:.0f} MiB of memory ({start / MEBIBYTE:.0f} before)\n"
    )
    assert taken > 0
    assert not server.offences(), "nobody who was taken is cut off"
    assert received == taken * load.messages, "nothing is missing of what they sent"
    assert most - start < load.budget * MEBIBYTE * _BESIDE
    wait_for(lambda: is_free_again(server), "memory when all have gone")
    server.assert_unharmed()


@pytest.mark.parametrize(
    "load", [SOME, pytest.param(TWO_HUNDRED, marks=pytest.mark.full)], ids=["some", "two hundred"]
)
def test_publishers_that_were_taken_stay_whole_and_memory_under_its_bound(load: Load, tmp_path: Path) -> None:
    server = AttackedServer(tmp_path, *PATIENT, "--limit", f"memory_budget={load.budget}M")
    try:
        assert_budget_holds(server, load, f"budget {load.budget} MiB")
    finally:
        server.stop()


@pytest.mark.full
def test_kernel_ends_nothing_in_a_cgroup_of_600_mib_with_a_budget_of_512(tmp_path: Path) -> None:
    with memory_group(600 * MEBIBYTE) as group:
        server = AttackedServer(
            tmp_path, *PATIENT, "--limit", f"memory_budget={TWO_HUNDRED.budget}M", before=group.command
        )
        try:
            assert_budget_holds(server, TWO_HUNDRED, "cgroup of 600 MiB, budget 512 MiB")
            sys.stdout.write(f"the cgroup used {group.most_used() / MEBIBYTE:.0f} MiB at most\n")
            assert group.kills() == 0
        finally:
            server.stop()


def test_without_a_budget_half_of_the_cgroup_is_used_and_the_kernel_ends_nothing(tmp_path: Path) -> None:
    with memory_group(192 * MEBIBYTE) as group:
        server = AttackedServer(tmp_path, *PATIENT, before=group.command)
        try:
            found = json.loads(server.page("/health").partition(b"\n\n")[2])["memory"]
            assert found["budget"] == 96 * MEBIBYTE
            load = attrs.evolve(SOME, budget=96)
            assert_budget_holds(server, load, "cgroup of 192 MiB, no option")
            sys.stdout.write(f"the cgroup used {group.most_used() / MEBIBYTE:.0f} MiB at most\n")
            assert group.kills() == 0
        finally:
            server.stop()
