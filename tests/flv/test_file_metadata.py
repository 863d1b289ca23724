"""What the metadata of a recording says, and the space that is kept for it."""

from __future__ import annotations

import itertools

import pytest

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.flv.codec_headers import picture_size
from rtmprelay.flv.container import MAX_PAYLOAD_SIZE
from rtmprelay.flv.file_metadata import (
    MAX_INDEXED,
    FileFacts,
    KeyframeIndex,
    ReservedMetadata,
    whole_payload,
)
from rtmprelay.flv.script import decode_metadata, encode_metadata
from rtmprelay.media import MediaFrame, MediaKind
from tests.flv.media import AAC_HEADER, AVC_HEADER, picture, sound

#: x264, 318x238.
AVC_CONFIGURATION = bytes.fromhex(
    "0164000dffe1001a6764000dacd94141feab0110000003001000000303c0f142996001000668ebe3cb22c0fdf8f800"
)


# -- the index -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 31, 32, 33, 10_000])
def test_index_is_bounded_and_evenly_thinned(count: int) -> None:
    index = KeyframeIndex(max_entries=16)
    for number in range(count):
        index.add(10 * number, number)
    entries = list(index)
    assert min(count, 8) <= len(index) == len(entries) < 16
    every = 1
    while count > 15 * every:
        every *= 2
    assert entries == [(10 * number, number) for number in range(0, count, every)]


def test_index_keeps_8192_keyframes_by_default() -> None:
    index = KeyframeIndex()
    for number in range(8191):
        index.add(number, number)
    assert len(index) == 8191
    index.add(8191, 8191)
    assert len(index) == 4096


def index_of(count: int) -> KeyframeIndex:
    index = KeyframeIndex(100_000)
    for number in range(count):
        index.add(2000 * number, 10 * number)
    return index


def test_index_in_the_metadata_has_seconds_and_positions() -> None:
    assert index_of(3).as_amf(1000) == {"times": [0.0, 2.0, 4.0], "filepositions": [0.0, 10.0, 20.0]}


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_index_takes_at_most_the_given_space(count: int) -> None:
    empty = len(encode_metadata({}))
    sizes = set()
    for space in range(40, 2000):
        value = index_of(count).as_amf(space)
        if value is not None:
            size = len(encode_metadata({"keyframes": value})) - empty
            assert size <= space
            sizes.add(size)
    all_of_it = len(encode_metadata({"keyframes": index_of(count).as_amf(10_000)})) - empty
    assert all_of_it in sizes
    assert index_of(count).as_amf(all_of_it - 1) != index_of(count).as_amf(all_of_it)


def test_index_without_space_or_keyframes_is_left_out() -> None:
    one = len(encode_metadata({"keyframes": index_of(1).as_amf(1000)})) - len(encode_metadata({}))
    assert index_of(1).as_amf(one) is not None
    assert index_of(1).as_amf(one - 1) is None
    assert index_of(0).as_amf(1000) is None


@pytest.mark.parametrize(
    ("fitting", "numbers"),
    [(7, range(7)), (6, range(0, 7, 2)), (4, range(0, 7, 2)), (3, range(0, 7, 3)), (1, [0])],
)
def test_index_is_thinned_evenly_from_the_first_keyframe(fitting: int, numbers: range | list[int]) -> None:
    value = index_of(7).as_amf(49 + 18 * fitting)
    assert value is not None
    assert value["times"] == [2.0 * number for number in numbers]
    assert value["filepositions"] == [10.0 * number for number in numbers]


# -- the facts -----------------------------------------------------------------------------------------------


def facts_of(*frames: MediaFrame) -> FileFacts:
    """Facts of these frames, whose positions are their numbers."""
    facts = FileFacts()
    for position, frame in enumerate(frames):
        facts.note(frame, position)
    return facts


def test_facts_of_an_empty_file() -> None:
    facts = FileFacts()
    assert facts.duration_ms == 0
    assert facts.stream_values() == {}
    assert facts.file_values(13) == {
        "duration": 0.0,
        "filesize": 13.0,
        "lasttimestamp": 0.0,
        "hasAudio": False,
        "hasVideo": False,
        "hasMetadata": True,
        "hasKeyframes": False,
    }


def test_facts_of_sound_and_pictures() -> None:
    facts = facts_of(
        AVC_HEADER, AAC_HEADER, picture(1000, key=True), sound(1010), picture(3040, key=True), sound(3500)
    )
    assert facts.stream_values() == {"videocodecid": 7.0, "audiocodecid": 10.0}
    assert facts.file_values(99) == {
        "duration": 2.5,
        "filesize": 99.0,
        "lasttimestamp": 3.5,
        "lastkeyframetimestamp": 3.04,
        "hasAudio": True,
        "hasVideo": True,
        "hasMetadata": True,
        "hasKeyframes": True,
    }
    assert (facts.keyframes, facts.duration_ms) == (2, 2500)
    assert list(facts.index) == [(0, 0), (1000, 2), (3040, 4)]


def test_headers_and_empty_frames_have_no_time() -> None:
    empty = [MediaFrame(MediaKind.VIDEO, 1, b""), MediaFrame(MediaKind.AUDIO, 2, b"")]
    facts = facts_of(*empty, AVC_HEADER, AAC_HEADER)
    assert (facts.first_ms, facts.duration_ms) == (None, 0)
    assert not facts_of(*empty).has_video
    assert not facts_of(*empty).has_audio
    assert facts_of(*empty, sound(500), *empty, sound(700)).duration_ms == 200


def test_duration_does_not_shrink_when_time_goes_back() -> None:
    facts = facts_of(sound(1000), sound(5000), sound(3000))
    assert (facts.first_ms, facts.last_ms, facts.duration_ms) == (1000, 5000, 4000)
    assert facts_of(sound(1000), sound(5000), sound(3000), sound(5500)).duration_ms == 4500


@pytest.mark.parametrize(
    ("header_ms", "keyframe_ms", "entries"),
    [
        (0, 1000, [(0, 0), (1000, 1)]),
        (1000, 1000, [(1000, 0), (1000, 1)]),
        # A header after its keyframe, and one before the timeline begins, are not where players look.
        (1001, 1000, [(1000, 1)]),
        ((1 << 32) - 10, 1000, [(1000, 1)]),
    ],
)
def test_first_header_is_the_first_entry_of_the_index(
    header_ms: int, keyframe_ms: int, entries: list[tuple[int, int]]
) -> None:
    header = MediaFrame(MediaKind.VIDEO, header_ms, AVC_HEADER.payload)
    assert list(facts_of(header, picture(keyframe_ms, key=True)).index) == entries


def test_only_the_first_header_is_in_the_index() -> None:
    facts = facts_of(
        AVC_HEADER,
        MediaFrame(MediaKind.VIDEO, 5, AVC_HEADER.payload),
        picture(10, key=True),
        AVC_HEADER,
        picture(20, key=True),
    )
    assert list(facts.index) == [(0, 0), (10, 2), (20, 4)]


def test_header_after_the_first_keyframe_is_not_in_the_index() -> None:
    facts = facts_of(picture(0, key=True), AVC_HEADER, picture(20, key=True))
    assert list(facts.index) == [(0, 0), (20, 2)]


CODEC_IDS = [
    (MediaKind.VIDEO, b"\x17\1\0\0\0x", 7.0),
    (MediaKind.VIDEO, b"\x12x", 2.0),
    (MediaKind.VIDEO, b"\x90hvc1x", float(0x68766331)),
    (MediaKind.VIDEO, b"\x90", 0.0),
    (MediaKind.AUDIO, b"\xaf\1x", 10.0),
    (MediaKind.AUDIO, b"\x2fx", 2.0),
    (MediaKind.AUDIO, b"\x90Opusx", float(0x4F707573)),
    (MediaKind.AUDIO, b"\x90", 9.0),
]


@pytest.mark.parametrize(("kind", "payload", "codec_id"), CODEC_IDS)
def test_codec_id_is_that_of_the_first_frame(kind: MediaKind, payload: bytes, codec_id: float) -> None:
    other = {MediaKind.VIDEO: b"\x13x", MediaKind.AUDIO: b"\xb2x"}[kind]
    facts = facts_of(MediaFrame(kind, 0, payload), MediaFrame(kind, 1, other))
    assert facts.stream_values() == {f"{kind.name.lower()}codecid": codec_id}


def test_size_of_the_picture_is_that_of_the_last_header() -> None:
    small = MediaFrame(MediaKind.VIDEO, 0, b"\x17\0\0\0\0" + AVC_CONFIGURATION)
    assert picture_size(small.payload) == (318, 238)
    facts = facts_of(AVC_HEADER, small, AVC_HEADER)
    assert facts.stream_values() == {"videocodecid": 7.0, "width": 318.0, "height": 238.0}


def metadata(**values: AmfValue) -> bytes:
    return encode_metadata(values)


def test_values_of_the_publisher_go_first() -> None:
    small = MediaFrame(MediaKind.VIDEO, 0, b"\x17\0\0\0\0" + AVC_CONFIGURATION)
    said = MediaFrame(MediaKind.DATA, 0, metadata(width=1.0, title="t"))
    assert facts_of(small, said).stream_values() == {
        "videocodecid": 7.0,
        "width": 1.0,
        "height": 238.0,
        "title": "t",
    }


def test_values_of_a_file_and_of_the_recorder_are_not_learnt_from_publishers() -> None:
    names = "duration filesize lasttimestamp lastkeyframetimestamp lastkeyframelocation keyframes hasAudio hasVideo"
    names += " hasMetadata hasKeyframes canSeekToEnd datasize audiosize videosize rtmprelay_app"
    said = metadata(**dict.fromkeys(names.split(), 1.0), title="t", rtmprelays=1.0)
    facts = FileFacts()
    facts.note_metadata(said)
    assert facts.metadata == {"title": "t", "rtmprelays": 1.0}
    facts.note_metadata(metadata(title="u"))
    facts.note_metadata(b"something else")
    assert facts.metadata == {"title": "u", "rtmprelays": 1.0}
    facts.note_metadata(said, ours=True)
    assert facts.metadata == {"title": "t", "rtmprelays": 1.0, "rtmprelay_app": 1.0}


# -- the tag -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("space", "kept"), [(0, 512), (511, 512), (512, 512), (513, 513)])
def test_space_of_at_least_512_bytes_follows_the_values(space: int, kept: int) -> None:
    reserved = ReservedMetadata.with_space({"width": 1.0}, space)
    assert reserved.payload == metadata(width=1.0) + b"\x05" * kept
    assert reserved.values_end == len(metadata(width=1.0))


def test_space_is_64_kib_by_default() -> None:
    assert len(ReservedMetadata.with_space({}).payload) == len(metadata()) + 65536


def test_completed_metadata_has_the_same_size() -> None:
    reserved = ReservedMetadata.with_space({"width": 1.0}, 600)
    payload = reserved.completed({"width": 2.0, "title": "t"}, {}, index_of(3))
    assert len(payload) == len(reserved.payload)
    assert decode_metadata(payload) == {"width": 2.0, "title": "t", "keyframes": index_of(3).as_amf(1000)}
    assert payload.endswith(b"\x05")


def test_completed_metadata_fits_exactly_or_is_the_fallback() -> None:
    reserved = ReservedMetadata.with_space({}, 512)
    room = len(reserved.payload) - len(metadata(note=""))
    for length, expected in ((room, "note"), (room + 1, "short")):
        payload = reserved.completed({"note": "x" * length}, {"short": 1.0}, index_of(0))
        assert len(payload) == len(reserved.payload)
        assert list(decode_metadata(payload) or {}) == [expected]


def test_metadata_stays_as_it_was_if_even_the_fallback_is_too_large() -> None:
    reserved = ReservedMetadata.with_space({"width": 1.0}, 512)
    large: dict[str, AmfValue] = {"note": "x" * 1000}
    assert reserved.completed(large, large, index_of(0)) == reserved.payload


def test_values_that_cannot_be_encoded_are_left_out() -> None:
    looped: dict[str, AmfValue] = {}
    looped["self"] = looped
    reserved = ReservedMetadata.with_space({"loop": looped, "width": 1.0}, 512)
    assert decode_metadata(reserved.payload) == {"width": 1.0}
    assert decode_metadata(reserved.completed({"loop": looped, "width": 2.0}, {}, index_of(0))) == {
        "width": 2.0
    }


def filled(values: dict[str, AmfValue]) -> dict[str, AmfValue]:
    """With one more value, so that a message has room for 20 bytes more."""
    room = MAX_PAYLOAD_SIZE - len(metadata(**values, rest="x" * 70_000)) + 70_000
    return values | {"rest": "x" * (room - 20)}


OWN: dict[str, AmfValue] = {"rtmprelay_app": "live", "duration": 1.5}


@pytest.mark.parametrize(
    "publisher",
    [
        filled({}),
        filled({f"note{number}": "x" * 60_000 for number in range(270)}),
        filled({f"{number}{'x' * 60_000}": 0.0 for number in range(270)}),
        {str(number): 0.0 for number in range(99_997)},
        {"list": [0.0] * 99_995, "title": "t"},
    ],
    ids=["one large value", "many large values", "long names", "many values", "a long list"],
)
def test_metadata_that_is_too_much_for_a_message_keeps_its_small_values(
    publisher: dict[str, AmfValue],
) -> None:
    """A publisher may send a message that is nearly full, so that there is no room for the recorder's values."""
    assert decode_metadata(encode_metadata(publisher)) == publisher
    reserved = ReservedMetadata.with_space(publisher | OWN, 512)
    values = decode_metadata(reserved.payload)
    assert values is not None
    assert values.items() >= OWN.items()
    assert len(values) <= 1000
    assert all((publisher | OWN)[name] == value for name, value in values.items())


@pytest.mark.parametrize("length", [200, 300])
def test_small_values_have_at_most_256_bytes_with_their_names(length: int) -> None:
    size = len(encode_metadata({"note": "x" * length}))
    values: dict[str, AmfValue] = {"note": "x" * length, "list": [0.0] * 99_997}
    reserved = ReservedMetadata.with_space(values, 512)
    assert ("note" in (decode_metadata(reserved.payload) or {})) == (size <= 256)


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_payload_that_is_written_at_once_has_the_whole_index(count: int) -> None:
    payload = whole_payload({"width": 1.0}, index_of(count))
    expected: dict[str, AmfValue] = {"width": 1.0}
    if count:
        expected["keyframes"] = index_of(count).as_amf(100_000)
    assert decode_metadata(payload) == expected
    assert len(payload) == len(metadata(width=1.0)) + 100 + 18 * count


def test_payload_that_is_written_at_once_fits_into_a_tag() -> None:
    values = filled({})
    payload = whole_payload(values, index_of(1000))
    assert len(payload) == MAX_PAYLOAD_SIZE
    assert decode_metadata(payload) == values


def test_index_of_a_whole_payload_is_bounded() -> None:
    values = decode_metadata(whole_payload({}, index_of(MAX_INDEXED + 5))) or {}
    keyframes = values["keyframes"]
    assert isinstance(keyframes, dict)
    times = keyframes["times"]
    assert isinstance(times, list)
    assert len(times) == MAX_INDEXED // 2 + 3
    assert {after - before for before, after in itertools.pairwise(times)} == {4.0}  # type: ignore[operator]
