"""Cuts a stream into parts and segments.

The pictures lead: a part ends where a picture begins, a segment where a keyframe does, so durations are exact and not guessed.
Sound goes along with the pictures that it is heard with. Without video, packets of sound lead.

PART-TARGET and the target duration can never change while a playlist lives. So they are measured once, on the first frames and
the first segment, and kept whatever the encoder does later: a part that would be too long ends in the middle of a picture, and
a segment that no keyframe ends is ended without one.
"""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import median

from rtmprelay.hls.cuts import CodedFrame, Cut, Part, SegmentEnd, Targets
from rtmprelay.hls.samples import Packets, Pictures
from rtmprelay.hls.timeline import MediaTimeline
from rtmprelay.media import MediaKind, milliseconds_between
from rtmprelay.mp4.fragment_boxes import fragment, picture_flags
from rtmprelay.mp4.tracks import AudioTrack, VideoTrack

#: A part is at least this much of PART-TARGET, unless it ends its segment (rfc8216bis, section 4.4.3.7).
_SHORTEST_PART = 0.85

#: Seconds of media after which the interval of the frames is taken as it seems.
_LONGEST_LOOK = 2.0

#: The same as frames, for timestamps that stand still.
_MOST_HELD = 4096

#: Seconds beyond a segment's length for which the first keyframe is awaited before the target duration is chosen without it:
#: x264 makes one every 250 pictures, which is ten seconds of 25 a second.
_AWAITED = 4.0
_UNKNOWN_INTERVAL = 8.0

#: Seconds by which PROGRAM-DATE-TIME may lag before it is anchored anew.
_SMALLEST_ABSENCE = 0.1

#: Seconds by which the clock of an encoder may be slow before that counts as an absence, and over which this is measured: in
#: shorter times the network may be what is slow.
_LARGEST_DRIFT = 0.5
_DRIFT_MEASURED_OVER = 60.0

#: Seconds of sound without pictures after which parts are cut without them.
_PATIENCE = 0.5

#: Later than any sample.
_ALL = 1 << 62

#: No step between frames is longer while the target is not known.
_FIRST_STEP_MS = 5000


class Cutter:
    """Cuts the frames of one decoder configuration.

    Args:
        targets: Shared with the cutters before and after this one.
        not_before: The date of the first frame at least.
    """

    def __init__(
        self, video: VideoTrack | None, audio: AudioTrack | None, targets: Targets, not_before: float = 0.0
    ) -> None:
        self._targets = targets
        self._pictures = None if video is None else Pictures(video)
        self._packets = None if audio is None else Packets(audio)
        self._audio_rate = 1000 if audio is None else audio.timescale
        # The ticks of the track that leads.
        self._scale = self._audio_rate if video is None else 1000
        self._timeline = MediaTimeline(_FIRST_STEP_MS)
        self._held: list[CodedFrame] | None = []
        self._cuts: list[Cut] = []
        self._fragments = 0
        self._interval = 0.0
        self._frame_rate: float | None = None
        # Pictures since the segment began.
        self._shown = 0
        self._awaits_keyframe = video is not None
        # In ticks: where the part and the segment begin, and the longest time between two keyframes.
        self._part_at: int | None = None
        self._segment_at = 0
        self._keyframe_at: int | None = None
        self._longest_gop = 0
        self._segment_is_independent = True
        self._is_spliced = False
        # The date of tick 0.
        self._anchor: float | None = None
        self._next_anchor = 0.0
        self._not_before = not_before
        # Since when, in milliseconds of media, the least distance of dates and media was measured.
        self._least_lag = math.inf
        self._lag_since = 0

    # -- frames ----------------------------------------------------------------------------------------------

    def take(self, frame: CodedFrame) -> list[Cut]:
        """Cut what can be cut now that this frame has come."""
        if self._held is None:
            self._place(frame)
        else:
            self._held.append(frame)
            if self._knows_interval(self._held):
                self._release()
        cuts, self._cuts = self._cuts, []
        return cuts

    def finish(self) -> list[Cut]:
        """Nothing more comes: end the part and the segment."""
        if self._held:
            self._measure(self._held)
            self._release()
        if self._part_at is not None and (times := self._times()):
            end = times[-1] + max(1, round(self._interval))
            self._cut_long_parts(end)
            self._cut(end, is_last=True)
        if self._part_at is not None and self._part_at > self._segment_at:
            self._end_segment()
        cuts, self._cuts = self._cuts, []
        return cuts

    def publisher_returned(self) -> None:
        """The next frames are another publisher's, and refer to none of the frames before."""
        self._is_spliced = True
        self._awaits_keyframe = self._pictures is not None

    @property
    def frame_rate(self) -> float | None:
        """Pictures a second in the last segment; None without video."""
        return self._frame_rate

    @property
    def end_date(self) -> float:
        """The date at which the media ends so far."""
        if self._anchor is None or self._part_at is None:
            return self._not_before
        return self._date(self._part_at)

    def _release(self) -> None:
        held, self._held = self._held or [], None
        for frame in held:
            self._place(frame)

    def _place(self, frame: CodedFrame) -> None:
        is_video = frame.kind is MediaKind.VIDEO
        if is_video and self._awaits_keyframe:
            if not frame.content.keyframe:
                return
            self._awaits_keyframe = False
        if self._part_at is None and not is_video and self._pictures is not None:
            # The sound before the first keyframe would be heard without a picture.
            return
        jumps = self._timeline.jumps
        time = self._timeline.place(frame.kind, frame.timestamp_ms)
        if self._timeline.jumps > jumps or self._anchor is None or self._is_spliced:
            self._measure_date(frame.now - time / 1000)
        self._note_drift(frame.now - time / 1000, time)
        if is_video:
            self._take_picture(frame, time)
        else:
            self._take_packet(frame, time)

    def _take_picture(self, frame: CodedFrame, time: int) -> None:
        pictures = self._pictures
        assert pictures is not None, "pictures need a track"
        at = max(pictures.next_time(time), self._part_at or 0)
        self._begin_at(at)
        self._cut_long_parts(at)
        if frame.content.keyframe:
            self._note_keyframe(at)
        elif self._is_part_full(at):
            self._cut(at)
        pictures.add(at, time + frame.content.composition_ms, picture_flags(frame.content), frame.data)

    def _take_packet(self, frame: CodedFrame, time: int) -> None:
        packets = self._packets
        assert packets is not None, "sound needs a track"
        if self._pictures is None:
            at = packets.next_time(time)
            self._begin_at(at)
            self._cut_long_parts(at)
            if self._is_segment_due(at):
                self._cut(at)
                self._end_segment()
            elif self._is_part_full(at):
                self._cut(at)
            self._is_spliced = False
        else:
            self._cut_long_parts(time - int(_PATIENCE * 1000))
        packets.add(time, frame.data)

    def _begin_at(self, at: int) -> None:
        if self._part_at is None:
            self._part_at = self._segment_at = at

    def _times(self) -> list[int]:
        """When the waiting frames of the leading track begin."""
        leading = self._pictures if self._pictures is not None else self._packets
        return [] if leading is None else leading.times

    # -- where to cut ----------------------------------------------------------------------------------------

    def _cut_long_parts(self, at: int) -> None:
        """Cut until a frame at `at` may begin in the part that is open."""
        self._await_target(at)
        while self._part_at is not None and at - self._part_at > (longest := self._longest_part):
            begin = self._part_at
            ends = [time for time in self._times() if longest * _SHORTEST_PART <= time - begin <= longest]
            self._cut(ends[-1] if ends else begin + int(longest))
            if self._part_at == begin:
                # Nothing came in all this time.
                self._skip_to(at)

    def _skip_to(self, at: int) -> None:
        if self._segment_at == self._part_at:
            self._segment_at = at
        self._part_at = at

    def _await_target(self, at: int) -> None:
        """Choose a target duration without a keyframe if none comes."""
        if self._targets.duration is None:
            passed = (at - self._segment_at) / self._scale
            if passed > self._targets.segment + _AWAITED:
                self._targets.choose_duration(self._targets.segment + _UNKNOWN_INTERVAL)
                self._bound_steps()

    @property
    def _longest_part(self) -> float:
        return self._targets.longest_part * self._scale

    def _is_part_full(self, at: int) -> bool:
        """Whether the part that is open ends at the frame at `at`, because it would be too long with that frame."""
        if self._part_at is None or not self._targets.part:
            return False
        length, longest = at - self._part_at, self._longest_part
        return length >= longest * _SHORTEST_PART and length + self._interval > longest

    def _note_keyframe(self, at: int) -> None:
        if self._keyframe_at is not None:
            self._longest_gop = max(self._longest_gop, at - self._keyframe_at)
        self._keyframe_at = at
        if self._is_segment_due(at):
            self._cut(at)
            self._end_segment()
        elif self._is_part_full(at):
            self._cut(at)
        self._is_spliced = False

    def _is_segment_due(self, at: int) -> bool:
        """Whether a segment ends at the keyframe at `at`."""
        length = at - self._segment_at
        if length <= 0:
            return False
        if (
            length >= self._targets.segment * self._scale
            or not self._segment_is_independent
            or self._is_spliced
        ):
            return True
        # The next keyframe may come too late for the target duration.
        latest = self._targets.longest_segment * self._scale
        return length >= self._scale // 4 and length + self._longest_gop > latest

    # -- cutting ---------------------------------------------------------------------------------------------

    def _cut(self, at: int, is_last: bool = False) -> None:
        """End the part. The last one has all the sound that is there."""
        begin = self._part_at
        assert begin is not None, "there is a part"
        if at <= begin:
            return
        pictures, packets = self._pictures, self._packets
        independent = pictures is None or pictures.begins_with_key
        runs = []
        if pictures is not None and (run := pictures.take(at)) is not None:
            runs.append(run)
            self._shown += len(run.media)
        if packets is not None:
            end = at if pictures is None else _ALL if is_last else at * self._audio_rate // 1000
            if (run := packets.take(end, ends_there=pictures is None)) is not None:
                runs.append(run)
            elif not runs and packets.times:
                # The times of packets are a little off those of the stream.
                late = packets.take(packets.times[0] + 1, ends_there=False)
                runs += [late] if late is not None else []
        if not runs:
            return
        if begin == self._segment_at:
            self._begin_segment(independent)
        self._fragments += 1
        duration = (at - begin) / self._scale
        data = fragment(runs, self._fragments)
        self._cuts.append(Part(duration, self._date(begin), independent, data))
        self._part_at = at
        # The segment must not become longer than the target with the next part.
        if (
            at + min(self._longest_part, 1 << 40) - self._segment_at
            > self._targets.longest_segment * self._scale
        ):
            self._end_segment()

    def _begin_segment(self, independent: bool) -> None:
        self._segment_is_independent = independent
        if self._anchor is None or self._next_anchor - self._anchor >= _SMALLEST_ABSENCE:
            self._anchor = max(self._next_anchor, self._not_before - self._segment_at / self._scale)

    def _end_segment(self) -> None:
        assert self._part_at is not None, "there is a segment"
        if self._part_at <= self._segment_at:
            return
        if self._shown:
            self._frame_rate = self._shown * self._scale / (self._part_at - self._segment_at)
            self._shown = 0
        if self._targets.duration is None:
            # A publisher that was lost at once says nothing about the segments to come.
            length = (self._part_at - self._segment_at) / self._scale
            self._targets.choose_duration(max(length, self._targets.segment))
            self._bound_steps()
        self._segment_at = self._part_at
        self._cuts.append(SegmentEnd())

    # -- dates -----------------------------------------------------------------------------------------------

    def _measure_date(self, anchor: float) -> None:
        """What the date of tick 0 would be by the frame that has come. It counts from the next segment on."""
        self._next_anchor = max(self._next_anchor, anchor)

    def _note_drift(self, lag: float, time: int) -> None:
        """A clock that is a little slow is seconds behind after a day."""
        self._least_lag = min(self._least_lag, lag)
        if time - self._lag_since >= _DRIFT_MEASURED_OVER * 1000:
            if self._anchor is not None and self._least_lag - self._anchor >= _LARGEST_DRIFT:
                self._measure_date(self._least_lag)
            self._least_lag = math.inf
            self._lag_since = time

    def _date(self, at: int) -> float:
        return (self._anchor or 0.0) + at / self._scale

    # -- targets ---------------------------------------------------------------------------------------------

    def _knows_interval(self, held: list[CodedFrame]) -> bool:
        """Whether the usual time between two leading frames has been seen."""
        leading = self._leading(held)
        span = milliseconds_between(held[0].timestamp_ms, held[-1].timestamp_ms) / 1000
        look = self._targets.part or 0.2
        enough = len(leading) >= 3 and span >= look
        if not enough and span < _LONGEST_LOOK and len(held) < _MOST_HELD:
            return False
        self._measure(held)
        return True

    def _leading(self, held: list[CodedFrame]) -> list[int]:
        kind = MediaKind.AUDIO if self._pictures is None else MediaKind.VIDEO
        return [frame.timestamp_ms for frame in held if frame.kind is kind]

    def _measure(self, held: list[CodedFrame]) -> None:
        leading = self._leading(held)
        steps = [milliseconds_between(one, other) for one, other in pairwise(leading)]
        steps = [step for step in steps if 0 < step <= _FIRST_STEP_MS]
        usual = median(steps) if steps else 40
        # Rounded to milliseconds, 33 of 100 steps are 34; the mean of those near the median is the real interval.
        near = [step for step in steps if abs(step - usual) <= max(2, usual / 4)]
        interval = (sum(near) / len(near) if near else usual) / 1000
        self._interval = interval * self._scale
        if self._targets.part and self._targets.part_target is None:
            self._targets.choose_part(interval)
        self._bound_steps()

    def _bound_steps(self) -> None:
        """No frame lasts longer than a part."""
        longest = self._targets.longest_part
        self._timeline.longest_step = min(
            _FIRST_STEP_MS, int(longest * 1000) if longest < math.inf else _FIRST_STEP_MS
        )
