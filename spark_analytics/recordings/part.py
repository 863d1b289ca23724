"""A part of a recording: what is known of it as a whole, and how two parts that follow each other become one.

The same joining makes parts of blocks of tags, and files of parts, so it does not matter where a file was cut: rows that
depend on what is on both sides of a cut are found when the sides are joined.
"""

from __future__ import annotations

import attrs
import numpy as np

from spark_analytics.flv.tags import Integers
from spark_analytics.recordings.beginning import Beginning
from spark_analytics.recordings.findings import FREEZE, JUMP, SILENCE, Findings, Track
from spark_analytics.recordings.rules import STILL_MS
from spark_analytics.recordings.sound import AudioSeconds, Sound
from spark_analytics.recordings.steps import (
    Frames,
    is_near,
    is_regular,
    jumps_back,
    standstills,
    usual_step,
)

#: Stands before every time.
_BEFORE = -(1 << 62)


@attrs.define(eq=False)
class Stretch:
    """Frames of one kind, or of all: the first one and the last one."""

    first: Frames = attrs.field(factory=Frames)
    last: Frames = attrs.field(factory=Frames)

    @classmethod
    def of(cls, frames: Frames) -> Stretch:
        """All of them, in short."""
        return cls(frames.first(), frames.last())

    def then(self, following: Stretch) -> Stretch:
        """Both."""
        return Stretch(
            self.first if len(self.first) else following.first,
            following.last if len(following.last) else self.last,
        )

    def shifted(self, gaps: int) -> Stretch:
        """The same, if there were more gaps before."""
        return Stretch(self.first.shifted(gaps), self.last.shifted(gaps))


@attrs.define(eq=False)
class Counts:
    """What is simply added up."""

    tags: int = 0
    script_tags: int = 0
    video_frames: int = 0
    audio_frames: int = 0
    keyframes: int = 0
    video_bytes: int = 0
    audio_bytes: int = 0
    lost_bytes: int = 0
    damages: int = 0
    #: Steps from picture to picture that are too long for a running stream.
    long_steps: int = 0
    long_step_ms: int = 0
    #: Of the steps between audio frames: milliseconds, and frames that they have room for.
    audio_step_ms: int = 0
    audio_slots: int = 0
    #: Audio frames whose step rounds to no frame.
    audio_early: int = 0
    #: From one keyframe to the next that is later.
    keyframe_steps: int = 0
    keyframe_step_ms: int = 0

    def plus(self, other: Counts) -> Counts:
        """Both."""
        return Counts(
            *(mine + theirs for mine, theirs in zip(attrs.astuple(self), attrs.astuple(other), strict=True))
        )


@attrs.define(eq=False)
class Part:
    """A part of a recording.

    Attributes:
        gap_ms: All gaps in it, and the one before its first frame.
        head_frames: Pictures before its first keyframe, and their bytes.
        open_keyframe: Its last keyframe, a row of `KEYFRAME_COLUMNS`; the next one is not known yet.
        steps: How often each step from picture to picture occurs.
        damage_kinds: What kinds of damage there are.
        audio_seconds: How many audio frames are in each second, and when.
    """

    counts: Counts = attrs.field(factory=Counts)
    all: Stretch = attrs.field(factory=Stretch)
    video: Stretch = attrs.field(factory=Stretch)
    audio: Stretch = attrs.field(factory=Stretch)
    gap_ms: int = 0
    newest_ms: int = _BEFORE
    first_keyframe_ms: int | None = None
    head_frames: int = 0
    head_bytes: int = 0
    open_keyframe: Integers | None = None
    steps: Integers = attrs.field(factory=lambda: np.zeros(STILL_MS, np.int64))
    damage_kinds: frozenset[str] = frozenset()
    video_codecs: Track = attrs.field(factory=Track)
    audio_codecs: Track = attrs.field(factory=Track)
    video_configurations: Track = attrs.field(factory=Track)
    audio_configurations: Track = attrs.field(factory=Track)
    picture: tuple[int, int] | None = None
    sound: Sound | None = None
    audio_seconds: AudioSeconds = attrs.field(factory=AudioSeconds)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it, not even damage."""
        return not self.counts.tags and not self.counts.damages


def join(left: Part, right: Part, beginning: Beginning, findings: Findings) -> Part:
    """Both parts as one; what is found where they meet goes to the findings."""
    if left.is_empty:
        return right
    # The right one knows the gap before its first frame: its reader has looked at the frames before.
    shift = left.gap_ms
    video, audio = right.video.shifted(shift), right.audio.shifted(shift)
    counts = left.counts.plus(right.counts)
    steps = left.steps + right.steps
    note_video_steps(left.video.last.then(video.first), counts, steps, findings)
    note_audio_steps(left.audio.last.then(audio.first), counts, beginning, findings)
    joined = Part(
        counts,
        left.all.then(right.all.shifted(shift)),
        left.video.then(video),
        left.audio.then(audio),
        shift + right.gap_ms,
        max(left.newest_ms, right.newest_ms),
        left.first_keyframe_ms if left.first_keyframe_ms is not None else right.first_keyframe_ms,
        steps=steps,
        damage_kinds=left.damage_kinds | right.damage_kinds,
        picture=left.picture or right.picture,
        sound=left.sound or right.sound,
        audio_seconds=left.audio_seconds.plus(right.audio_seconds),
    )
    _join_keyframes(left, right, joined, findings)
    _join_codecs(left, right, joined, findings)
    return joined


def note_video_steps(frames: Frames, counts: Counts, histogram: Integers, findings: Findings) -> None:
    """Take note of the steps between pictures that follow each other."""
    steps = frames.steps()
    if not len(steps):
        return
    seconds = frames.times[1:] // 1000
    regular = is_regular(steps)
    if regular.all():
        usual, in_second, forward = steps, seconds, regular
    else:
        usual, in_second, forward = steps[regular], seconds[regular], steps >= 0
        long = steps >= STILL_MS
        counts.long_steps += int(np.count_nonzero(long))
        counts.long_step_ms += int(steps[long].sum())
    histogram += np.bincount(usual, minlength=len(histogram))
    findings.seconds.add("video_step_ms", in_second, usual)
    findings.seconds.add("video_steps", in_second)
    findings.seconds.add("max_step_ms", seconds[forward], steps[forward])
    findings.add_stills(FREEZE, standstills(frames))
    findings.add_stills(JUMP, jumps_back(frames), "video")


def note_audio_steps(frames: Frames, counts: Counts, beginning: Beginning, findings: Findings) -> None:
    """Take note of the steps between audio frames that follow each other."""
    steps = frames.steps()
    if not len(steps):
        return
    frame_ms = beginning.sound.frame_ms
    if frame_ms:
        # A frame that is missing is no drift: each step counts as what it has room for. A step back counts like the one
        # that undoes it: with only one of them in the sum, jitter would add up.
        near = is_near(steps)
        seconds, kept = frames.times[1:][near] // 1000, steps[near]
        slots = np.rint(kept / frame_ms).astype(np.int64)
        findings.seconds.add("audio_step_ms", seconds, kept)
        findings.seconds.add("audio_slots", seconds, slots)
        findings.seconds.add("audio_early", seconds[slots <= 0])
        counts.audio_step_ms += int(kept.sum())
        counts.audio_slots += int(slots.sum())
        counts.audio_early += int(np.count_nonzero(slots <= 0))
    findings.add_stills(SILENCE, standstills(frames))
    findings.add_stills(JUMP, jumps_back(frames), "audio")


def note_keyframe_steps(times: Integers, counts: Counts) -> None:
    """Take note of the steps between keyframes that follow each other; where timestamps go back, there is none."""
    steps = times[1:] - times[:-1]
    forward = steps > 0
    counts.keyframe_steps += int(np.count_nonzero(forward))
    counts.keyframe_step_ms += int(steps[forward].sum())


def _join_keyframes(left: Part, right: Part, joined: Part, findings: Findings) -> None:
    open_keyframe = left.open_keyframe
    if open_keyframe is None:
        joined.head_frames = left.head_frames + right.head_frames
        joined.head_bytes = left.head_bytes + right.head_bytes
        joined.open_keyframe = right.open_keyframe
        return
    joined.head_frames, joined.head_bytes = left.head_frames, left.head_bytes
    open_keyframe = open_keyframe.copy()
    open_keyframe[4] += right.head_frames
    open_keyframe[5] += right.head_bytes
    if right.open_keyframe is None:
        joined.open_keyframe = open_keyframe
    else:
        findings.add_keyframes(open_keyframe.reshape(1, -1))
        joined.open_keyframe = right.open_keyframe
        note_keyframe_steps(np.array([open_keyframe[0], right.first_keyframe_ms]), joined.counts)


def _join_codecs(left: Part, right: Part, joined: Part, findings: Findings) -> None:
    joined.video_codecs, changes = left.video_codecs.then(right.video_codecs)
    findings.add_changes("video", changes)
    joined.audio_codecs, changes = left.audio_codecs.then(right.audio_codecs)
    findings.add_changes("audio", changes)
    joined.video_configurations, changes = left.video_configurations.then(right.video_configurations)
    findings.add_changes("video", changes)
    joined.audio_configurations, changes = left.audio_configurations.then(right.audio_configurations)
    findings.add_changes("audio", changes)


def usual_picture_step(part: Part) -> float | None:
    """Milliseconds from one picture to the next, as it usually is; None if there are too few."""
    counts = part.counts
    if counts.long_steps > int(part.steps.sum()):
        # A slide show.
        return counts.long_step_ms / counts.long_steps
    return usual_step(part.steps)


def finish(part: Part, findings: Findings) -> None:
    """The part is the whole file: nothing comes before it and nothing after."""
    if part.open_keyframe is not None:
        findings.add_keyframes(part.open_keyframe.reshape(1, -1))
    for kind, stretch in ((FREEZE, part.video), (SILENCE, part.audio)):
        if len(stretch.first):
            findings.add_stills(kind, standstills(part.all.first.then(stretch.first)), "begins late")
            findings.add_stills(kind, standstills(stretch.last.then(part.all.last)), "ends early")
