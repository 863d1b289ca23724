"""Frames as fragments of an MP4 (`moof` and `mdat`), made once for all readers of a stream.

Readers begin at different times, and each has a timeline that begins at zero. So a fragment is made without a place
on a timeline: where the number of the fragment and the decode time of each track belong, `placing` puts in those of
the reader. Until then the eight bytes of a decode time hold the RTMP timestamp of the first sample, and how long the
samples last together.

A fragment is made of what arrived together: to wait for a whole group of pictures would cost seconds of delay. How long
the last picture of a fragment lasts is not known then, so it is said to last as long as usual; the next fragment has the
exact time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import attrs

from rtmprelay.flv.contents import Content, audio_content, video_content
from rtmprelay.flv.sampling import opus_packet_samples
from rtmprelay.media import MediaFrame, MediaKind, milliseconds_between
from rtmprelay.mp4.boxes import BOX_HEADER_SIZE, box_header
from rtmprelay.mp4.tracks import AUDIO_TRACK_ID, VIDEO_TRACK_ID, AnyTrack, AudioTrack, VideoTrack

#: How far the times of sound may be from what RTMP says before they are put right. Timestamps in milliseconds are
#: never exact, and many encoders let them jitter; following that would tear gaps of some samples into the sound.
SOUND_TOLERANCE_MS = 25

#: No sample lasts longer, whatever the timestamps say: the fragment behind a gap has its own decode time.
LONGEST_SAMPLE_MS = 60_000

#: Flags of a sample (ISO/IEC 14496-12, section 8.8.3.1): what it depends on, what depends on it, where to start.
_KEY_PICTURE = 0x02000000
_INTER_PICTURE = 0x01010000
_DISPOSABLE_PICTURE = 0x01810000

_MOOF = struct.Struct(">I4sI4sII")
# traf; tfhd with offsets that count from the moof; tfdt with 64 bits; trun.
_TRAF = struct.Struct(">I4s" + "I4sII" + "I4sIII" + "I4sIIi")
_TFHD_FLAGS = 0x020000
_TFDT_VERSION_1 = 1 << 24
# Version 1, for composition times that may be negative. Which fields there are: offset, duration, size, flags, composition.
_VIDEO_RUN_FLAGS = 1 << 24 | 0x000F01
_AUDIO_RUN_FLAGS = 0x000301

VIDEO_ENTRY = struct.Struct(">IIIi")
AUDIO_ENTRY = struct.Struct(">II")

MOOF_HEADER_SIZE = _MOOF.size
TRAF_HEADER_SIZE = _TRAF.size

_U32 = 0xFFFFFFFF


@attrs.frozen
class _Sample:
    timestamp_ms: int
    content: Content
    data: memoryview


@attrs.frozen
class _Run:
    """The samples of one track in a fragment."""

    first_ms: int
    entries: bytes
    media: list[memoryview]
    length: int

    @property
    def size(self) -> int:
        return sum(map(len, self.media))


@attrs.frozen(cache_hash=True)
class FragmentEncoder:
    """Makes fragments for tracks. Equal ones, of readers of the same stream, share their results."""

    video: VideoTrack | None
    audio: AudioTrack | None

    def is_changed_by(self, frame: MediaFrame) -> bool:
        """Whether a frame brings decoder configuration that these tracks were not made for."""
        content, track = self._look_at(frame)
        if content is None or not content.configuration or content.is_empty:
            return False
        return (
            track is None or content.codec != track.codec or content.of(frame.payload) != track.configuration
        )

    def encode(self, frames: Iterable[MediaFrame]) -> bytes:
        """One fragment with all coded frames of the tracks, or nothing if there are none."""
        pictures: list[_Sample] = []
        packets: list[_Sample] = []
        for frame in frames:
            self._sort(frame, pictures, packets)
        runs: list[tuple[int, _Run]] = []
        if pictures and self.video is not None:
            runs.append((VIDEO_TRACK_ID, _picture_run(self.video, pictures)))
        if packets and self.audio is not None:
            runs.append((AUDIO_TRACK_ID, _sound_run(self.audio, packets)))
        return _fragment(runs) if runs else b""

    def _sort(self, frame: MediaFrame, pictures: list[_Sample], packets: list[_Sample]) -> None:
        """Put coded media where it belongs; what no decoder of these tracks could use is left out."""
        content, track = self._look_at(frame)
        if content is None or track is None or content.configuration or content.codec != track.codec:
            return
        if not content.is_empty:
            data = memoryview(frame.payload)[content.begin : content.end]
            target = pictures if frame.kind is MediaKind.VIDEO else packets
            target.append(_Sample(frame.timestamp_ms, content, data))

    def _look_at(self, frame: MediaFrame) -> tuple[Content | None, AnyTrack | None]:
        """What is in a frame, and the track to which it would belong."""
        if frame.kind is MediaKind.VIDEO:
            return video_content(frame.payload), self.video
        if frame.kind is MediaKind.AUDIO:
            return audio_content(frame.payload), self.audio
        return None, None


def _picture_run(track: VideoTrack, pictures: Sequence[_Sample]) -> _Run:
    """Pictures last until the next one. Where time stands still or runs backwards, decoding goes on by one tick."""
    first_ms = pictures[0].timestamp_ms
    decode_times: list[int] = []
    shown_times: list[int] = []
    latest = -1
    for picture in pictures:
        time = milliseconds_between(first_ms, picture.timestamp_ms)
        latest = min(max(time, latest + 1), latest + LONGEST_SAMPLE_MS)
        decode_times.append(latest)
        shown_times.append(time + picture.content.composition_ms)
    end = latest + track.frame_ms
    entries = b"".join(
        VIDEO_ENTRY.pack(
            following - decoded, len(picture.data), _flags(picture.content), _within(shown - decoded)
        )
        for picture, decoded, shown, following in zip(
            pictures, decode_times, shown_times, [*decode_times[1:], end], strict=True
        )
    )
    return _Run(first_ms, entries, [picture.data for picture in pictures], end)


def _within(composition_ms: int) -> int:
    return max(-LONGEST_SAMPLE_MS, min(composition_ms, LONGEST_SAMPLE_MS))


def _flags(content: Content) -> int:
    if content.keyframe:
        return _KEY_PICTURE
    return _DISPOSABLE_PICTURE if content.disposable else _INTER_PICTURE


def _sound_run(track: AudioTrack, packets: Sequence[_Sample]) -> _Run:
    """Packets last as long as they have samples, unless the timestamps say that some are missing."""
    first_ms = packets[0].timestamp_ms
    rate = track.timescale
    tolerance = rate * SOUND_TOLERANCE_MS // 1000
    longest = rate * LONGEST_SAMPLE_MS // 1000
    lengths = [_packet_length(track, packet.data) for packet in packets]
    time = 0
    for index in range(1, len(packets)):
        time += lengths[index - 1]
        said = milliseconds_between(first_ms, packets[index].timestamp_ms) * rate // 1000
        if abs(said - time) > tolerance:
            length = min(max(1, lengths[index - 1] + said - time), longest)
            time += length - lengths[index - 1]
            lengths[index - 1] = length
    entries = b"".join(
        AUDIO_ENTRY.pack(length, len(packet.data)) for length, packet in zip(lengths, packets, strict=True)
    )
    return _Run(first_ms, entries, [packet.data for packet in packets], time + lengths[-1])


def _packet_length(track: AudioTrack, data: memoryview) -> int:
    if track.packet_samples is not None:
        return track.packet_samples
    # A packet that makes no sense is taken for one of the usual 20 ms.
    return opus_packet_samples(bytes(data[:2])) or track.timescale // 50


def _fragment(runs: Sequence[tuple[int, _Run]]) -> bytes:
    moof_size = MOOF_HEADER_SIZE + sum(TRAF_HEADER_SIZE + len(run.entries) for _, run in runs)
    parts: list[bytes | memoryview] = [_MOOF.pack(moof_size, b"moof", 16, b"mfhd", 0, 0)]
    offset = moof_size + BOX_HEADER_SIZE
    for track_id, run in runs:
        parts += (_traf(track_id, run, offset), run.entries)
        offset += run.size
    parts.append(box_header(b"mdat", offset - moof_size - BOX_HEADER_SIZE))
    for _, run in runs:
        parts += run.media
    return b"".join(parts)


def _traf(track_id: int, run: _Run, offset: int) -> bytes:
    flags = _VIDEO_RUN_FLAGS if track_id == VIDEO_TRACK_ID else _AUDIO_RUN_FLAGS
    size = TRAF_HEADER_SIZE + len(run.entries)
    header = (size, b"traf", 16, b"tfhd", _TFHD_FLAGS, track_id)
    unplaced = (20, b"tfdt", _TFDT_VERSION_1, run.first_ms & _U32, min(run.length, _U32))
    samples = (20 + len(run.entries), b"trun", flags, len(run.media), offset)
    return _TRAF.pack(*header, *unplaced, *samples)
