"""Recordings for the tests of the catalogue: by ffmpeg, by our recorder's writer, damaged, and hostile."""

from __future__ import annotations

import functools
import os
import random
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rtmprelay.flv.container import encode_tag, file_header, read_tags
from rtmprelay.media import MediaFrame, MediaKind


@functools.cache
def ffmpeg() -> str:
    """The ffmpeg that the tests use."""
    import imageio_ffmpeg

    return str(imageio_ffmpeg.get_ffmpeg_exe())


@functools.cache
def encoders() -> str:
    """What that ffmpeg can write."""
    return subprocess.run(
        [ffmpeg(), "-hide_banner", "-encoders"], capture_output=True, text=True, check=True
    ).stdout


SOURCES = ["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25", "-f", "lavfi", "-i", "sine=frequency=440:sample_rate=44100"]  # fmt: skip
NOISE = ["-f", "lavfi", "-i", "nullsrc=size=320x180:rate=25,geq=random(1)*255:128:128"]

#: Arguments of ffmpeg for each kind of file; the name says what is in it.
KINDS: dict[str, list[str]] = {
    "h264_aac": [*SOURCES, "-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-c:a", "aac"],
    "h264_noise": [*NOISE, "-c:v", "libx264", "-preset", "ultrafast", "-g", "25", "-b:v", "4M"],
    "h264_b_frames": [*SOURCES, "-c:v", "libx264", "-preset", "veryfast", "-bf", "3", "-g", "30", "-c:a", "aac"],
    "hevc_aac": [*SOURCES, "-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error", "-g", "50", "-c:a", "aac"],
    "av1_aac": [*SOURCES, "-c:v", "libaom-av1", "-cpu-used", "8", "-usage", "realtime", "-g", "50", "-c:a", "aac"],
    "sorenson_mp3": [*SOURCES, "-c:v", "flv1", "-g", "50", "-c:a", "libmp3lame"],
    "audio_only": [*SOURCES[4:], "-c:a", "aac"],
}  # fmt: skip

_NEEDS = {"hevc_aac": "libx265", "av1_aac": "libaom-av1", "sorenson_mp3": "libmp3lame"}


def make_recording(path: Path, kind: str = "h264_aac", seconds: float = 4.0) -> Path:
    """A file by ffmpeg; skips the test if it cannot write that kind."""
    if _NEEDS.get(kind, "aac") not in encoders():
        pytest.skip(f"this ffmpeg has no {_NEEDS[kind]}")
    command = [ffmpeg(), "-v", "error", "-y", *KINDS[kind], "-t", str(seconds), "-f", "flv", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this ffmpeg cannot write {kind}: {done.stderr.strip()[:200]}")
    return path


# -- what went wrong -----------------------------------------------------------------------------------------


def _tag_offsets(data: bytes) -> list[int]:
    offsets, at = [], 13
    while at + 15 <= len(data):
        offsets.append(at)
        at += 15 + int.from_bytes(data[at + 1 : at + 4], "big")
    return offsets


def _middle(data: bytes) -> int:
    offsets = _tag_offsets(data)
    return offsets[len(offsets) // 2]


def _replaced(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def _noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def _next_trailer(data: bytes, at: int) -> int:
    return at + 11 + int.from_bytes(data[at + 1 : at + 4], "big")


#: Each kind of damage, as what it does to a file.
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut in a tag": lambda data: data[: _middle(data) + 100],
    "zero tail": lambda data: _replaced(data, len(data) - 3_000, bytes(3_000)),
    "zeros behind": lambda data: data + bytes(5_000),
    "garbage": lambda data: _replaced(data, _middle(data) + 5, _noise(10_000)),
    "bytes removed": lambda data: data[: _middle(data) + 7] + data[_middle(data) + 5_007 :],
    "zero hole": lambda data: _replaced(data, _middle(data) + 3, bytes(20_000)),
    "wrong size": lambda data: _replaced(data, _middle(data) + 1, b"\x00\x12\x34"),
    "huge size": lambda data: _replaced(data, _middle(data) + 1, b"\xff\xff\xff"),
    "wrong trailer": lambda data: _replaced(data, _next_trailer(data, _middle(data)), b"\x00\x00\x00\x07"),
    "stream id": lambda data: _replaced(data, _middle(data) + 8, b"\x00\x00\x05"),
    "stray bytes at the end": lambda data: data + b"1234567",
    "garbage at the end": lambda data: data + _noise(70_000),
    "header lost": lambda data: bytes(13) + data[13:],
    "header and tags lost": lambda data: _noise(600) + data[600:],
    "a byte too many": lambda data: data[: _middle(data)] + b"x" + data[_middle(data) :],
    "many places": lambda data: functools.reduce(
        lambda file, at: _replaced(file, at, b"\xee\xee"), _tag_offsets(data)[5::17], data
    ),
}


def hostile_flv_inside(data: bytes, count: int = 3) -> bytes:
    """A file whose payloads are whole files."""
    tags = [
        encode_tag(MediaFrame(MediaKind.VIDEO, 40 * number, b"\x27\x01\0\0\0" + data))
        for number in range(count)
    ]
    return file_header() + b"".join(tags)


def hostile_endless_chain(count: int = 400, seed: int = 1) -> bytes:
    """A file with a second chain of tags that goes on through the payloads and across the headers of the true one."""
    rng = random.Random(seed)
    body = bytearray(file_header())
    # Where the next false tag begins, as soon as there are bytes for it.
    false_at: int | None = None
    previous = b""
    for number in range(count):
        size = rng.randrange(150, 400)
        begin = len(body)
        payload_at = begin + 11
        payload = bytearray(b"\x27\x01\0\0\0" + rng.randbytes(size - 5))
        if false_at is None:
            false_at = payload_at + 20
        # The false tag ends in the middle of the next true payload, and so covers the header of that.
        end = payload_at + size + 4 + 11 + 60 if number + 1 < count else payload_at + size
        false_size = end - 4 - false_at - 11
        header = bytes([9]) + false_size.to_bytes(3, "big") + bytes(7)
        place = false_at - payload_at
        payload[place : place + 11] = header
        if number:
            payload[place - 4 : place] = previous
        previous = (false_size + 11).to_bytes(4, "big")
        body += bytes([9]) + size.to_bytes(3, "big") + (40 * number).to_bytes(4, "big")[1:] + bytes(4)
        body += payload + (size + 11).to_bytes(4, "big")
        false_at = end
    return bytes(body)


def frames_file(frames: Sequence[MediaFrame]) -> bytes:
    """Header and tags, nothing else."""
    return file_header() + b"".join(map(encode_tag, frames))


def record(
    folder: Path, frames: Sequence[MediaFrame], key: str, begin: float, segment: float | None = None
) -> list[Path]:
    """Files by the recorder of the server, as if the frames had come one by one from that time on."""
    from rtmprelay.recording.flv_files import FlvFiles, RecordingContext
    from rtmprelay.recording.settings import RecordingSettings
    from rtmprelay.streams.frames import live_frame

    now = begin
    before = set(folder.iterdir())
    settings = RecordingSettings(folder=folder, segment_duration=segment)
    files = FlvFiles(key, RecordingContext(settings, lambda: now, lambda: now, lambda _: None))
    first = frames[0].timestamp_ms
    for frame in frames:
        now = begin + (frame.timestamp_ms - first) / 1000
        files.write([live_frame(frame)])
    files.finish("the publisher ended")
    return sorted(set(folder.iterdir()) - before)


def frames_of(path: Path) -> list[MediaFrame]:
    """All frames of a file."""
    with path.open("rb") as file:
        return [frame for tag in read_tags(file) if (frame := tag.to_frame()) is not None]


def age(path: Path, seconds: float = 3600.0) -> Path:
    """Make it look as if nobody had written to a file for a while."""
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path
