"""The exact bytes of encoded messages, for one peer and for many."""

from __future__ import annotations

import pytest

from rtmprelay.errors import LocalProtocolError
from rtmprelay.wire.chunk_writer import ChunkWriter, encode_standalone, standalone_chunks
from rtmprelay.wire.chunks import ChunkReader, RawMessage
from rtmprelay.wire.limits import LARGEST_MESSAGE_LENGTH


def audio(timestamp: int, payload: bytes = b"abc", stream_id: int = 1) -> RawMessage:
    return RawMessage(8, timestamp, stream_id, payload)


def video(timestamp: int, payload: bytes = b"abc", stream_id: int = 1) -> RawMessage:
    return RawMessage(9, timestamp, stream_id, payload)


#: The messages before on chunk stream 4, the message now, and the header of its chunk in hexadecimal.
HEADERS: dict[str, tuple[list[RawMessage], RawMessage, str]] = {
    "the first is full": ([], audio(1000), "04 0003e8 000003 08 01000000"),
    "another type": ([audio(1000)], video(1020), "44 000014 000003 09"),
    "another length": ([audio(1000)], audio(1020, b"abcd"), "44 000014 000004 08"),
    "an empty message": ([audio(1000)], audio(1000, b""), "44 000000 000000 08"),
    "the same shape": ([audio(1000)], audio(1020), "84 000014"),
    # Peers differ in what a bare header directly after a full one means.
    "never bare after a full one": ([audio(20)], audio(40), "84 000014"),
    "the same delta again": ([audio(0), audio(20)], audio(40), "c4"),
    "the same shape, delta zero twice": ([audio(0), audio(0)], audio(0), "c4"),
    "another delta": ([audio(0), audio(20)], audio(41), "84 000015"),
    "the same delta after a medium header": ([audio(0), video(20)], video(40), "c4"),
    "back in time": ([audio(1000)], audio(999), "04 0003e7 000003 08 01000000"),
    "back in time, then forward": ([audio(1000), audio(980)], audio(1000), "84 000014"),
    "over the wrap": ([audio(2**32 - 1)], audio(5), "04 000005 000003 08 01000000"),
    "another message stream": ([audio(0)], audio(1, stream_id=2), "04 000001 000003 08 02000000"),
    "the largest short delta": ([audio(0)], audio(0xFFFFFE), "84 fffffe"),
    "a delta too large": ([audio(0)], audio(0xFFFFFF), "04 ffffff 000003 08 01000000 00ffffff"),
    "large timestamps, small delta": ([audio(2**31)], audio(2**31 + 5), "84 000005"),
}


@pytest.mark.parametrize(("before", "message", "header"), HEADERS.values(), ids=HEADERS)
def test_writer_uses_the_shortest_header(before: list[RawMessage], message: RawMessage, header: str) -> None:
    writer = ChunkWriter()
    reader = ChunkReader()
    for earlier in before:
        reader.feed(writer.encode(earlier, 4))
    encoded = writer.encode(message, 4)
    assert encoded.hex() == (bytes.fromhex(header) + message.payload).hex()
    assert reader.feed(encoded) == [message]


def test_writer_remembers_each_chunk_stream() -> None:
    writer = ChunkWriter()
    writer.encode(audio(1000), 4)
    assert writer.encode(audio(1000), 6)[0] == 0x06
    assert writer.encode(audio(1020), 4)[:4].hex() == "84000014"


@pytest.mark.parametrize(
    ("csid", "first", "continuation"),
    [
        (2, "02", "c2"),
        (63, "3f", "ff"),
        (64, "0000", "c000"),
        (319, "00ff", "c0ff"),
        (320, "010001", "c10001"),
        (65599, "01ffff", "c1ffff"),
    ],
)
def test_basic_header_is_as_long_as_the_id_needs(csid: int, first: str, continuation: str) -> None:
    payload = b"p" * 129
    expected = f"{first} 000000 000081 09 01000000 {'70' * 128} {continuation} 70"
    assert ChunkWriter().encode(video(0, payload), csid) == bytes.fromhex(expected)
    assert encode_standalone(video(0, payload), csid, 128) == bytes.fromhex(expected)


@pytest.mark.parametrize("csid", [-1, 0, 1, 65600])
def test_invalid_chunk_stream_ids_are_refused(csid: int) -> None:
    with pytest.raises(LocalProtocolError, match="chunk stream id"):
        ChunkWriter().encode(audio(0), csid)
    with pytest.raises(LocalProtocolError, match="chunk stream id"):
        encode_standalone(audio(0), csid, 128)


def test_payload_after_a_short_header_is_cut_into_chunks() -> None:
    writer = ChunkWriter()
    writer.encode(video(0), 4)
    writer.chunk_size = 2
    assert writer.encode(video(1), 4) == bytes.fromhex("84 000001 6162 c4 63")


TIMES = {
    0xFFFFFE: ("fffffe", ""),
    0xFFFFFF: ("ffffff", "00ffffff"),
    0x1000000: ("ffffff", "01000000"),
    2**32 - 1: ("ffffff", "ffffffff"),
    2**32 + 7: ("000007", ""),
}


@pytest.mark.parametrize(("timestamp", "field", "extended"), [(t, *f) for t, f in TIMES.items()])
def test_extended_timestamps_are_repeated_on_every_chunk(timestamp: int, field: str, extended: str) -> None:
    expected = bytes.fromhex(
        f"04 {field} 000005 09 01000000 {extended} 6162 c4 {extended} 6364 c4 {extended} 65"
    )
    message = video(timestamp, b"abcde")
    assert encode_standalone(message, 4, 2) == expected
    writer = ChunkWriter()
    writer.chunk_size = 2
    assert writer.encode(message, 4) == expected


def test_standalone_headers_are_always_full() -> None:
    first, second = (encode_standalone(audio(20), 4, 128) for _ in range(2))
    assert first == second == bytes.fromhex("04 000014 000003 08 01000000 616263")


def test_standalone_chunks_share_the_payload() -> None:
    payload = b"x" * 100
    assert standalone_chunks(video(0, payload), 4, 128)[1] is payload


# -- too long ----------------------------------------------------------------------------------------------------

LONGEST = bytes(LARGEST_MESSAGE_LENGTH)
TOO_LONG = bytes(LARGEST_MESSAGE_LENGTH + 1)


def test_longest_message_is_encoded() -> None:
    assert encode_standalone(video(0, LONGEST), 4, 65536)[4:7] == b"\xff\xff\xff"


@pytest.mark.parametrize("before", [[], [video(0)], [audio(0)]], ids=["first", "same type", "other type"])
def test_too_long_message_is_refused(before: list[RawMessage]) -> None:
    writer = ChunkWriter()
    for message in before:
        writer.encode(message, 4)
    with pytest.raises(LocalProtocolError, match="is too long"):
        writer.encode(video(0, TOO_LONG), 4)
    with pytest.raises(LocalProtocolError, match="is too long"):
        encode_standalone(video(0, TOO_LONG), 4, 128)


@pytest.mark.parametrize("before", [[], [video(0)]], ids=["first", "later"])
def test_refused_message_does_not_affect_later_headers(before: list[RawMessage]) -> None:
    # The peer did not get it, so no later header may depend on it.
    writer, untouched = ChunkWriter(), ChunkWriter()
    for message in before:
        assert writer.encode(message, 4) == untouched.encode(message, 4)
    for _ in range(2):
        with pytest.raises(LocalProtocolError):
            writer.encode(video(0, TOO_LONG), 4)
    assert writer.encode(video(5), 4) == untouched.encode(video(5), 4)
