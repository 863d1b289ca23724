"""Frames as fragments of an MP4 (`moof` and `mdat`), made once for all readers of a stream.

Readers begin at different times, and each has a timeline that begins at zero. So `FragmentEncoder` makes a fragment
without a place on a timeline, and `FragmentPlacer` writes the number of the fragment and the decode time of each track
for one reader. Until then the eight bytes of a decode time hold the RTMP timestamp of the first sample, and how long
the samples last together.

A fragment is made of what arrived together: waiting for a whole group of pictures would cost seconds of delay. How long
the last picture of a fragment lasts is not known then, so it gets the usual length; the next fragment has the exact
time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Protocol

import attrs

from rtmprelay.errors import RtmpRelayError
from rtmprelay.flv import Codec
from rtmprelay.flv.codec_headers import opus_packet_samples
from rtmprelay.flv.sound_packets import flac_packet_samples
from rtmprelay.flv.tags import Content, audio_content, video_content
from rtmprelay.media import MediaFrame, MediaKind, milliseconds_between
from rtmprelay.mp4.fragment_boxes import (
    AUDIO_ENTRY,
    KEY_PICTURE,
    MOOF,
    TRAF,
    VIDEO_ENTRY,
    SampleRun,
    fragment,
    picture_flags,
)
from rtmprelay.mp4.tracks import CODECS_WITHOUT_HEADER, AnyTrack, AudioTrack, VideoTrack

#: How far the times of sound may be from what RTMP says before they are corrected. Timestamps in milliseconds are
#: never exact, and many encoders let them jitter; following that would tear gaps of some samples into the sound.
SOUND_TOLERANCE_MS = 25

#: The length of a sample at most, whatever the timestamps say: the fragment after a gap has its own decode time.
_MAX_SAMPLE_MS = 60_000

#: Timestamps that go back further than this are no jitter: the publisher has started anew.
_MAX_STEP_BACK_MS = 1000

#: Bytes of a frame of FLAC before its samples, at most.
_FLAC_HEADER_SIZE = 16

#: The length of a picture at most while the next one is not known.
_MAX_GUESS_MS = 1000

#: How far decoding may run ahead of the timestamps to bridge a gap.
_MAX_LEAD_MS = 2000

_ENTRY_FLAGS_AT = 8
_ENTRY_COMPOSITION_AT = 12

_U32_MAX = 0xFFFFFFFF
_U32 = struct.Struct(">I")
_I32 = struct.Struct(">i")

# In a moof the number of the fragment; in a traf the track and the decode time.
_NUMBER_AT = 20
_TRACK_ID_AT = 20
_TIME_AT = 36
_UNPLACED_TIME = struct.Struct(">II")
_TIME = struct.Struct(">Q")


class TimeWentBackError(RtmpRelayError):
    """The timestamps of a stream jumped back, and an MP4 cannot follow."""


# -- making fragments ----------------------------------------------------------------------------------------


@attrs.frozen
class _Sample:
    timestamp_ms: int
    content: Content
    data: memoryview


@attrs.frozen(cache_hash=True)
class FragmentEncoder:
    """Makes fragments for tracks. Equal encoders, of readers of the same stream, share their results."""

    video: VideoTrack | None
    audio: AudioTrack | None

    def is_changed_by(self, frame: MediaFrame) -> bool:
        """Whether a frame brings a decoder configuration that is not that of these tracks."""
        content, track = self._look_at(frame)
        if content is None or not content.configuration or content.is_empty:
            return False
        if content.codec in CODECS_WITHOUT_HEADER:
            # A configuration for these codecs says nothing that their packets do not say.
            return track is None or content.codec != track.codec
        return (
            track is None or content.codec != track.codec or content.of(frame.payload) != track.configuration
        )

    def encode(self, frames: Iterable[MediaFrame]) -> bytes:
        """One fragment with all coded frames of the tracks, or nothing if there are none."""
        pictures: list[_Sample] = []
        packets: list[_Sample] = []
        for frame in frames:
            self._sort(frame, pictures, packets)
        runs: list[SampleRun] = []
        if pictures and self.video is not None:
            runs.append(_picture_run(self.video, pictures))
        if packets and self.audio is not None:
            runs.append(_sound_run(self.audio, packets))
        return fragment(runs) if runs else b""

    def _sort(self, frame: MediaFrame, pictures: list[_Sample], packets: list[_Sample]) -> None:
        """Put coded media where it belongs; what the decoders of these tracks could not use is left out."""
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


def _picture_run(track: VideoTrack, pictures: Sequence[_Sample]) -> SampleRun:
    """Pictures last until the next one. Where time stands still or runs backwards, decoding goes on by one tick."""
    first_ms = pictures[0].timestamp_ms
    decode_times: list[int] = []
    shown_times: list[int] = []
    latest = -1
    for picture in pictures:
        time = milliseconds_between(first_ms, picture.timestamp_ms)
        latest = min(max(time, latest + 1), latest + _MAX_SAMPLE_MS)
        decode_times.append(latest)
        shown_times.append(time + picture.content.composition_ms)
    end = latest + track.frame_ms
    entries = b"".join(
        VIDEO_ENTRY.pack(
            following - decoded, len(picture.data), picture_flags(picture.content), _within(shown - decoded)
        )
        for picture, decoded, shown, following in zip(
            pictures, decode_times, shown_times, [*decode_times[1:], end], strict=True
        )
    )
    return SampleRun(
        track.track_id, _unplaced(first_ms, end), entries, [picture.data for picture in pictures]
    )


def _within(composition_ms: int) -> int:
    return max(-_MAX_SAMPLE_MS, min(composition_ms, _MAX_SAMPLE_MS))


def _sound_run(track: AudioTrack, packets: Sequence[_Sample]) -> SampleRun:
    """Packets last as long as they have samples, unless the timestamps say that some are missing."""
    first_ms = packets[0].timestamp_ms
    rate = track.timescale
    tolerance = rate * SOUND_TOLERANCE_MS // 1000
    longest = rate * _MAX_SAMPLE_MS // 1000
    lengths = [packet_length(track, packet.data) for packet in packets]
    time = 0
    for index in range(1, len(packets)):
        time += lengths[index - 1]
        expected = milliseconds_between(first_ms, packets[index].timestamp_ms) * rate // 1000
        if abs(expected - time) > tolerance:
            length = min(max(1, lengths[index - 1] + expected - time), longest)
            time += length - lengths[index - 1]
            lengths[index - 1] = length
    entries = b"".join(
        AUDIO_ENTRY.pack(length, len(packet.data)) for length, packet in zip(lengths, packets, strict=True)
    )
    unplaced = _unplaced(first_ms, time + lengths[-1])
    return SampleRun(track.track_id, unplaced, entries, [packet.data for packet in packets])


def _unplaced(first_ms: int, length: int) -> int:
    """What is in the place of the decode time until the fragment is placed."""
    return (first_ms & _U32_MAX) << 32 | min(length, _U32_MAX)


def packet_length(track: AudioTrack, data: bytes | memoryview) -> int:
    """How many samples a packet has."""
    if track.packet_samples is not None:
        return track.packet_samples
    if track.codec is Codec.FLAC:
        samples = flac_packet_samples(bytes(data[:_FLAC_HEADER_SIZE]))
    else:
        samples = opus_packet_samples(bytes(data[:2]))
    # A packet that makes no sense counts as one of the usual 20 ms.
    return samples or track.timescale // 50


# -- placing fragments ---------------------------------------------------------------------------------------


class FragmentPlacer:
    """Puts fragments, as they come out of the `FragmentEncoder`, on one timeline.

    Args:
        begin_ms: The RTMP timestamp that becomes zero.
    """

    def __init__(self, encoder: FragmentEncoder, begin_ms: int) -> None:
        self._clocks: dict[int, _Clock] = {}
        if encoder.video is not None:
            self._clocks[encoder.video.track_id] = _PictureClock(encoder.video)
        if encoder.audio is not None:
            self._clocks[encoder.audio.track_id] = _SoundClock(encoder.audio)
        self._number = 0
        # The latest timestamp on RTMP's circle of 49 days, and where it is on the timeline, which goes on.
        self._timestamp = begin_ms
        self._time_ms = 0

    def place(self, fragment: bytes) -> tuple[bytes, memoryview]:
        """The fragment with its number and its times: the part that is this reader's own, and the shared rest."""
        (size,) = _U32.unpack_from(fragment)
        moof = bytearray(fragment[:size])
        self._number = self._number + 1 & _U32_MAX
        _U32.pack_into(moof, _NUMBER_AT, self._number)
        at = MOOF.size
        while at < size:
            (traf_size,) = _U32.unpack_from(moof, at)
            self._place_track(moof, at, at + traf_size)
            at += traf_size
        return bytes(moof), memoryview(fragment)[size:]

    def _place_track(self, moof: bytearray, at: int, end: int) -> None:
        (track_id,) = _U32.unpack_from(moof, at + _TRACK_ID_AT)
        timestamp, length = _UNPLACED_TIME.unpack_from(moof, at + _TIME_AT)
        self._time_ms += milliseconds_between(self._timestamp, timestamp)
        self._timestamp = timestamp
        decode_time = self._clocks[track_id].place(moof, at, end, self._time_ms, length)
        _TIME.pack_into(moof, at + _TIME_AT, decode_time)


class _Clock(Protocol):
    """Where a track is on the timeline, in ticks of the track."""

    def place(self, moof: bytearray, at: int, end: int, time_ms: int, length: int) -> int:
        """The decode time of the samples in the traf from `at` to `end`, which begin at `time_ms` by RTMP."""


class _SoundClock:
    """Packets follow the ones before without a gap, unless the timestamps say that some are missing."""

    def __init__(self, track: AudioTrack) -> None:
        self._timescale = track.timescale
        self._tolerance = track.timescale * SOUND_TOLERANCE_MS // 1000
        self._last = -1
        self._next: int | None = None

    def place(self, moof: bytearray, at: int, end: int, time_ms: int, length: int) -> int:
        due = time_ms * self._timescale // 1000
        expected = self._next
        if expected is not None and abs(due - expected) <= self._tolerance:
            begin = expected
        else:
            _check_step(self._last, due, self._timescale)
            begin = max(due, self._last + 1)
        self._next = begin + length
        (last_length,) = _U32.unpack_from(moof, end - AUDIO_ENTRY.size)
        self._last = self._next - last_length
        return begin


class _PictureClock:
    """Pictures are shown when RTMP says, to the millisecond; they are decoded then too, unless a gap must be bridged.

    When a picture is decoded later than twice the length of the one before, a browser (Media Source Extensions, "coded
    frame processing") sees a break, and shows nothing until the next keyframe. Encoders skip pictures, and how long
    the last one lasts is a guess. So after a gap pictures are decoded a little earlier than they could be, until the
    time is made up for.
    """

    def __init__(self, track: VideoTrack) -> None:
        self._usual_ms = track.frame_ms
        # The decode time of the last picture, the length that it got, and when it was really due.
        self._last = -1
        self._last_length = 0
        self._last_due: int | None = None

    def place(self, moof: bytearray, at: int, end: int, time_ms: int, length: int) -> int:
        first, last = at + TRAF.size, end - VIDEO_ENTRY.size
        _check_step(self._last, time_ms, 1000)
        begin = max(time_ms, self._last + 1)
        begin -= self._lead(moof, first, end, begin)
        (last_length,) = _U32.unpack_from(moof, last)
        if first < last:
            (interval,) = _U32.unpack_from(moof, last - VIDEO_ENTRY.size)
        else:
            interval = 0 if self._last_due is None else time_ms - self._last_due
        self._last = begin + length - last_length
        self._last_due = time_ms + length - last_length
        self._last_length = min(max(self._usual_ms, interval), _MAX_GUESS_MS)
        _U32.pack_into(moof, last, self._last_length)
        return begin

    def _lead(self, moof: bytearray, first: int, end: int, begin: int) -> int:
        """How much earlier the pictures are decoded to bridge a gap. When they are shown does not change."""
        (flags,) = _U32.unpack_from(moof, first + _ENTRY_FLAGS_AT)
        lead = begin - self._last - 2 * self._last_length
        if self._last_due is None or flags == KEY_PICTURE or not 0 < lead <= _MAX_LEAD_MS:
            return 0
        for entry in range(first, end, VIDEO_ENTRY.size):
            (composition,) = _I32.unpack_from(moof, entry + _ENTRY_COMPOSITION_AT)
            _I32.pack_into(moof, entry + _ENTRY_COMPOSITION_AT, composition + lead)
        return lead


def _check_step(last: int, due: int, timescale: int) -> None:
    if due < last - _MAX_STEP_BACK_MS * timescale // 1000:
        raise TimeWentBackError(f"the timestamps went back by {(last - due) / timescale:.1f} s")
