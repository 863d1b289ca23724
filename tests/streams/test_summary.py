"""The record of deliveries: the same whatever the batches were, another if anything differs."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.streams.frames import FrameBatch, LiveFrame, live_frame, summarize
from rtmprelay.streams.summary import DeliveryRecord


def video(timestamp_ms: int, content: bytes = b"", first: bytes = b"\x27\x01\x00\x00\x00") -> LiveFrame:
    return live_frame(MediaFrame(MediaKind.VIDEO, timestamp_ms, first + content))


def record_of(*batches: list[LiveFrame]) -> DeliveryRecord:
    record = DeliveryRecord()
    for number, batch in enumerate(batches):
        record.add(FrameBatch.of(batch).summary(), float(number))
    return record


frames = st.lists(st.builds(video, st.integers(0, 2**32 - 1), st.binary(max_size=5)), max_size=8)


@given(frames, st.integers(0, 8), st.integers(0, 8))
def test_batching_of_frames_makes_no_difference_to_the_digest(
    all_frames: list[LiveFrame], one: int, other: int
) -> None:
    first, last = sorted((one, other))
    cut = [all_frames[:first], all_frames[first:last], all_frames[last:]]
    assert record_of(*cut).digest == record_of(all_frames).digest


def test_any_other_difference_changes_the_digest() -> None:
    frames = [video(0, b"a"), video(40, b"b"), video(80, b"c")]
    digests = {
        record_of(frames).digest,
        record_of(frames[:2]).digest,
        record_of(frames[1:]).digest,
        record_of([frames[1], frames[0], frames[2]]).digest,
        record_of([video(0, b"a"), video(41, b"b"), video(80, b"c")]).digest,
        record_of([video(0, b"a"), video(40, b"B"), video(80, b"c")]).digest,
        record_of([*frames, frames[-1]]).digest,
        record_of([]).digest,
    }
    assert len(digests) == 8


def test_digest_is_this_polynomial_in_the_hashes_of_the_frames() -> None:
    """Relays of different versions compare it: another formula would look like a damaged stream."""

    def number(data: bytes) -> int:
        return int.from_bytes(hashlib.blake2b(data, digest_size=15).digest())

    base, modulus = number(b"rtmprelay delivery digest"), 2**127 - 1
    frames = [
        video(1, b"a"),
        video(0x01020304, b"bc"),
        live_frame(MediaFrame(MediaKind.AUDIO, 7, b"\xaf\x01x")),
    ]
    value = 0
    for frame in frames:
        time = frame.frame.timestamp_ms.to_bytes(4)
        value = (value * base + number(bytes([frame.frame.kind]) + time + frame.frame.payload)) % modulus
    assert record_of(frames).digest == f"{value:032x}"


def test_metadata_and_configuration_are_not_in_the_digest() -> None:
    """They are sent again on each connection; the media is not."""
    header = video(0, b"avcC", b"\x17\x00\x00\x00\x00")
    assert record_of([header, video(0)]).digest == record_of([video(0)]).digest
    assert list(record_of([header]).headers.values()) == [header.frame.payload]


def test_newest_timestamp_is_the_newest_of_all_deliveries() -> None:
    assert record_of([video(80)], [video(40)]).newest == 80
    assert record_of([video(80)], [video(81)]).newest == 81
    assert record_of([video(80), video(81)]).newest == 81
    assert record_of([video(2**32 - 10)], [video(5)]).newest == 5
    assert record_of([]).newest is None


def test_time_is_that_of_the_last_delivery() -> None:
    assert record_of([video(0)], [video(40)]).last_time == 1.0
    assert DeliveryRecord().last_time is None


def test_a_batch_is_summed_up_once() -> None:
    batch = FrameBatch.of([video(0)])
    assert batch.summary() is batch.summary()
    assert batch.summary() == summarize(batch.frames)
