"""The boxes of one fragment (ISO/IEC 14496-12, section 8.8): where its samples are, how long they last, and the samples."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import attrs

from rtmprelay.flv.tags import Content
from rtmprelay.mp4.boxes import BOX_HEADER_SIZE, box_header
from rtmprelay.mp4.tracks import VIDEO_TRACK_ID

#: Flags of a sample (section 8.8.3.1): what it depends on, what depends on it, where to start.
KEY_PICTURE = 0x02000000
INTER_PICTURE = 0x01010000
DISPOSABLE_PICTURE = 0x01810000

MOOF = struct.Struct(">I4sI4sII")
# traf; tfhd with offsets that count from the moof; tfdt with 64 bits; trun.
TRAF = struct.Struct(">I4s" + "I4sII" + "I4sIQ" + "I4sIIi")
_TFHD_FLAGS = 0x020000
_TFDT_VERSION_1 = 1 << 24
# Version 1, for composition times that may be negative. The fields: offset, duration, size, flags, composition.
_VIDEO_RUN_FLAGS = 1 << 24 | 0x000F01
_AUDIO_RUN_FLAGS = 0x000301

# Duration, size, flags and composition time of a picture; duration and size of a packet of sound.
VIDEO_ENTRY = struct.Struct(">IIIi")
AUDIO_ENTRY = struct.Struct(">II")


@attrs.frozen
class SampleRun:
    """The samples of one track in a fragment.

    Attributes:
        decode_time: 64 bits, in ticks of the track.
        entries: A `VIDEO_ENTRY` or an `AUDIO_ENTRY` for each sample.
    """

    track_id: int
    decode_time: int
    entries: bytes
    media: Sequence[bytes | memoryview]

    @property
    def size(self) -> int:
        return sum(map(len, self.media))


def picture_flags(content: Content) -> int:
    if content.keyframe:
        return KEY_PICTURE
    return DISPOSABLE_PICTURE if content.disposable else INTER_PICTURE


def fragment(runs: Sequence[SampleRun], number: int = 0) -> bytes:
    """`moof` and `mdat` of these runs."""
    moof_size = MOOF.size + sum(TRAF.size + len(run.entries) for run in runs)
    parts: list[bytes | memoryview] = [MOOF.pack(moof_size, b"moof", 16, b"mfhd", 0, number)]
    offset = moof_size + BOX_HEADER_SIZE
    for run in runs:
        parts += (_traf(run, offset), run.entries)
        offset += run.size
    parts.append(box_header(b"mdat", offset - moof_size - BOX_HEADER_SIZE))
    for run in runs:
        parts += run.media
    return b"".join(parts)


def _traf(run: SampleRun, offset: int) -> bytes:
    flags = _VIDEO_RUN_FLAGS if run.track_id == VIDEO_TRACK_ID else _AUDIO_RUN_FLAGS
    size = TRAF.size + len(run.entries)
    header = (size, b"traf", 16, b"tfhd", _TFHD_FLAGS, run.track_id)
    time = (20, b"tfdt", _TFDT_VERSION_1, run.decode_time)
    samples = (20 + len(run.entries), b"trun", flags, len(run.media), offset)
    return TRAF.pack(*header, *time, *samples)
