"""The samples that wait for their part: when each is decoded, and the run of them in a fragment.

The samples of a track follow each other without a hole, over parts, splices and lost frames: a player that meets a hole
stops there. What is missing is bridged by the sample before it, or by the first one after it.
"""

from __future__ import annotations

import attrs

from rtmprelay.mp4.fragment_boxes import AUDIO_ENTRY, KEY_PICTURE, VIDEO_ENTRY, SampleRun
from rtmprelay.mp4.fragments import SOUND_TOLERANCE_MS, packet_length
from rtmprelay.mp4.tracks import AudioTrack, VideoTrack

#: How far decoding may run ahead of the timestamps, in milliseconds, to bridge a hole in the video.
_MAX_LEAD_MS = 1000

_MAX_COMPOSITION_MS = 60_000


@attrs.define(eq=False, slots=True)
class Picture:
    """A coded picture; times are milliseconds."""

    time: int
    shown: int
    flags: int
    data: bytes | memoryview

    @property
    def is_key(self) -> bool:
        return self.flags == KEY_PICTURE


class Pictures:
    """The video of a part that is not complete yet."""

    def __init__(self, track: VideoTrack) -> None:
        self._track = track
        self._waiting: list[Picture] = []
        # Where the last run ended.
        self._end: int | None = None

    @property
    def times(self) -> list[int]:
        return [picture.time for picture in self._waiting]

    @property
    def begins_with_key(self) -> bool:
        return bool(self._waiting) and self._waiting[0].is_key

    def next_time(self, time: int) -> int:
        """When a picture with this timestamp would be decoded: after the one before it."""
        latest = self._waiting[-1].time + 1 if self._waiting else self._end
        return time if latest is None else max(time, latest)

    def add(self, time: int, shown: int, flags: int, data: bytes | memoryview) -> None:
        self._waiting.append(Picture(time, shown, flags, data))

    def take(self, end: int) -> SampleRun | None:
        """The pictures that are decoded before `end`; the last of them lasts until then."""
        count = sum(picture.time < end for picture in self._waiting)
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        if not taken:
            return None
        first = taken[0]
        if self._end is not None and 0 < first.time - self._end <= _MAX_LEAD_MS:
            first.time = self._end
        times = [picture.time for picture in taken]
        entries = b"".join(
            VIDEO_ENTRY.pack(
                following - time, len(picture.data), picture.flags, _within(picture.shown - time)
            )
            for picture, time, following in zip(taken, times, [*times[1:], end], strict=True)
        )
        self._end = end
        return SampleRun(self._track.track_id, times[0], entries, [picture.data for picture in taken])


def _within(composition_ms: int) -> int:
    return max(-_MAX_COMPOSITION_MS, min(composition_ms, _MAX_COMPOSITION_MS))


@attrs.define(eq=False, slots=True)
class _Packet:
    time: int
    length: int
    data: bytes | memoryview


class Packets:
    """The sound of a part that is not complete yet; times are in samples.

    RTMP's milliseconds are never exact and many encoders let them jitter, so packets follow each other by their samples
    unless the timestamps say that some are missing.
    """

    def __init__(self, track: AudioTrack) -> None:
        self._track = track
        self._waiting: list[_Packet] = []
        self._tolerance = track.timescale * SOUND_TOLERANCE_MS // 1000
        self._end: int | None = None

    @property
    def times(self) -> list[int]:
        return [packet.time for packet in self._waiting]

    def next_time(self, time_ms: int) -> int:
        """When a packet with this timestamp would begin."""
        due = time_ms * self._track.timescale // 1000
        last = self._waiting[-1] if self._waiting else None
        expected = self._end if last is None else last.time + last.length
        if expected is None:
            return max(due, 0)
        if abs(due - expected) <= self._tolerance or last is None:
            return expected
        return max(due, last.time + 1)

    def add(self, time_ms: int, data: bytes | memoryview) -> None:
        self._waiting.append(_Packet(self.next_time(time_ms), packet_length(self._track, data), data))

    def take(self, end: int, ends_there: bool) -> SampleRun | None:
        """The packets that begin before `end`.

        Args:
            ends_there: Whether the last of them lasts until `end`, or as long as it has samples.
        """
        count = sum(packet.time < end for packet in self._waiting)
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        if not taken:
            return None
        if self._end is not None:
            taken[0].time = self._end
        last = taken[-1]
        after = end if ends_there else last.time + last.length
        if self._waiting and not ends_there:
            after = self._waiting[0].time
        times = [packet.time for packet in taken]
        entries = b"".join(
            AUDIO_ENTRY.pack(max(following - time, 0), len(packet.data))
            for packet, time, following in zip(taken, times, [*times[1:], after], strict=True)
        )
        self._end = after
        return SampleRun(self._track.track_id, times[0], entries, [packet.data for packet in taken])
