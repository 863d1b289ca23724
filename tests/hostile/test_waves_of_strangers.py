"""What is left in memory when thousands of strangers have gone: room that the allocator uses again, and no objects."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest

from rtmprelay.testing import MemoryServer
from tests.helpers import wait_for
from tests.hostile.conversations import HANDSHAKE, greeting
from tests.hostile.process import MEBIBYTE, PATIENT, AttackedServer
from tests.hostile.strangers import command
from tests.hostile.test_before_permission import HALVES, connected_at_once

#: What the last waves may add to the first two. How much room is used again differs by some MiB from run to run; if only a
#: tenth of what each stranger had were kept, it would be more than this.
MOST_ADDED = 16 * MEBIBYTE

#: Bytes of Python objects that may be left of each stranger of a wave in memory.
MOST_LEFT_OF_ONE = 100


def wave(server: AttackedServer, count: int) -> int:
    """Strangers come, keep half messages, and go; bytes of memory after that."""
    strangers = connected_at_once(server, count)
    for stranger in strangers:
        with suppress(OSError):
            stranger.sendall(HALVES)
    server.assert_works()
    for stranger in strangers:
        stranger.close()
    wait_for(lambda: server.figure("rtmprelay_connections") == 0, "the end of all connections", 120)
    return server.memory()


@pytest.mark.parametrize(
    "count", [220, pytest.param(2_000, marks=pytest.mark.full)], ids=["some", "very many"]
)
def test_later_waves_of_strangers_use_the_room_of_the_first_one(count: int, tmp_path: Path) -> None:
    server = AttackedServer(tmp_path, *PATIENT)
    try:
        server.assert_works()
        before = server.memory()
        after = [wave(server, count) for _ in range(5)]
        sys.stdout.write(
            f"\n{count} strangers five times: {before / MEBIBYTE:.0f} MiB before,"
            f" {', '.join(f'{size / MEBIBYTE:.0f}' for size in after)} MiB after each wave\n"
        )
        assert min(after[3:]) - max(after[:2]) <= MOST_ADDED
    finally:
        server.stop()


def visit(server: MemoryServer, count: int) -> None:
    """Strangers come, one third of them with a half message, one with a wrong command, and go."""
    clients = [server.open() for _ in range(count)]
    pieces = (
        greeting(),
        greeting() + HALVES[:30_000],
        greeting()[:HANDSHAKE] + command("publish", 1.0, None, "x"),
    )
    for number, client in enumerate(clients):
        assert client is not None
        client.protocol.dataReceived(pieces[number % len(pieces)])
    server.pump()
    for client in clients:
        assert client is not None
        if not client.lost:
            client.lose()
    server.advance(20)
    server.events.clear()


def test_no_object_of_a_stranger_is_left() -> None:
    server = MemoryServer()
    tracemalloc.start()
    try:
        # Tables grow to the size that they keep.
        visit(server, 300)
        visit(server, 300)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        visit(server, 300)
        gc.collect()
        left = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    sys.stdout.write(f"\n300 strangers left {left} bytes of Python objects\n")
    assert left <= 300 * MOST_LEFT_OF_ONE
