"""The chunk reader with bytes made by hand, split at every position."""

from __future__ import annotations

import attrs
import pytest

from rtmprelay.errors import RemoteProtocolError
from rtmprelay.wire.chunks import ChunkReader, RawMessage
from tests.wire.chunk_bytes import (
    AUDIO,
    VIDEO,
    abort,
    bare,
    basic_header,
    control,
    every_way_to_split,
    feed_all,
    full,
    medium,
    pattern,
    set_chunk_size,
    short,
)


@attrs.frozen
class Vector:
    """Bytes, and the messages that they contain."""

    name: str
    data: bytes
    messages: list[RawMessage]


def video(time: int, payload: bytes, stream_id: int = 1) -> RawMessage:
    return RawMessage(VIDEO, time, stream_id, payload)


def audio(time: int, payload: bytes, stream_id: int = 1) -> RawMessage:
    return RawMessage(AUDIO, time, stream_id, payload)


LONG = pattern(300)
#: Three chunks of the default size.
FIRST, SECOND, THIRD = LONG[:128], LONG[128:256], LONG[256:]
BIG = 0x01020304
OTHER_LONG = pattern(200, start=99)

BASIC_HEADERS = [
    Vector(
        f"chunk stream {csid}",
        full(csid, 7, 300) + FIRST + bare(csid) + SECOND + bare(csid) + THIRD,
        [video(7, LONG)],
    )
    for csid in (2, 63, 64, 319, 320, 65599)
]

FORMATS = [
    Vector("format 0", full(4, 1000, 3, AUDIO, 0x01020304) + b"abc", [audio(1000, b"abc", 0x01020304)]),
    Vector(
        "formats 0, 1, 2, 3",
        full(4, 1000, 3) + b"abc" + medium(4, 20, 2, AUDIO) + b"de" + short(4, 30) + b"fg" + bare(4) + b"hi",
        [video(1000, b"abc"), audio(1020, b"de"), audio(1050, b"fg"), audio(1080, b"hi")],
    ),
    Vector(
        # As in the specification, 5.3.1.2.4, and in FFmpeg.
        "format 3 after format 0 repeats the absolute field",
        full(4, 1000, 3) + b"abc" + bare(4) + b"def" + bare(4) + b"ghi",
        [video(1000, b"abc"), video(2000, b"def"), video(3000, b"ghi")],
    ),
    Vector(
        "format 3 continues a long message and begins the next",
        full(4, 0, 1)
        + b"x"
        + medium(4, 40, 129)
        + LONG[:128]
        + bare(4)
        + b"y"
        + bare(4)
        + FIRST
        + bare(4)
        + b"z",
        [video(0, b"x"), video(40, FIRST + b"y"), video(80, FIRST + b"z")],
    ),
    Vector(
        "one chunk stream in all three basic header sizes",
        full(64, 1, 300)
        + FIRST
        + basic_header(3, 64, size=3)
        + SECOND
        + basic_header(3, 64, size=2)
        + THIRD
        + basic_header(3, 64, size=3)
        + FIRST
        + basic_header(3, 64, size=3)
        + SECOND
        + basic_header(3, 64, size=3)
        + THIRD,
        [video(1, LONG), video(2, LONG)],
    ),
    Vector(
        "zero length",
        full(4, 5, 0) + medium(4, 5, 0, AUDIO) + bare(4),
        [video(5, b""), audio(10, b""), audio(15, b"")],
    ),
    Vector(
        "exactly one chunk", full(4, 5, 128) + FIRST + short(4, 1) + FIRST, [video(5, FIRST), video(6, FIRST)]
    ),
    Vector(
        "exactly two chunks",
        full(4, 5, 256) + FIRST + bare(4) + SECOND + short(4, 1) + FIRST + bare(4) + SECOND,
        [video(5, FIRST + SECOND), video(6, FIRST + SECOND)],
    ),
]

UNSEEN = [
    Vector(
        "format 1",
        medium(2, 50, 6, 4) + b"\x00\x07\x00\x00\x00\x01",
        [RawMessage(4, 50, 0, b"\x00\x07\x00\x00\x00\x01")],
    ),
    Vector("format 2", short(4, 50), [RawMessage(0, 50, 0, b"")]),
    Vector("format 3", bare(4) + full(4, 1, 1) + b"x", [RawMessage(0, 0, 0, b""), video(1, b"x")]),
    Vector("format 1 with an extended delta", medium(9, BIG, 1) + b"x", [video(BIG, b"x", 0)]),
]

EXTENDED = [
    Vector("below", full(4, 0xFFFFFE, 1) + b"x", [video(0xFFFFFE, b"x")]),
    Vector("at the boundary", full(4, 0xFFFFFF, 1) + b"x", [video(0xFFFFFF, b"x")]),
    Vector("the largest", full(4, 0xFFFFFFFF, 1) + b"x", [video(0xFFFFFFFF, b"x")]),
    Vector("on a two-byte basic header", full(70, BIG, 1) + b"x", [video(BIG, b"x")]),
    Vector(
        "repeated on continuations",
        full(4, BIG, 300) + FIRST + bare(4, BIG) + SECOND + bare(4, BIG) + THIRD,
        [video(BIG, LONG)],
    ),
    Vector(
        "missing on continuations",
        full(4, BIG, 300) + FIRST + bare(4) + SECOND + bare(4) + THIRD,
        [video(BIG, LONG)],
    ),
    Vector(
        # The payload after the header begins like the missing timestamp.
        "missing, similar payload",
        full(4, BIG, 136) + FIRST + bare(4) + b"\x01\x02\x03\x05rest" + full(4, 1, 1) + b"x",
        [video(BIG, FIRST + b"\x01\x02\x03\x05rest"), video(1, b"x")],
    ),
    Vector(
        "missing, a last chunk that is shorter than the timestamp and similar",
        full(4, BIG, 130) + FIRST + bare(4) + b"\x01\x02" + full(4, 1, 1) + b"x",
        [video(BIG, FIRST + b"\x01\x02"), video(1, b"x")],
    ),
    Vector(
        "delta on format 1",
        full(4, 10, 1) + b"x" + medium(4, BIG, 300) + FIRST + bare(4, BIG) + SECOND + bare(4, BIG) + THIRD,
        [video(10, b"x"), video(BIG + 10, LONG)],
    ),
    Vector(
        "delta on format 1, absolute time on continuations",
        full(4, 10, 1) + b"x" + medium(4, BIG, 200) + FIRST + bare(4, BIG + 10) + LONG[128:200],
        [video(10, b"x"), video(BIG + 10, LONG[:200])],
    ),
    Vector(
        "delta on format 2",
        full(4, 10, 1) + b"x" + short(4, BIG) + b"y",
        [video(10, b"x"), video(BIG + 10, b"y")],
    ),
    Vector(
        "format 3 begins a message and repeats the delta",
        full(4, 10, 1) + b"x" + short(4, BIG) + b"y" + bare(4, BIG) + b"z",
        [video(10, b"x"), video(BIG + 10, b"y"), video(2 * BIG + 10, b"z")],
    ),
    Vector(
        "format 3 begins a message without the delta",
        full(4, 10, 5) + b"01234" + short(4, BIG) + b"abcde" + bare(4) + b"fghij",
        [video(10, b"01234"), video(BIG + 10, b"abcde"), video(2 * BIG + 10, b"fghij")],
    ),
    Vector(
        "gone again with the next short delta",
        full(4, BIG, 200)
        + FIRST
        + bare(4, BIG)
        + LONG[128:200]
        + short(4, 1)
        + FIRST
        + bare(4)
        + LONG[128:200],
        [video(BIG, LONG[:200]), video(BIG + 1, LONG[:200])],
    ),
]

WRAPPING = [
    Vector(
        "by a short delta",
        full(4, 0xFFFFFFF0, 1) + b"x" + short(4, 0x20) + b"y" + bare(4) + b"z",
        [video(0xFFFFFFF0, b"x"), video(0x10, b"y"), video(0x30, b"z")],
    ),
    Vector(
        "by an extended delta",
        full(4, 100, 1) + b"x" + short(4, 0xFFFFFFFF) + b"y",
        [video(100, b"x"), video(99, b"y")],
    ),
]

CHUNK_SIZES = [
    Vector(
        "one byte",
        set_chunk_size(1) + full(4, 0, 3) + b"a" + bare(4) + b"b" + bare(4) + b"c",
        [video(0, b"abc")],
    ),
    Vector(
        "127", set_chunk_size(127) + full(4, 0, 128) + FIRST[:127] + bare(4) + FIRST[127:], [video(0, FIRST)]
    ),
    Vector("128", set_chunk_size(128) + full(4, 0, 130) + FIRST + bare(4) + b"de", [video(0, FIRST + b"de")]),
    Vector("4096", set_chunk_size(4096) + full(4, 0, 300) + LONG, [video(0, LONG)]),
    Vector("65536", set_chunk_size(65536) + full(4, 0, 300) + LONG, [video(0, LONG)]),
    Vector("the largest", set_chunk_size(2**31 - 1) + full(4, 0, 300) + LONG, [video(0, LONG)]),
    Vector(
        "in the middle of a stream",
        full(4, 0, 129) + FIRST + bare(4) + b"x" + set_chunk_size(200) + short(4, 1) + FIRST + b"x",
        [video(0, FIRST + b"x"), video(1, FIRST + b"x")],
    ),
    Vector(
        "larger between the chunks of another stream's message",
        full(4, 0, 300) + FIRST + set_chunk_size(200) + bare(4) + SECOND + THIRD,
        [video(0, LONG)],
    ),
    Vector(
        "smaller between the chunks of another stream's message",
        full(4, 0, 300) + FIRST + set_chunk_size(100) + bare(4) + LONG[128:228] + bare(4) + LONG[228:],
        [video(0, LONG)],
    ),
    Vector(
        "in chunks itself",
        set_chunk_size(2) + full(2, 0, 4, 1, 0) + b"\0\0" + bare(2) + b"\1\0" + full(4, 0, 3) + b"abc",
        [video(0, b"abc")],
    ),
]

INTERLEAVED = [
    Vector(
        "two chunk streams",
        full(4, 1, 300)
        + FIRST
        + full(6, 2, 200, AUDIO)
        + OTHER_LONG[:128]
        + bare(4)
        + SECOND
        + bare(6)
        + OTHER_LONG[128:]
        + bare(4)
        + THIRD,
        [audio(2, OTHER_LONG), video(1, LONG)],
    ),
    Vector(
        "a whole message between two chunks",
        full(4, 1, 200) + FIRST + full(6, 2, 3, AUDIO) + b"abc" + bare(4) + LONG[128:200],
        [audio(2, b"abc"), video(1, LONG[:200])],
    ),
]

#: Ids that a reader would confuse if it swapped the two bytes of the longest form.
ALIKE = (64, 65, 192, 319, 320, 321, 448, 576, 65343, 65599)
INTERLEAVED.append(
    Vector(
        "similar chunk stream ids",
        b"".join(full(csid, csid, 130) + FIRST for csid in ALIKE)
        + b"".join(bare(csid) + b"xy" for csid in ALIKE),
        [video(csid, FIRST + b"xy") for csid in ALIKE],
    )
)

ABANDONED = [
    Vector("abort", full(4, 9, 300) + FIRST + abort(4) + full(4, 1, 1) + b"x", [video(1, b"x")]),
    Vector(
        "abort, then format 3 begins anew",
        full(4, 9, 200) + FIRST + abort(4) + bare(4) + FIRST + bare(4) + LONG[128:200],
        [video(18, LONG[:200])],
    ),
    Vector("abort of an unknown chunk stream", abort(77) + full(4, 1, 1) + b"x", [video(1, b"x")]),
    Vector("abort of its own chunk stream", abort(2) + full(4, 1, 1) + b"x", [video(1, b"x")]),
    Vector(
        "abort of a finished message",
        full(4, 1, 1) + b"x" + abort(4) + bare(4) + b"y",
        [video(1, b"x"), video(2, b"y")],
    ),
    Vector(
        "abort leaves other chunk streams alone",
        full(4, 9, 200) + FIRST + full(6, 2, 200) + FIRST + abort(4) + bare(6) + LONG[128:200],
        [video(2, LONG[:200])],
    ),
    Vector("a new full header", full(4, 9, 300) + FIRST + full(4, 1, 1) + b"x", [video(1, b"x")]),
    Vector("a new medium header", full(4, 9, 300) + FIRST + medium(4, 1, 1) + b"x", [video(10, b"x")]),
    Vector(
        "a new short header",
        full(4, 9, 200) + FIRST + short(4, 1) + FIRST + bare(4) + LONG[128:200],
        [video(10, LONG[:200])],
    ),
]

VECTORS = [
    *BASIC_HEADERS,
    *(attrs.evolve(vector, name=f"unseen chunk stream: {vector.name}") for vector in UNSEEN),
    *FORMATS,
    *(attrs.evolve(vector, name=f"extended: {vector.name}") for vector in EXTENDED),
    *(attrs.evolve(vector, name=f"wrap: {vector.name}") for vector in WRAPPING),
    *(attrs.evolve(vector, name=f"chunk size: {vector.name}") for vector in CHUNK_SIZES),
    *(attrs.evolve(vector, name=f"interleaved: {vector.name}") for vector in INTERLEAVED),
    *(attrs.evolve(vector, name=f"abandoned: {vector.name}") for vector in ABANDONED),
]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_messages_are_the_same_however_the_bytes_are_split(vector: Vector) -> None:
    for pieces in every_way_to_split(vector.data):
        assert feed_all(ChunkReader(), pieces) == vector.messages


def test_short_header_on_an_unseen_chunk_stream_is_no_error() -> None:
    # Without a length the payload is read as more headers; the reader tolerates that.
    reader = ChunkReader()
    assert reader.feed(bytes.fromhex("84 000021"))[0] == RawMessage(0, 33, 0, b"")


def test_reader_does_not_wait_for_a_timestamp_that_cannot_follow() -> None:
    # A peer that omits the extended timestamp: its last chunk is shorter than a timestamp, and nothing may follow.
    reader = ChunkReader()
    reader.feed(full(4, BIG, 130) + FIRST)
    assert reader.feed(bare(4) + b"xy") == [video(BIG, FIRST + b"xy")]


# -- Set Chunk Size and Abort ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 2**31, 2**32 - 1])
def test_chunk_sizes_outside_the_range_are_refused(size: int) -> None:
    with pytest.raises(RemoteProtocolError, match="chunk size"):
        ChunkReader().feed(set_chunk_size(size))


@pytest.mark.parametrize(("announced", "used"), [(1, 1), (128, 128), (65536, 65536), (2**31 - 1, 0xFFFFFF)])
def test_chunk_size_is_the_announced_one_up_to_the_longest_message(announced: int, used: int) -> None:
    reader = ChunkReader()
    reader.feed(set_chunk_size(announced))
    assert reader.chunk_size == used


@pytest.mark.parametrize("type_id", [1, 2], ids=["set chunk size", "abort"])
@pytest.mark.parametrize("length", range(4))
def test_truncated_set_chunk_size_and_abort_are_refused(type_id: int, length: int) -> None:
    with pytest.raises(RemoteProtocolError, match="instead of 4"):
        ChunkReader().feed(full(2, 0, length, type_id, 0) + bytes(length))


@pytest.mark.parametrize("type_id", [3, 4, 5, 6, 20, 0, 255])
def test_other_messages_are_returned(type_id: int) -> None:
    assert ChunkReader().feed(control(type_id, 5)) == [RawMessage(type_id, 0, 0, b"\0\0\0\5")]


def test_empty_read_changes_nothing() -> None:
    reader = ChunkReader()
    data = full(4, 1, 3) + b"abc"
    pieces = [piece for byte in data for piece in (bytes([byte]), b"")]
    assert feed_all(reader, pieces) == [video(1, b"abc")]
