"""The stream of the benchmark, and its stamps."""

from __future__ import annotations

import pytest

from rtmprelay.bench import stream
from rtmprelay.media import MediaKind
from rtmprelay.wire.chunk_writer import encode_standalone
from rtmprelay.wire.chunks import ChunkReader, RawMessage


def test_stream_has_2500_kilobits_a_second() -> None:
    """Pictures and sound together are what the benchmark says."""
    pictures = sum(stream.SIZES[:-1]) * stream.FRAME_RATE / stream.PICTURES_PER_GROUP
    sound = stream.SIZES[stream.AUDIO_PLACE] * stream.AUDIO_RATE / stream.AUDIO_SAMPLES
    assert (pictures + sound) * 8 == pytest.approx(stream.BITS_PER_SECOND, rel=0.01)


def test_frame_has_its_size_and_one_marker() -> None:
    for payload, size in zip(stream.PAYLOADS, stream.SIZES, strict=True):
        assert len(payload) == size
        assert payload.count(stream.UNMEASURED) == 1
        assert stream.MEASURED not in payload


def read_chunks(data: bytes, chunk_size: int) -> list[RawMessage]:
    """What a server reads, after a full header on both chunk streams."""
    reader = ChunkReader()
    reader.chunk_size = chunk_size
    for kind in (MediaKind.VIDEO, MediaKind.AUDIO):
        header = RawMessage(kind, 1000, 1, b"header")
        reader.feed(encode_standalone(header, stream.chunk_stream_of(kind), chunk_size))
    return reader.feed(data)


@pytest.mark.parametrize("chunk_size", [128, 4096, 65536])
def test_filled_frame_is_read_back_by_a_session(chunk_size: int) -> None:
    """Each frame, cut into chunks ahead of time, is one message with its stamp."""
    for place, frame in enumerate(stream.outgoing_frames(chunk_size)):
        (message,) = read_chunks(bytes(frame.fill(33, 123_456, 7, measured=True)), chunk_size)
        start = message.payload.index(stream.MEASURED) + len(stream.MEASURED)
        stamp = stream.read_stamp(message.payload, start)
        assert stamp == stream.Stamp(123_456, 7, place)
        assert stream.is_intact(message.payload, start, stamp)
        assert (message.timestamp, message.stream_id) == (1033, 1)
        is_sound = place == stream.AUDIO_PLACE
        assert message.type_id == (MediaKind.AUDIO if is_sound else MediaKind.VIDEO)


def test_marker_tells_measured_from_unmeasured() -> None:
    frame = stream.OutgoingFrame(0, 4096)
    assert stream.MEASURED in frame.fill(0, 1, 1, measured=True)
    data = frame.fill(0, 2, 2, measured=False)
    assert stream.MEASURED not in data
    assert stream.UNMEASURED in data


@pytest.mark.parametrize("position", [0, 5, 100, 371])
def test_changed_byte_makes_a_frame_not_intact(position: int) -> None:
    payload = bytearray(stream.PAYLOADS[stream.AUDIO_PLACE])
    start = stream.marker_start(stream.AUDIO_PLACE) + len(stream.MEASURED)
    stamp = stream.Stamp(1, 1, stream.AUDIO_PLACE)
    assert stream.is_intact(bytes(payload), start, stamp)
    if not start - len(stream.MEASURED) <= position < start + stream.STAMP_SIZE:
        payload[position] ^= 1
        assert not stream.is_intact(bytes(payload), start, stamp)
    assert not stream.is_intact(bytes(payload[:-1]), start, stamp)
    assert not stream.is_intact(bytes(payload), start, stream.Stamp(1, 1, 9999))


def test_chunk_size_that_cuts_a_stamp_is_refused() -> None:
    with pytest.raises(ValueError, match="would cut the stamps"):
        stream.outgoing_frames(32)
