from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.errors import BadRecordingError, LocalProtocolError
from rtmprelay.flv import Codec
from rtmprelay.flv.container import (
    MAX_PAYLOAD_SIZE,
    FlvTag,
    encode_tag,
    encode_tags,
    file_header,
    read_tags,
    tag_size,
)
from rtmprelay.flv.script import decode_metadata
from rtmprelay.flv.tags import TagInfo, describe_audio, describe_video
from rtmprelay.media import MediaFrame, MediaKind

FRAMES = [
    MediaFrame(MediaKind.DATA, 0, b"\x02\x00\x0aonMetaData\x05"),
    MediaFrame(MediaKind.VIDEO, 0, b"\x17\x00\x00\x00\x00config"),
    MediaFrame(MediaKind.AUDIO, 23, b""),
    MediaFrame(MediaKind.VIDEO, 0x01_00_00_02, b"\x17\x01\x00\x00\x00frame"),
]
FILE = file_header() + b"".join(encode_tag(frame) for frame in FRAMES)


def tags_of(data: bytes) -> list[FlvTag]:
    return list(read_tags(io.BytesIO(data)))


def frames_of(data: bytes) -> list[MediaFrame | None]:
    return [tag.to_frame() for tag in tags_of(data)]


def test_file_header_bytes() -> None:
    assert file_header() == b"FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"
    assert file_header(has_audio=False)[4] == 1
    assert file_header(has_video=False)[4] == 4


def test_tag_has_these_bytes() -> None:
    tag = encode_tag(MediaFrame(MediaKind.VIDEO, 0x12345678, b"abc"))
    assert tag == b"\x09\x00\x00\x03\x34\x56\x78\x12\x00\x00\x00abc\x00\x00\x00\x0e"


def test_tags_are_read_as_they_were_written() -> None:
    assert frames_of(FILE) == FRAMES
    assert tags_of(FILE)[-1].end == len(FILE)


@given(
    st.lists(
        st.builds(MediaFrame, st.sampled_from(MediaKind), st.integers(0, 0xFFFFFFFF), st.binary(max_size=40))
    )
)
def test_any_frames_are_read_as_they_were_written(frames: list[MediaFrame]) -> None:
    data = file_header() + b"".join(map(encode_tag, frames))
    assert frames_of(data) == frames
    assert encode_tags(frames) == data[13:]
    assert [tag_size(frame.payload) for frame in frames] == [len(encode_tag(frame)) for frame in frames]


@pytest.mark.parametrize("timestamp", [0xFFFFFE, 0xFFFFFF, 0x1000000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_timestamps_have_32_bits(timestamp: int) -> None:
    data = file_header() + encode_tag(MediaFrame(MediaKind.AUDIO, timestamp, b"x"))
    assert [tag.timestamp_ms for tag in tags_of(data)] == [timestamp]


def test_timestamps_of_more_bits_wrap() -> None:
    frame = MediaFrame(MediaKind.AUDIO, (1 << 32) + 5, b"x")
    assert encode_tag(frame) == encode_tag(MediaFrame(MediaKind.AUDIO, 5, b"x"))


def test_larger_payloads_than_24_bits_are_refused() -> None:
    assert len(encode_tag(MediaFrame(MediaKind.VIDEO, 0, bytes(MAX_PAYLOAD_SIZE)))) == MAX_PAYLOAD_SIZE + 15
    with pytest.raises(LocalProtocolError) as refused:
        encode_tag(MediaFrame(MediaKind.VIDEO, 0, bytes(MAX_PAYLOAD_SIZE + 1)))
    assert str(refused.value) == "An FLV tag holds at most 16777215 bytes; this frame has 16777216."


def test_a_file_cut_anywhere_is_read_up_to_its_last_whole_tag() -> None:
    ends = [13]
    for frame in FRAMES:
        ends.append(ends[-1] + len(encode_tag(frame)))
    for cut in range(len(FILE) + 1):
        whole = [end for end in ends if end <= cut]
        assert frames_of(FILE[:cut]) == FRAMES[: max(0, len(whole) - 1)]


@pytest.mark.parametrize("zeros", [1, 11, 15, 4096])
def test_zeros_after_a_power_cut_are_no_tags(zeros: int) -> None:
    assert frames_of(FILE + bytes(zeros)) == FRAMES


def test_a_tag_whose_end_became_zeros_is_not_whole() -> None:
    assert frames_of(FILE[:-8] + bytes(4096)) == FRAMES[:-1]


def test_reading_stops_at_the_first_torn_tag() -> None:
    assert frames_of(FILE[:-1] + b"x" + encode_tag(FRAMES[0])) == FRAMES[:-1]


def test_tags_of_other_types_are_read_but_are_no_frames() -> None:
    encrypted, unknown = bytearray(encode_tag(FRAMES[1])), bytearray(encode_tag(FRAMES[2]))
    encrypted[0], unknown[0] = 0x29, 0x0F
    tags = tags_of(file_header() + encrypted + unknown)
    assert tags == [
        FlvTag(13, 0x29, 0, FRAMES[1].payload),
        FlvTag(13 + len(encrypted), 0x0F, 23, b""),
    ]
    assert [tag.kind for tag in tags] == [None, None]
    assert [tag.to_frame() for tag in tags] == [None, None]


@pytest.mark.parametrize("size", [11, 1024])
def test_a_longer_file_header_is_skipped(size: int) -> None:
    header = b"FLV\x01\x04" + size.to_bytes(4) + bytes(size - 9) + bytes(4)
    assert [tag.offset for tag in tags_of(header + encode_tag(FRAMES[0]))] == [size + 4]


class OneByteAtATime(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, 1))


def test_short_reads_do_not_end_the_file() -> None:
    assert [tag.to_frame() for tag in read_tags(OneByteAtATime(FILE))] == FRAMES


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            b"\x00\x00\x00\x18ftypmp42",
            r"This is not an FLV file: it begins with b'\x00\x00\x00\x18ftypm' and not with b'FLV\x01'.",
        ),
        (b"X", r"This is not an FLV file: it begins with b'X' and not with b'FLV\x01'."),
        (
            b"FLV\x02\x05\x00\x00\x00\x09",
            r"This is not an FLV file: it begins with b'FLV\x02\x05\x00\x00\x00\t' and not with b'FLV\x01'.",
        ),
        (
            b"FLV\x01\x05\x00\x00\x00\x08",
            "This is not a usable FLV file: its header claims to have 8 bytes.",
        ),
        (
            b"FLV\x01\x05\x00\x00\x04\x01",
            "This is not a usable FLV file: its header claims to have 1025 bytes.",
        ),
    ],
)
def test_file_that_is_not_flv_is_refused(data: bytes, sentence: str) -> None:
    with pytest.raises(BadRecordingError) as refused:
        read_tags(io.BytesIO(data))
    assert str(refused.value) == sentence


@given(st.binary(max_size=200))
def test_arbitrary_tags_never_raise(tail: bytes) -> None:
    tags = tags_of(file_header() + tail)
    assert [tag.offset for tag in tags] == [13, *(tag.end for tag in tags)][: len(tags)]


# -- what a real encoder writes -------------------------------------------------------------------


def make_flv(path: Path, video: list[str], audio: list[str]) -> None:
    inputs = ["-f", "lavfi", "-i", "testsrc=size=160x120:rate=10:duration=1"]
    inputs += ["-f", "lavfi", "-i", "sine=duration=1"]
    ffmpeg = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    command = [ffmpeg, "-v", "error", "-y", *inputs, "-pix_fmt", "yuv420p"]
    done = subprocess.run(
        [*command, *video, *audio, "-f", "flv", str(path)], capture_output=True, text=True, check=False
    )
    if "Unknown encoder" in done.stderr:
        pytest.skip(f"This ffmpeg cannot encode with {video[1]} and {audio[1]}.")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("video", "audio", "video_codec", "audio_codec"),
    [
        (["-c:v", "libx264", "-g", "5"], ["-c:a", "aac"], "H.264 AVC", "AAC"),
        (
            ["-c:v", "libx265", "-x265-params", "keyint=5:log-level=none"],
            ["-c:a", "aac"],
            "H.265 HEVC",
            "AAC",
        ),
        (["-c:v", "libaom-av1", "-g", "5", "-cpu-used", "8"], ["-c:a", "aac"], "AV1", "AAC"),
        (["-c:v", "libvpx-vp9", "-g", "5"], ["-c:a", "libmp3lame", "-ar", "44100"], "VP9", "MP3"),
        (["-c:v", "flv", "-g", "5"], ["-c:a", "libspeex", "-ar", "16000"], "Sorenson H.263", "Speex"),
    ],
    ids=["h264", "hevc", "av1", "vp9", "sorenson"],
)
def test_a_file_made_by_ffmpeg(
    tmp_path: Path, video: list[str], audio: list[str], video_codec: str, audio_codec: str
) -> None:
    path = tmp_path / "made.flv"
    make_flv(path, video, audio)
    with path.open("rb") as file:
        frames = [frame for tag in read_tags(file) if (frame := tag.to_frame())]
    assert file_header() + b"".join(map(encode_tag, frames)) == path.read_bytes()

    metadata = decode_metadata(frames[0].payload)
    assert metadata is not None
    assert (metadata["width"], metadata["height"]) == (160.0, 120.0)

    pictures = [describe_video(frame.payload) for frame in frames if frame.kind is MediaKind.VIDEO]
    sounds = [describe_audio(frame.payload) for frame in frames if frame.kind is MediaKind.AUDIO]
    assert_stream(pictures, video_codec, has_header=video_codec != "Sorenson H.263")
    assert_stream(sounds, audio_codec, has_header=audio_codec == "AAC")
    coded = [info for info in pictures if info.coded]
    assert len(coded) == 10
    assert [at for at, info in enumerate(coded) if info.keyframe] == [0, 5]


def assert_stream(infos: list[TagInfo], codec: str, *, has_header: bool) -> None:
    assert {info.codec for info in infos} == {Codec(codec)}
    headers = [at for at, info in enumerate(infos) if info.sequence_header]
    # FFmpeg says the configuration of AV1 twice.
    assert headers in ([0], [0, 1]) if has_header else not headers
