"""What a peer can cost the chunk reader: memory, chunk streams, and work."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType

import attrs
import pytest

from rtmprelay.errors import LimitExceededError
from rtmprelay.wire.chunks import ChunkReader
from rtmprelay.wire.limits import LARGEST_MESSAGE_LENGTH, ConnectionLimits
from tests.wire.chunk_bytes import abort, bare, feed_all, full, medium, pattern, set_chunk_size, short

LIMITS = ConnectionLimits(message_size=1000, assembly_size=500, chunk_streams=3)
CHUNK = pattern(128)


def assert_exceeds(limit: str, pieces: list[bytes], sentence: str = "") -> None:
    reader = ChunkReader(LIMITS)
    feed_all(reader, pieces[:-1])
    with pytest.raises(LimitExceededError) as caught:
        reader.feed(pieces[-1])
    assert caught.value.limit == limit
    assert limit in {field.name for field in attrs.fields(ConnectionLimits)}
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("header", [full(4, 0, 1001), medium(4, 0, 1001)], ids=["full", "medium"])
def test_too_large_message_is_refused_at_its_header(header: bytes) -> None:
    assert_exceeds("message_size", [header], "a message of 1001 bytes is over 1000 (limit: message_size)")


def test_message_of_the_largest_size_is_accepted() -> None:
    reader = ChunkReader(attrs.evolve(LIMITS, assembly_size=1000))
    reader.feed(set_chunk_size(1000))
    (message,) = reader.feed(full(4, 0, 1000) + pattern(1000))
    assert message.payload == pattern(1000)


def test_default_limits_accept_the_longest_message_of_the_wire_format() -> None:
    reader = ChunkReader()
    reader.feed(set_chunk_size(2**31 - 1))
    payload = bytes(LARGEST_MESSAGE_LENGTH)
    half = len(payload) // 2
    (message,) = feed_all(reader, [full(4, 0, len(payload)), payload[:half], payload[half:]])
    assert len(message.payload) == LARGEST_MESSAGE_LENGTH


def test_unfinished_messages_of_all_chunk_streams_count_together() -> None:
    three = [full(csid, 0, 256) + CHUNK for csid in (3, 4, 5)]
    sentence = "over 500 bytes of unfinished messages (limit: assembly_size)"
    assert_exceeds("assembly_size", [*three, bare(3) + CHUNK[:117]], sentence)


def test_reader_that_forgets_begins_with_an_empty_assembly_at_a_header() -> None:
    reader = ChunkReader(LIMITS)
    feed_all(reader, [full(csid, 0, 256) + CHUNK for csid in (3, 4, 5)])
    reader.feed(full(3, 0, 100)[:7])
    reader.forget()
    # As much as the limit allows, on other chunk streams than before, and from the first byte of a header.
    feed_all(reader, [full(csid, 0, 244) + CHUNK for csid in (6, 7, 8)])
    (message,) = reader.feed(bare(6) + CHUNK[:116])
    assert message.payload == CHUNK + CHUNK[:116]


def test_unfinished_messages_up_to_the_limit_are_kept() -> None:
    reader = ChunkReader(LIMITS)
    feed_all(reader, [full(csid, 0, 244) + CHUNK for csid in (3, 4, 5)])
    (message,) = reader.feed(bare(3) + CHUNK[:116])
    assert len(message.payload) == 244


def test_run_of_chunks_counts_as_unfinished() -> None:
    assert_exceeds("assembly_size", [full(4, 0, 1000) + CHUNK + (bare(4) + CHUNK) * 3])


@pytest.mark.parametrize("header", [full(6, 0, 0), medium(6, 0, 0), short(6, 0), bare(6)], ids=range(4))
def test_chunk_streams_over_the_limit_are_refused(header: bytes) -> None:
    assert_exceeds("chunk_streams", [full(3, 0, 0) + full(4, 0, 0) + full(5, 0, 0) + bare(4), header])


ABANDON: dict[str, Callable[[], bytes]] = {
    "full header": lambda: full(4, 0, 1000),
    "medium header": lambda: medium(4, 0, 1000),
    "short header": lambda: short(4, 0),
    "abort": lambda: abort(4) + bare(4),
}


@pytest.mark.parametrize("abandon", ABANDON.values(), ids=ABANDON)
def test_abandoned_message_does_not_count(abandon: Callable[[], bytes]) -> None:
    reader = ChunkReader(LIMITS)
    reader.feed(full(4, 0, 1000) + CHUNK + bare(4) + CHUNK)
    for _ in range(10):
        reader.feed(abandon() + CHUNK + bare(4) + CHUNK)
    reader.feed(bare(4) + CHUNK)
    with pytest.raises(LimitExceededError):
        reader.feed(bare(4) + CHUNK)


def test_finished_message_does_not_count() -> None:
    reader = ChunkReader(LIMITS)
    message = full(4, 0, 400) + CHUNK + (bare(4) + CHUNK) * 2 + bare(4) + CHUNK[:16]
    assert len(feed_all(reader, [piece for _ in range(10) for piece in (message[:200], message[200:])])) == 10


# -- memory ------------------------------------------------------------------------------------------------------


def allocated_by(action: Callable[[], object]) -> int:
    """The peak of the memory that this allocates, in bytes."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        action()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("chunk_size", [1, 128, 65536, 2**31 - 1])
def test_announced_length_allocates_nothing(chunk_size: int) -> None:
    reader = ChunkReader()
    reader.feed(set_chunk_size(chunk_size))
    first = full(4, 0, LARGEST_MESSAGE_LENGTH) + b"0"
    reader.feed(full(5, 0, 1) + b"x")
    assert allocated_by(lambda: feed_all(reader, [first, b"123456789"] if chunk_size > 9 else [first])) < 4096


def test_ten_bytes_of_a_16_mb_message_take_less_than_a_kilobyte() -> None:
    reader = ChunkReader()
    reader.feed(full(4, 0, LARGEST_MESSAGE_LENGTH) + b"0123456789")
    (stream,) = reader._streams.values()
    assert sys.getsizeof(stream.assembly) < 1000


# -- work --------------------------------------------------------------------------------------------------------


def calls_of(action: Callable[[], object]) -> int:
    """The number of calls of Python and C functions."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return calls


def message_in_chunks(length: int, chunk_size: int = 128) -> bytes:
    payload = bytes(length)
    pieces = [payload[start : start + chunk_size] for start in range(0, length, chunk_size)]
    return full(4, 0, length) + bare(4).join(pieces)


def reads(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


MEGABYTE = 1 << 20

WORK = {
    "4 MB in 128-byte chunks, 64 kB reads": (
        reads(message_in_chunks(4 * MEGABYTE), 1 << 16),
        4 * MEGABYTE / 128,
    ),
    "4 MB in 128-byte chunks, one read": ([message_in_chunks(4 * MEGABYTE)], 4 * MEGABYTE / 128),
    "20 kB in 1-byte reads": (reads(message_in_chunks(20_000), 1), 20_000 * 16),
    "100 kB in 1-byte chunks": (
        [set_chunk_size(1), *reads(message_in_chunks(100_000, 1), 1 << 16)],
        100_000,
    ),
}


@pytest.mark.parametrize(("pieces", "most_calls"), WORK.values(), ids=WORK)
def test_number_of_calls_is_bounded(pieces: list[bytes], most_calls: float) -> None:
    assert calls_of(lambda: feed_all(ChunkReader(), pieces)) < most_calls


@pytest.mark.parametrize("read_size", [1, 1000])
def test_number_of_calls_is_linear_in_the_length(read_size: int) -> None:
    def work(length: int) -> int:
        pieces = reads(message_in_chunks(length), read_size)
        return calls_of(lambda: feed_all(ChunkReader(), pieces))

    assert work(16_000) < 2.2 * work(8_000)


class CountingBytes(bytes):
    """Bytes that count how many of them were read by slicing."""

    touched: int = 0

    def __getitem__(self, key: object) -> object:  # type: ignore[override]
        found = super().__getitem__(key)  # type: ignore[call-overload]
        self.touched += len(found) if isinstance(found, bytes) else 1
        return found


@pytest.mark.parametrize("row", ["aaab", "ab", "aab"])
def test_work_for_alternating_chunk_streams_is_linear(row: str) -> None:
    # Looking ahead to the end of the read at each chunk would cost the square of its length.
    chunks = {"a": bare(4) + b"x", "b": bare(5) + b"y"}

    def touched(rows: int) -> int:
        reader = ChunkReader()
        reader.feed(set_chunk_size(1) + full(4, 0, MEGABYTE) + b"x" + full(5, 0, MEGABYTE) + b"y")
        data = CountingBytes(b"".join(chunks[letter] for letter in row) * rows)
        reader.feed(data)
        return data.touched

    assert touched(4000) < 2.2 * touched(2000)
