from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.errors import BadRecordingError, LocalProtocolError
from rtmprelay.flv import Codec
from rtmprelay.flv.container import MAX_PAYLOAD_SIZE, FlvTag, TagReader, encode_tag, file_header, read_tags
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


def frames_of(reader: TagReader) -> list[MediaFrame | None]:
    return [tag.to_frame() for tag in reader]


def test_file_header_bytes() -> None:
    assert file_header() == b"FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"
    assert file_header(has_audio=False)[4] == 1
    assert file_header(has_video=False)[4] == 4


def test_tag_bytes() -> None:
    tag = encode_tag(MediaFrame(MediaKind.VIDEO, 0x12345678, b"abc"))
    assert tag == b"\x09\x00\x00\x03\x34\x56\x78\x12\x00\x00\x00abc\x00\x00\x00\x0e"


def test_round_trip() -> None:
    reader = read_tags(io.BytesIO(FILE))
    assert frames_of(reader) == FRAMES
    assert (reader.good_until, reader.truncated) == (len(FILE), False)
    assert (reader.has_audio, reader.has_video) == (True, True)


@given(
    st.lists(
        st.builds(MediaFrame, st.sampled_from(MediaKind), st.integers(0, 0xFFFFFFFF), st.binary(max_size=40))
    )
)
def test_any_frames_round_trip(frames: list[MediaFrame]) -> None:
    data = file_header() + b"".join(map(encode_tag, frames))
    assert frames_of(TagReader(io.BytesIO(data))) == frames


@pytest.mark.parametrize("timestamp", [0xFFFFFE, 0xFFFFFF, 0x1000000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_timestamps_of_more_than_24_bits(timestamp: int) -> None:
    data = file_header() + encode_tag(MediaFrame(MediaKind.AUDIO, timestamp, b"x"))
    assert [tag.timestamp_ms for tag in TagReader(io.BytesIO(data))] == [timestamp]


def test_a_payload_of_24_bits_is_the_limit() -> None:
    assert len(encode_tag(MediaFrame(MediaKind.VIDEO, 0, bytes(MAX_PAYLOAD_SIZE)))) == MAX_PAYLOAD_SIZE + 15
    with pytest.raises(LocalProtocolError, match="at most 16777215 bytes; this frame has 16777216"):
        encode_tag(MediaFrame(MediaKind.VIDEO, 0, bytes(MAX_PAYLOAD_SIZE + 1)))


def test_every_cut_gives_whole_tags_only() -> None:
    ends = [13]
    for frame in FRAMES:
        ends.append(ends[-1] + len(encode_tag(frame)))
    for cut in range(len(FILE) + 1):
        reader = TagReader(io.BytesIO(FILE[:cut]))
        whole = [end for end in ends if end <= cut]
        assert frames_of(reader) == FRAMES[: max(0, len(whole) - 1)]
        assert reader.good_until == (whole[-1] if whole else 0)
        assert reader.truncated == (cut not in ends)


@pytest.mark.parametrize("zeros", [1, 11, 15, 4096])
def test_zeros_after_a_power_cut_are_no_tags(zeros: int) -> None:
    reader = TagReader(io.BytesIO(FILE + bytes(zeros)))
    assert frames_of(reader) == FRAMES
    assert (reader.good_until, reader.truncated) == (len(FILE), True)


def test_a_tag_whose_end_became_zeros_is_not_whole() -> None:
    reader = TagReader(io.BytesIO(FILE[:-8] + bytes(4096)))
    assert frames_of(reader) == FRAMES[:-1]
    assert reader.truncated


def test_the_end_stays_the_end() -> None:
    reader = TagReader(io.BytesIO(FILE[:-1] + encode_tag(FRAMES[0])))
    list(reader)
    assert list(reader) == []


def test_tags_of_other_types_are_kept_but_are_no_frames() -> None:
    encrypted, unknown = bytearray(encode_tag(FRAMES[1])), bytearray(encode_tag(FRAMES[2]))
    encrypted[0], unknown[0] = 0x29, 0x0F
    tags = list(TagReader(io.BytesIO(file_header() + encrypted + unknown)))
    assert tags == [
        FlvTag(13, 0x29, 0, FRAMES[1].payload),
        FlvTag(13 + len(encrypted), 0x0F, 23, b""),
    ]
    assert [tag.kind for tag in tags] == [None, None]
    assert [tag.to_frame() for tag in tags] == [None, None]


def test_a_longer_file_header_is_skipped() -> None:
    data = b"FLV\x01\x04\x00\x00\x00\x0bxx\x00\x00\x00\x00" + encode_tag(FRAMES[0])
    reader = TagReader(io.BytesIO(data))
    assert [tag.offset for tag in reader] == [15]
    assert (reader.has_audio, reader.has_video, reader.good_until) == (True, False, len(data))


class OneByteAtATime(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, 1))


def test_short_reads_are_no_end() -> None:
    assert frames_of(TagReader(OneByteAtATime(FILE))) == FRAMES


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\x00\x00\x00\x18ftypmp42", r"not an FLV file: it begins with b'\\x00\\x00\\x00\\x18ftypm'"),
        (b"X", "not an FLV file: it begins with b'X'"),
        (b"FLV\x02\x05\x00\x00\x00\x09", "not an FLV file"),
        (b"FLV\x01\x05\x00\x00\x00\x08", "its header claims to have 8 bytes"),
        (b"FLV\x01\x05\xff\xff\xff\xff", "its header claims to have 4294967295 bytes"),
    ],
)
def test_what_is_not_flv_is_refused(data: bytes, sentence: str) -> None:
    with pytest.raises(BadRecordingError, match=sentence):
        TagReader(io.BytesIO(data))


@given(st.binary(max_size=200))
def test_arbitrary_tags_never_raise(tail: bytes) -> None:
    reader = TagReader(io.BytesIO(file_header() + tail))
    assert sum(tag.end - tag.offset for tag in reader) == reader.good_until - 13


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
        reader = TagReader(file)
        frames = [frame for tag in reader if (frame := tag.to_frame())]
    assert not reader.truncated
    assert reader.good_until == path.stat().st_size
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
