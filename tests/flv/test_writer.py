"""A file that is whole at any moment of its writing, and complete at the end."""

from __future__ import annotations

import io
import itertools
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.flv.container import MAX_PAYLOAD_SIZE, file_header, read_tags
from rtmprelay.flv.script import decode_metadata, encode_metadata
from rtmprelay.flv.writer import FlvWriter
from rtmprelay.media import MediaFrame, MediaKind
from tests.flv.media import (
    AAC_HEADER,
    AVC_HEADER,
    FRAMES,
    STARTUP,
    MemoryFile,
    frames_in,
    groups,
    metadata_of,
    picture,
    sound,
    write_file,
)


def metadata_frame(**values: AmfValue) -> MediaFrame:
    return MediaFrame(MediaKind.DATA, 0, encode_metadata(values))


def index_of(data: bytes) -> list[tuple[float, float]]:
    keyframes = cast("dict[str, list[float]]", metadata_of(data)["keyframes"])
    assert list(keyframes) == ["times", "filepositions"]
    return list(zip(keyframes["times"], keyframes["filepositions"], strict=True))


def test_frames_are_written_unchanged() -> None:
    frames = groups(3)
    startup = [metadata_frame(width=1.0), AVC_HEADER, AAC_HEADER]
    assert frames_in(write_file(frames, startup))[1:] == [AVC_HEADER, AAC_HEADER, *frames]


def test_finish_completes_the_metadata() -> None:
    startup = [metadata_frame(width=640.0, height=360.0, encoder="x", duration=0.0), AVC_HEADER, AAC_HEADER]
    data = write_file(groups(3, begin_ms=1000), startup)
    values = metadata_of(data)
    assert values | {"keyframes": None} == {
        "videocodecid": 7.0,
        "audiocodecid": 10.0,
        "width": 640.0,
        "height": 360.0,
        "encoder": "x",
        "duration": 0.56,
        "filesize": float(len(data)),
        "lasttimestamp": 1.56,
        "lastkeyframetimestamp": 1.4,
        "hasAudio": True,
        "hasVideo": True,
        "hasMetadata": True,
        "hasKeyframes": True,
        "keyframes": None,
    }
    # First the decoder configuration, with its own time, then every keyframe.
    assert [time for time, _ in index_of(data)] == [0.0, 1.0, 1.2, 1.4]
    tags = {float(tag.offset): tag for tag in read_tags(io.BytesIO(data))}
    found = [tags[position].to_frame() for _, position in index_of(data)]
    assert found == [AVC_HEADER, *(picture(time, key=True) for time in (1000, 1200, 1400))]


def test_finish_keeps_the_size_of_the_file() -> None:
    raw = MemoryFile()
    writer = FlvWriter(raw, [AVC_HEADER])
    writer.append(groups(2))
    before = len(raw.data)
    assert "duration" not in metadata_of(bytes(raw.data))
    writer.finish()
    assert len(raw.data) == before == writer.size
    assert frames_in(bytes(raw.data))[1:] == [AVC_HEADER, *groups(2)]


def test_crash_during_finish_leaves_old_or_new_metadata() -> None:
    raw = MemoryFile()
    writer = FlvWriter(raw, [metadata_frame(width=2.0), AVC_HEADER], {"rtmprelay_app": "live"})
    writer.append(groups(2))
    before = bytes(raw.data)
    raw.writes.clear()
    writer.finish()
    assert raw.synced == 3
    first, last = raw.writes
    assert len(last[1]) < 4096 - last[0], "the last write is in one page"
    for done in range(0, len(first[1]) + 1, 13):
        torn = before[: first[0]] + first[1][:done] + before[first[0] + done :]
        assert metadata_of(torn) == {"width": 2.0, "rtmprelay_app": "live"}
        if done % 997 == 0:
            assert frames_in(torn)[1:] == frames_in(before)[1:]
    assert "keyframes" in metadata_of(bytes(raw.data))


def test_keyframes_are_thinned_to_the_reserved_space() -> None:
    data = write_file(groups(400, pictures=1), [AVC_HEADER], space=1000)
    index = index_of(data)
    assert 20 < len(index) < 50
    assert index[0][0] == 0.0
    steps = {round(after[0] - before[0], 3) for before, after in itertools.pairwise(index[1:])}
    assert len(steps) == 1, "evenly"
    tags = {tag.offset: tag for tag in read_tags(io.BytesIO(data))}
    for time, position in index[1:]:
        assert tags[int(position)].timestamp_ms == round(time * 1000)


def test_metadata_that_grew_too_large_is_left_out() -> None:
    raw = MemoryFile()
    writer = FlvWriter(raw, [metadata_frame(width=2.0)], space=600)
    writer.append([metadata_frame(note="x" * 2000), *groups(1)])
    writer.finish()
    values = metadata_of(bytes(raw.data))
    assert values["width"] == 2.0
    assert values["duration"] == 0.16
    assert "note" not in values


def test_values_of_another_file_are_not_kept() -> None:
    startup = [metadata_frame(duration=99.0, filesize=1.0, keyframes={"times": []}, title="t")]
    raw = MemoryFile()
    writer = FlvWriter(raw, startup)
    writer.append(groups(1))
    assert metadata_of(bytes(raw.data)) == {"title": "t"}


@pytest.mark.parametrize(
    ("frames", "flags"), [([sound(0)], 4), ([picture(0, key=True)], 1), (groups(1), 5)], ids=["a", "v", "av"]
)
def test_file_header_says_which_media_there_are(frames: list[MediaFrame], flags: int) -> None:
    assert write_file(frames)[4] == flags


def test_file_header_changes_with_the_first_video() -> None:
    raw = MemoryFile()
    writer = FlvWriter(raw)
    writer.append([sound(0)])
    assert raw.data[4] == 4
    writer.append([AVC_HEADER, picture(40, key=True)])
    assert raw.data[4] == 5


def test_times_continue_when_timestamps_wrap() -> None:
    end = 1 << 32
    frames = [
        picture(end - 2000, key=True),
        picture(end - 1000),
        picture(0, key=True),
        picture(1000),
        picture(2000, key=True),
    ]
    data = write_file(frames)
    values = metadata_of(data)
    assert values["duration"] == 4.0
    assert [time for time, _ in index_of(data)] == [(end - 2000) / 1000, end / 1000, (end + 2000) / 1000]
    assert frames_in(data)[1:] == frames


@given(FRAMES, FRAMES, st.integers(0, 1300))
def test_full_disk_leaves_whole_tags(first: list[MediaFrame], second: list[MediaFrame], room: int) -> None:
    raw = MemoryFile(room)
    writer = FlvWriter(raw, space=0)
    whole: list[MediaFrame] = []
    for frames in (first, second):
        try:
            writer.append(frames)
        except OSError:
            whole += frames[: writer.whole]
            break
        whole += frames
        assert writer.whole == len(frames)
    data = bytes(raw.data)
    assert len(data) == writer.size
    tags = list(read_tags(io.BytesIO(data)))
    assert [tag.to_frame() for tag in tags][1:] == whole
    assert not tags or tags[-1].end == len(data)
    if whole:
        writer.finish()
        assert metadata_of(bytes(raw.data))["filesize"] == float(len(data))


@given(FRAMES, st.data())
def test_written_file_cut_anywhere_has_the_whole_tags_before(
    frames: list[MediaFrame], data: st.DataObject
) -> None:
    file = write_file(frames, space=50)
    cut = data.draw(st.integers(0, len(file)))
    tags = list(read_tags(io.BytesIO(file)))
    got = list(read_tags(io.BytesIO(file[:cut])))
    assert got == [tag for tag in tags if tag.end <= cut]


def test_metadata_that_cannot_be_encoded_is_left_out() -> None:
    looped = b"\x03\x00\x01a\x07\x00\x01\x00\x00\x09"
    payload = b"\x02\x00\x0aonMetaData\x03\x00\x04loop" + looped + b"\x00\x01w\x00" + bytes(8) + b"\0\0\x09"
    assert decode_metadata(payload) is not None
    data = write_file(groups(1), [MediaFrame(MediaKind.DATA, 0, payload)])
    assert metadata_of(data)["w"] == 0.0
    assert "loop" not in metadata_of(data)


def test_metadata_without_room_in_a_tag_is_left_out() -> None:
    raw = MemoryFile()
    writer = FlvWriter(
        raw, [metadata_frame(note="x" * (MAX_PAYLOAD_SIZE - 100))], {"rtmprelay_app": "live"}, space=600
    )
    writer.append(groups(1))
    assert metadata_of(bytes(raw.data)) == {"rtmprelay_app": "live"}
    writer.finish()
    assert metadata_of(bytes(raw.data))["rtmprelay_app"] == "live"
    assert "note" not in metadata_of(bytes(raw.data))


def test_nothing_is_written_before_the_first_append() -> None:
    raw = MemoryFile()
    writer = FlvWriter(raw, STARTUP)
    writer.finish()
    assert (raw.writes, raw.synced, writer.size) == ([], 0, 0)
    writer.append([])
    assert frames_in(bytes(raw.data))[1:] == STARTUP


def test_frames_are_written_in_one_write() -> None:
    raw = MemoryFile()
    writer = FlvWriter(raw, STARTUP)
    writer.append(groups(1))
    writer.append(groups(1, begin_ms=200))
    assert len(raw.writes) == 2
    assert writer.whole == 10


def test_failed_first_write_leaves_no_half_tag() -> None:
    raw = MemoryFile(room=100)
    writer = FlvWriter(raw, STARTUP)
    with pytest.raises(OSError, match="No space"):
        writer.append(groups(1))
    assert writer.whole == 0
    assert writer.size == len(raw.data) == len(file_header())


def test_file_header_that_does_not_fit_leaves_an_empty_file() -> None:
    raw = MemoryFile(room=12)
    writer = FlvWriter(raw, STARTUP)
    with pytest.raises(OSError, match="No space"):
        writer.append(groups(1))
    assert (writer.whole, writer.size, bytes(raw.data)) == (0, 0, b"")
