"""What a frame is to receivers that start late or are slow, and batches that are encoded once."""

from __future__ import annotations

from itertools import product

import pytest

from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.streams.frames import (
    METADATA_KEY,
    USUAL_LOOKS,
    FrameBatch,
    FrameRole,
    live_frame,
    look_at,
    summarize,
)
from tests.streams.helpers import (
    AAC_HEADER,
    AVC_HEADER,
    METADATA,
    ListingEncoder,
    audio,
    data,
    live,
    video,
)


def one_track(frame_type: int, packet_type: int, track: int) -> bytes:
    return bytes([0x80 | frame_type << 4 | 6, packet_type]) + b"hvc1" + bytes([track]) + b"\x00\x00\x00data"


@pytest.mark.parametrize(
    ("kind", "payload", "role"),
    [
        (MediaKind.VIDEO, b"\x17\x01x", FrameRole.KEYFRAME),
        (MediaKind.VIDEO, b"\x27\x01x", FrameRole.INTER),
        (MediaKind.VIDEO, b"\x17\x02", FrameRole.INTER),
        (MediaKind.VIDEO, b"", FrameRole.AUDIO),
        (MediaKind.VIDEO, b"\x1e\x01unknown", FrameRole.AUDIO),
        (MediaKind.VIDEO, AVC_HEADER, FrameRole.STARTUP),
        (MediaKind.VIDEO, b"\x90hvc1conf", FrameRole.STARTUP),
        (MediaKind.VIDEO, b"\x94hvc1hdr", FrameRole.STARTUP),
        (MediaKind.VIDEO, b"\x93hvc1key", FrameRole.KEYFRAME),
        (MediaKind.VIDEO, b"\xa3hvc1inter", FrameRole.INTER),
        (MediaKind.VIDEO, one_track(1, 1, 0), FrameRole.KEYFRAME),
        (MediaKind.VIDEO, one_track(1, 1, 3), FrameRole.INTER),
        (MediaKind.VIDEO, one_track(1, 0, 3), FrameRole.STARTUP),
        (MediaKind.AUDIO, b"\xaf\x01x", FrameRole.AUDIO),
        (MediaKind.AUDIO, b"", FrameRole.AUDIO),
        (MediaKind.AUDIO, AAC_HEADER, FrameRole.STARTUP),
        (MediaKind.DATA, METADATA, FrameRole.STARTUP),
        (MediaKind.DATA, b"\x02\x00\x05onCue", FrameRole.DATA),
        (MediaKind.DATA, b"", FrameRole.DATA),
    ],
    ids=lambda value: value.name if isinstance(value, FrameRole) else None,
)
def test_role_of_a_frame_follows_from_its_first_bytes(
    kind: MediaKind, payload: bytes, role: FrameRole
) -> None:
    frame = live_frame(MediaFrame(kind, 7, payload))
    assert frame.role is role
    assert frame.size == len(payload)
    assert (frame.startup_key is not None) == (role is FrameRole.STARTUP)


def test_startup_frames_of_different_kinds_do_not_replace_each_other() -> None:
    payloads = [
        (MediaKind.VIDEO, AVC_HEADER),
        (MediaKind.VIDEO, b"\x94hvc1hdr"),
        (MediaKind.VIDEO, one_track(1, 0, 0)),
        (MediaKind.VIDEO, one_track(1, 0, 1)),
        (MediaKind.AUDIO, AAC_HEADER),
        (MediaKind.DATA, METADATA),
    ]
    keys = {live_frame(MediaFrame(kind, 0, payload)).startup_key for kind, payload in payloads}
    assert len(keys) == len(payloads)
    assert METADATA_KEY in keys


def test_a_header_of_another_codec_replaces_the_one_before() -> None:
    avc, hevc = (
        live_frame(MediaFrame(MediaKind.VIDEO, 0, payload)) for payload in (AVC_HEADER, b"\x90hvc1c")
    )
    assert avc.startup_key == hevc.startup_key


@pytest.mark.parametrize("kind", [MediaKind.VIDEO, MediaKind.AUDIO])
def test_table_of_usual_looks_says_what_the_long_way_says(kind: MediaKind) -> None:
    for payload in (bytes(pair) + b"rest of it" for pair in product(range(256), repeat=2)):
        look = USUAL_LOOKS[kind].get(payload[:2])
        assert look is None or look == look_at(kind, payload)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (MediaKind.VIDEO, b"\x17\x01"),
        (MediaKind.VIDEO, b"\x27\x01"),
        (MediaKind.AUDIO, b"\xaf\x01"),
        (MediaKind.AUDIO, b"\xaf\x00"),
    ],
)
def test_h264_and_aac_are_in_the_table_of_usual_looks(kind: MediaKind, payload: bytes) -> None:
    assert payload in USUAL_LOOKS[kind]


def test_enhanced_payloads_are_not_in_the_table_of_usual_looks() -> None:
    assert not [prefix for prefix in USUAL_LOOKS[MediaKind.VIDEO] if prefix[0] & 0x80]
    assert not [prefix for prefix in USUAL_LOOKS[MediaKind.AUDIO] if prefix[0] >> 4 == 9]


def test_batch_knows_its_count_and_size() -> None:
    batch = FrameBatch.of(live(audio(1), video(2)))
    assert (batch.count, batch.size) == (2, 15)


def test_data_frames_have_no_codec() -> None:
    assert live(data(1))[0].codec is None


def test_large_frame_is_encoded_once_for_each_encoder() -> None:
    """Consumers that drain their queues share the bytes of a frame, also with an equal encoder of their own."""
    frame = live_frame(video(40))
    first, second = ListingEncoder("a"), ListingEncoder("b")
    assert frame.encoded_for_all(first) == b"9:40 "
    encoded = frame.encoded_for_all(first)
    assert frame.encoded_for_all(second) == b"9:40 "
    assert frame.encoded_for_all(first) is encoded
    assert (first.calls, second.calls) == ([1], [1])


def test_summary_of_frames_has_pictures_sound_and_configurations_but_no_metadata() -> None:
    headers = [data(0, METADATA), MediaFrame(MediaKind.VIDEO, 0, AVC_HEADER)]
    whole = summarize(live(*headers, video(0, key=True), data(3), audio(5)))
    assert [payload for _, payload in whole.headers] == [AVC_HEADER]
    assert whole.newest == 5
    assert whole == summarize(live(headers[1], video(0, key=True), audio(5)))
    assert whole != summarize(live(video(0, key=True), audio(5)))
    assert summarize(live(*headers)).newest is None
