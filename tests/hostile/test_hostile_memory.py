"""Memory that one client can really fill: it is bounded, and is free again as soon as that client has gone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from rtmprelay.wire.messages import MessageType
from tests.helpers import inter, keyframe
from tests.hostile.conversations import KEY
from tests.hostile.process import MEBIBYTE, AttackedServer
from tests.hostile.strangers import announced, control, publishing

#: What one connection may have at once, what a read may add to it, and what Python needs beside it.
MOST_OF_ONE = (32 + 32) * MEBIBYTE

#: How often it is done. If each time left something, this would show.
TIMES = 7

#: What may be left when it has gone: less than a single frame or half a message of those that it sent.
MOST_KEPT = 2 * MEBIBYTE


def fill(server: AttackedServer, chunk_streams: int) -> None:
    """Send the first half of the largest message on one chunk stream after the other."""
    half = 8 * MEBIBYTE
    with publishing(server, f"filling?key={KEY}") as stranger, suppress(ConnectionError):
        stranger.sendall(control(MessageType.SET_CHUNK_SIZE, half.to_bytes(4)))
        for number in range(8, 8 + chunk_streams):
            stranger.sendall(announced(number, 0xFFFFFF, half))


def fill_cache(server: AttackedServer) -> None:
    """Publish pictures that all lean on one keyframe, so that all are kept for late joiners."""
    encoder = server.publish("cache")
    encoder.send(keyframe(1000), *(inter(1000 + number, 4 * MEBIBYTE) for number in range(7)))
    encoder.socket.close()


WAYS: dict[str, Callable[[AttackedServer], None]] = {
    "over the limit": lambda server: fill(server, 8),
    "leaves before": lambda server: fill(server, 3),
    "publishes": fill_cache,
}


@pytest.mark.parametrize("way", WAYS)
def test_memory_that_a_client_filled_is_free_after_it_has_gone(way: str, tmp_path: Path) -> None:
    server = AttackedServer(tmp_path)
    try:
        server.assert_works()
        before, files = server.memory(), server.files()
        for _ in range(TIMES):
            WAYS[way](server)
            server.wait_until_alone(files)
            # Each time: sooner or later Python's collector would find what nobody let go of.
            server.assert_no_larger(before, MOST_KEPT)
        assert server.most_memory() - before < MOST_OF_ONE
        server.assert_unharmed()
        if way == "over the limit":
            assert server.offences() == {"assembly_size": TIMES}
    finally:
        server.stop()
