"""The timeline of one reader: it begins at zero, whenever the reader came."""

from __future__ import annotations

import struct
from typing import Protocol

from rtmprelay.errors import RtmpRelayError
from rtmprelay.media import milliseconds_between
from rtmprelay.mp4.fragments import (
    AUDIO_ENTRY,
    MOOF_HEADER_SIZE,
    SOUND_TOLERANCE_MS,
    TRAF_HEADER_SIZE,
    VIDEO_ENTRY,
    FragmentEncoder,
)
from rtmprelay.mp4.init_segment import SYNC_SAMPLE
from rtmprelay.mp4.tracks import AudioTrack, VideoTrack

#: Timestamps that go back further than this are no jitter: the publisher has begun anew.
LARGEST_STEP_BACK_MS = 1000

#: The longest that a picture is said to last while the next one is not known.
LONGEST_GUESS_MS = 1000

#: How far decoding may run ahead of the timestamps to bridge a gap.
LARGEST_LEAD_MS = 2000

# In a fragment: the size of the moof; the number of the fragment; and in each traf its size, the track, the decode time.
_NUMBER = struct.Struct(">I")
_SIGNED = struct.Struct(">i")
_NUMBER_AT = 20
_TRACK_ID_AT = 20
_TIME_AT = 36
_UNPLACED_TIME = struct.Struct(">II")
_TIME = struct.Struct(">Q")

# In the entry of a picture, behind its duration and its size.
_FLAGS_AT = 8
_COMPOSITION_AT = 12


class TimeWentBackError(RtmpRelayError):
    """The timestamps of a stream jumped back, and an MP4 cannot follow."""


def _check_step(last: int, said: int, timescale: int) -> None:
    if said < last - LARGEST_STEP_BACK_MS * timescale // 1000:
        raise TimeWentBackError(f"the timestamps went back by {(last - said) / timescale:.1f} s")


class _Clock(Protocol):
    """Where a track is on the timeline, in its own ticks."""

    def place(self, moof: bytearray, at: int, end: int, time_ms: int, length: int) -> int:
        """The decode time of the samples in this traf, which are said to begin at this time."""


class _SoundClock:
    """Packets follow on the ones before without a gap, unless the timestamps say that some are missing."""

    def __init__(self, track: AudioTrack) -> None:
        self._timescale = track.timescale
        self._tolerance = track.timescale * SOUND_TOLERANCE_MS // 1000
        self._last = -1
        self._next: int | None = None

    def place(self, moof: bytearray, at: int, end: int, time_ms: int, length: int) -> int:
        said = time_ms * self._timescale // 1000
        expected = self._next
        if expected is not None and abs(said - expected) <= self._tolerance:
            begin = expected
        else:
            _check_step(self._last, said, self._timescale)
            begin = max(said, self._last + 1)
        self._next = begin + length
        (last_length,) = _NUMBER.unpack_from(moof, end - AUDIO_ENTRY.size)
        self._last = self._next - last_length
        return begin


class _PictureClock:
    """Pictures are shown when RTMP says, to the millisecond; they are decoded then too, unless a gap must be bridged.

    A browser (Media Source Extensions, "coded frame processing") takes a picture that is decoded more than twice the
    length of the one before behind it for a break, and shows nothing until the next keyframe. Encoders skip pictures,
    and how long the last one lasts is a guess. So behind a gap pictures are decoded a little earlier than they could
    be, until the time is made up for.
    """

    def __init__(self, track: VideoTrack) -> None:
        self._usual_ms = track.frame_ms
        # The decode time of the last picture, how long it was said to last, and when it was really due.
        self._last = -1
        self._last_length = 0
        self._last_due: int | None = None

    def place(self, moof: bytearray, at: int, end: int, time_ms: int, length: int) -> int:
        first, last = at + TRAF_HEADER_SIZE, end - VIDEO_ENTRY.size
        _check_step(self._last, time_ms, 1000)
        begin = max(time_ms, self._last + 1)
        (flags,) = _NUMBER.unpack_from(moof, first + _FLAGS_AT)
        lead = begin - self._last - 2 * self._last_length
        if self._last_due is not None and flags != SYNC_SAMPLE and 0 < lead <= LARGEST_LEAD_MS:
            begin -= lead
            for entry in range(first, end, VIDEO_ENTRY.size):
                (composition,) = _SIGNED.unpack_from(moof, entry + _COMPOSITION_AT)
                _SIGNED.pack_into(moof, entry + _COMPOSITION_AT, composition + lead)
        (last_length,) = _NUMBER.unpack_from(moof, last)
        if first < last:
            (interval,) = _NUMBER.unpack_from(moof, last - VIDEO_ENTRY.size)
        else:
            interval = 0 if self._last_due is None else time_ms - self._last_due
        self._last = begin + length - last_length
        self._last_due = time_ms + length - last_length
        self._last_length = min(max(self._usual_ms, interval), LONGEST_GUESS_MS)
        _NUMBER.pack_into(moof, last, self._last_length)
        return begin


class FragmentPlacer:
    """Puts fragments, as they come out of the `FragmentEncoder`, on one timeline."""

    def __init__(self, encoder: FragmentEncoder, begin_ms: int) -> None:
        """Args:
        begin_ms: The RTMP timestamp that becomes zero.
        """
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
        """The fragment with its number and its times: the part that is this reader's own, and the rest, which is shared."""
        (size,) = _NUMBER.unpack_from(fragment)
        moof = bytearray(fragment[:size])
        self._number = self._number + 1 & 0xFFFFFFFF
        _NUMBER.pack_into(moof, _NUMBER_AT, self._number)
        at = MOOF_HEADER_SIZE
        while at < size:
            (traf_size,) = _NUMBER.unpack_from(moof, at)
            self._place_track(moof, at, at + traf_size)
            at += traf_size
        return bytes(moof), memoryview(fragment)[size:]

    def _place_track(self, moof: bytearray, at: int, end: int) -> None:
        (track_id,) = _NUMBER.unpack_from(moof, at + _TRACK_ID_AT)
        timestamp, length = _UNPLACED_TIME.unpack_from(moof, at + _TIME_AT)
        self._time_ms += milliseconds_between(self._timestamp, timestamp)
        self._timestamp = timestamp
        decode_time = self._clocks[track_id].place(moof, at, end, self._time_ms, length)
        _TIME.pack_into(moof, at + _TIME_AT, decode_time)
