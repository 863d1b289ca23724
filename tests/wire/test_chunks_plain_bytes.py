"""The chunk reader with bytes written out: no helper is used that could share a mistake with the reader."""

from __future__ import annotations

import pytest

from rtmprelay.wire.chunks import ChunkReader
from tests.wire.chunk_bytes import every_way_to_split, feed_all
from tests.wire.test_chunks import Vector, audio, video


def counting(first: int, count: int) -> bytes:
    return bytes((first + index) % 256 for index in range(count))


PLAIN = [
    Vector(
        "full header, audio",
        bytes.fromhex("04 0003e8 000040 08 01000000") + counting(0, 64),
        [audio(1000, counting(0, 64))],
    ),
    Vector(
        "medium header on an unseen chunk stream",
        bytes.fromhex("46 000028 000050 09") + counting(0xA0, 80),
        [video(40, counting(0xA0, 80), 0)],
    ),
    Vector(
        "short header takes length and type from before",
        bytes.fromhex("04 0003e8 000040 08 01000000")
        + counting(0, 64)
        + bytes.fromhex("84 000021")
        + counting(0x40, 64),
        [audio(1000, counting(0, 64)), audio(1033, counting(0x40, 64))],
    ),
    Vector(
        "bare header takes all from before",
        bytes.fromhex("06 000000 000080 09 01000000 ")
        + counting(0x40, 128)
        + bytes.fromhex("86 000014")
        + counting(0x80, 128)
        + bytes.fromhex("c6")
        + counting(0xC0, 128),
        [video(0, counting(0x40, 128)), video(20, counting(0x80, 128)), video(40, counting(0xC0, 128))],
    ),
    Vector(
        "extended timestamp",
        bytes.fromhex("04 ffffff 000040 08 01000000 01312d00") + counting(0x80, 64),
        [audio(20_000_000, counting(0x80, 64))],
    ),
    Vector(
        "audio and video in turns",
        bytes.fromhex("04 0007d0 000100 08 01000000")
        + counting(0, 128)
        + bytes.fromhex("06 0007d0 000100 09 01000000")
        + counting(0x90, 128)
        + bytes.fromhex("c4")
        + counting(0x80, 128)
        + bytes.fromhex("c6")
        + counting(0x10, 128),
        [audio(2000, counting(0, 256)), video(2000, counting(0x90, 256))],
    ),
]


@pytest.mark.parametrize("vector", PLAIN, ids=lambda vector: vector.name)
def test_messages_are_read_from_plain_bytes(vector: Vector) -> None:
    for pieces in every_way_to_split(vector.data):
        assert feed_all(ChunkReader(), pieces) == vector.messages
