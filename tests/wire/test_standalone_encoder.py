"""Media frames as chunks that any number of peers get: the same bytes as message by message, and readable."""

from __future__ import annotations

import pytest

from rtmprelay.media import TIMESTAMP_MODULUS, MediaFrame, MediaKind
from rtmprelay.wire.chunk_writer import MEDIA_CHUNK_STREAMS, StandaloneEncoder, encode_standalone
from rtmprelay.wire.chunks import EXTENDED_TIMESTAMP, ChunkReader, RawMessage
from rtmprelay.wire.messages import SetChunkSize, to_raw

CHUNK_SIZE = 1000
STREAM_ID = 0x01020304

#: Times before and after the bound from which on a timestamp takes four more bytes.
TIMES = (0, 1, EXTENDED_TIMESTAMP - 1, EXTENDED_TIMESTAMP, EXTENDED_TIMESTAMP + 1, TIMESTAMP_MODULUS - 1)
#: Payloads that fit in one chunk, just so or with room, and some that do not.
SIZES = (0, 1, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 3 * CHUNK_SIZE + 7)

FRAMES = [MediaFrame(kind, time, bytes(range(256)) * 13) for kind in MediaKind for time in TIMES]
FRAMES = [
    MediaFrame(frame.kind, frame.timestamp_ms, frame.payload[:size]) for frame in FRAMES for size in SIZES
]


def read(data: bytes) -> list[RawMessage]:
    reader = ChunkReader()
    announcement = encode_standalone(to_raw(SetChunkSize(CHUNK_SIZE)), 2, 128)
    return reader.feed(announcement + data)


def test_frame_in_one_chunk_has_these_bytes() -> None:
    encoder = StandaloneEncoder(CHUNK_SIZE, STREAM_ID)
    assert encoder.encode([MediaFrame(MediaKind.VIDEO, 0x010203, b"\x17\x01abc")]) == (
        b"\x06\x01\x02\x03\x00\x00\x05\x09\x04\x03\x02\x01\x17\x01abc"
    )
    assert encoder.encode([MediaFrame(MediaKind.AUDIO, 0x01020304, b"\xaf\x01")]) == (
        b"\x04\xff\xff\xff\x00\x00\x02\x08\x04\x03\x02\x01\x01\x02\x03\x04\xaf\x01"
    )


@pytest.mark.parametrize("kind", list(MediaKind))
def test_frames_have_the_bytes_of_their_messages_one_by_one(kind: MediaKind) -> None:
    encoder = StandaloneEncoder(CHUNK_SIZE, STREAM_ID)
    frames = [frame for frame in FRAMES if frame.kind is kind]
    for frame in frames:
        message = RawMessage(kind, frame.timestamp_ms, STREAM_ID, frame.payload)
        assert encoder.encode([frame]) == encode_standalone(message, MEDIA_CHUNK_STREAMS[kind], CHUNK_SIZE)
    assert encoder.encode(frames) == b"".join(encoder.encode([frame]) for frame in frames)


def test_frames_of_all_kinds_in_one_batch_are_read_in_order() -> None:
    data = StandaloneEncoder(CHUNK_SIZE, STREAM_ID).encode(FRAMES)
    assert read(data) == [
        RawMessage(frame.kind, frame.timestamp_ms, STREAM_ID, frame.payload) for frame in FRAMES
    ]


def test_time_of_a_frame_wraps_at_32_bits() -> None:
    encoder = StandaloneEncoder(CHUNK_SIZE, STREAM_ID)
    late = MediaFrame(MediaKind.VIDEO, TIMESTAMP_MODULUS + 40, b"x")
    assert encoder.encode([late]) == encoder.encode([MediaFrame(MediaKind.VIDEO, 40, b"x")])


def test_no_frames_are_no_bytes() -> None:
    assert StandaloneEncoder(CHUNK_SIZE, STREAM_ID).encode([]) == b""
