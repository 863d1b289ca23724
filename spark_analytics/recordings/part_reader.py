"""Reads a part of a recording, from bytes to what is known of it, by blocks of tags that are its smallest parts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache

import attrs
import numpy as np

from rtmprelay.flv.codec_headers import picture_size
from rtmprelay.flv.container import TAG_HEADER_SIZE
from rtmprelay.media import MediaKind
from spark_analytics.flv.classify import Classifier, Codes, Flags
from spark_analytics.flv.scan import DamagedPart, RangeScanner, first_tag, start_of_part
from spark_analytics.flv.sources import ByteSource
from spark_analytics.flv.tags import Integers, TagArrays
from spark_analytics.recordings.beginning import Beginning
from spark_analytics.recordings.findings import GAP, Findings, Incident, Seen, Track
from spark_analytics.recordings.part import (
    Counts,
    Part,
    Stretch,
    join,
    note_audio_steps,
    note_keyframe_steps,
    note_video_steps,
)
from spark_analytics.recordings.rules import RECENT_FRAMES
from spark_analytics.recordings.sound import AudioSeconds, Sound, sound_of
from spark_analytics.recordings.steps import Frames, gaps_before

_NONE = np.empty(0, np.int64)

#: A decoder configuration has some hundred bytes. Of a larger one, the beginning must do.
_MOST_OF_CONFIGURATION = 65536


@attrs.frozen
class _Configuration:
    """What a decoder configuration says; as words, and as it is."""

    digest: str
    text: str = ""
    picture: tuple[int, int] | None = None
    sound: Sound | None = None


@lru_cache(maxsize=64)
def _described(kind: MediaKind, payload: bytes) -> _Configuration:
    """Many encoders repeat it at each keyframe, and many files have the same."""
    digest = hashlib.blake2b(payload, digest_size=8).hexdigest()
    if kind is MediaKind.VIDEO:
        picture = picture_size(payload)
        text = "" if picture is None else f"{picture[0]}x{picture[1]}"
        return _Configuration(digest, text, picture)
    sound = sound_of(payload)
    text = "" if sound is None else f"{sound.rate} Hz, {sound.channels} channels"
    return _Configuration(digest, text, sound=sound)


class BlockReader:
    """Makes parts of blocks of tags."""

    def __init__(
        self,
        source: ByteSource,
        classifier: Classifier,
        beginning: Beginning,
        findings: Findings,
        recent: Integers = _NONE,
    ) -> None:
        """Begin.

        Args:
            recent: The times of the frames before the first block, as `gaps_before` needs them.
        """
        self._recent = recent
        self._source = source
        self._classifier = classifier
        self._beginning = beginning
        self._findings = findings

    def read(self, tags: TagArrays) -> tuple[Part, Frames]:
        """What these tags are, and the coded frames among them; rows go to the findings."""
        codes = self._classifier.classify(self._source, tags)
        table = self._classifier.table
        part = Part(Counts(len(tags), int(np.count_nonzero(codes == table.script))))
        side = self._side_tracks(codes)
        frames = self._note_frames(part, tags, codes, side)
        self._note_codecs(part, tags, codes, side)
        return part, frames

    def _note_frames(self, part: Part, tags: TagArrays, codes: Codes, side: Flags) -> Frames:
        table = self._classifier.table
        coded = np.flatnonzero(table.coded(codes))
        if not len(coded):
            return Frames()
        times = self._beginning.times(tags.timestamps[coded])
        frames = Frames(times, tags.offsets[coded])
        still, gaps = gaps_before(self._recent, frames, self._beginning.no_gaps)
        self._recent = np.concatenate([self._recent, times])[-RECENT_FRAMES:]
        self._findings.add_stills(GAP, still)
        frames = Frames(times, frames.offsets, np.cumsum(gaps))
        part.all = Stretch.of(frames)
        part.gap_ms = int(frames.gaps[-1])
        part.newest_ms = int(times.max())
        is_video = tags.types[coded] == MediaKind.VIDEO
        side = side[coded]
        if side.any():
            self._note_side_tracks(part, times[side], tags.sizes[coded[side]], is_video[side])
        is_sound, is_video = ~is_video & ~side, is_video & ~side
        self._note_sound(part, _chosen(frames, is_sound), tags.sizes[coded[is_sound]])
        video = coded[is_video]
        keys = table.keyframe(codes[video])
        self._note_pictures(part, _chosen(frames, is_video), tags.sizes[video], keys, tags.timestamps[video])
        return frames

    def _side_tracks(self, codes: Codes) -> Flags:
        """Which tags belong to other tracks than the one by which the recording is judged."""
        without_first = self._beginning.only_side_tracks
        return self._classifier.table.where(
            codes, lambda one: one.side_track and one.kind not in without_first
        )

    def _note_side_tracks(self, part: Part, times: Integers, sizes: Integers, is_video: Flags) -> None:
        """Their bytes are in the file as well; pictures and steps are those of one track, or they would mean nothing."""
        for name, chosen in (("video_bytes", is_video), ("audio_bytes", ~is_video)):
            self._findings.seconds.add(name, times[chosen] // 1000, sizes[chosen])
        part.counts.video_bytes += int(sizes[is_video].sum())
        part.counts.audio_bytes += int(sizes[~is_video].sum())

    def _note_sound(self, part: Part, frames: Frames, sizes: Integers) -> None:
        seconds = frames.times // 1000
        sums = self._findings.seconds
        sums.add("audio_bytes", seconds, sizes)
        sums.add("audio_frames", seconds)
        sums.add("last_audio_ms", seconds, frames.times)
        sums.add("audio_phase_ms", seconds, frames.times - 1000 * seconds)
        part.audio_seconds = AudioSeconds.of(frames.times)
        part.audio = Stretch.of(frames)
        part.counts.audio_frames = len(frames)
        part.counts.audio_bytes += int(sizes.sum())
        note_audio_steps(frames, part.counts, self._beginning, self._findings)

    def _note_pictures(
        self, part: Part, frames: Frames, sizes: Integers, keys: Flags, timestamps: Integers
    ) -> None:
        seconds = frames.times // 1000
        sums = self._findings.seconds
        sums.add("video_bytes", seconds, sizes)
        sums.add("video_frames", seconds)
        sums.add("last_video_ms", seconds, frames.times)
        part.video = Stretch.of(frames)
        part.counts.video_frames = len(frames)
        part.counts.video_bytes += int(sizes.sum())
        note_video_steps(frames, part.counts, part.steps, self._findings)
        which = np.flatnonzero(keys)
        sums.add("keyframes", seconds[which])
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        first = int(which[0]) if len(which) else len(frames)
        part.head_frames, part.head_bytes = first, int(before[first])
        if len(which):
            ends = np.append(which[1:], len(frames))
            rows = np.stack(
                [
                    frames.times[which],
                    timestamps[which],
                    frames.offsets[which],
                    sizes[which],
                    ends - which,
                    before[ends] - before[which],
                ],
                axis=1,
            )
            part.counts.keyframes = len(which)
            part.first_keyframe_ms = int(rows[0, 0])
            note_keyframe_steps(rows[:, 0], part.counts)
            part.open_keyframe = rows[-1].copy()
            self._findings.add_keyframes(rows[:-1])

    def _note_codecs(self, part: Part, tags: TagArrays, codes: Codes, side: Flags) -> None:
        table = self._classifier.table
        names = [one.codec_name for one in table.classes]
        codecs_of = table.codec_numbers(codes)
        headers = table.where(codes, lambda one: one.info.sequence_header)
        for kind in (MediaKind.VIDEO, MediaKind.AUDIO):
            numbers = np.flatnonzero((tags.types == kind) & ~side)
            codecs = Track()
            changes = []
            for number in _where_changes(codecs_of, numbers[codecs_of[numbers] >= 0]):
                codec = names[codes[number]] or ""
                codecs, more = codecs.see(Seen(codec, self._time(tags, number), int(tags.offsets[number])))
                changes += more
            configurations = Track()
            for number in numbers[headers[numbers]].tolist():
                seen = self._configuration(part, kind, names[codes[number]] or "", tags, number)
                configurations, more = configurations.see(seen)
                changes += more
            self._findings.add_changes("video" if kind is MediaKind.VIDEO else "audio", changes)
            if kind is MediaKind.VIDEO:
                part.video_codecs, part.video_configurations = codecs, configurations
            else:
                part.audio_codecs, part.audio_configurations = codecs, configurations

    def _configuration(self, part: Part, kind: MediaKind, codec: str, tags: TagArrays, number: int) -> Seen:
        offset = int(tags.offsets[number])
        size = min(int(tags.sizes[number]), _MOST_OF_CONFIGURATION)
        found = _described(kind, self._source.read(offset + TAG_HEADER_SIZE, size))
        part.picture = part.picture or found.picture
        part.sound = part.sound or found.sound
        return Seen(codec, self._time(tags, number), offset, found.digest, found.text)

    def _time(self, tags: TagArrays, number: int) -> int:
        return int(self._beginning.times(tags.timestamps[number : number + 1])[0])


def _chosen(frames: Frames, which: Flags) -> Frames:
    return Frames(frames.times[which], frames.offsets[which], frames.gaps[which])


def _where_changes(values: Codes, numbers: Integers) -> list[int]:
    """The first of these tags, and each whose value is not that of the one before."""
    if not len(numbers):
        return []
    changed: list[int] = numbers[np.flatnonzero(np.diff(values[numbers])) + 1].tolist()
    return [int(numbers[0]), *changed]


#: So many tags, or damages, are looked at together: a file may have a damage every few bytes.
_MOST_TOGETHER = 4096

#: How far back the frames before a part are looked for, in bytes, and how many times as far if there are too few.
_FIRST_LOOK_BACK = 1 << 20
_FARTHER = 8


@attrs.define(eq=False)
class _Batch:
    """Tags and damages that follow each other."""

    tags: list[TagArrays] = attrs.field(factory=list)
    damages: list[DamagedPart] = attrs.field(factory=list)
    tag_count: int = 0

    def add(self, found: TagArrays | DamagedPart) -> None:
        """The next ones."""
        if isinstance(found, DamagedPart):
            self.damages.append(found)
        tags = found.tag if isinstance(found, DamagedPart) else found
        if tags is not None:
            self.tags.append(tags)
            self.tag_count += len(tags)

    @property
    def is_large(self) -> bool:
        """Whether it is enough."""
        # Without damage, blocks are as large as they should be.
        return not self.damages or max(self.tag_count, len(self.damages)) >= _MOST_TOGETHER


def recent_times(source: ByteSource, classifier: Classifier, beginning: Beginning, begin: int) -> Integers:
    """The times of the last RECENT_FRAMES frames before a place where a tag begins, wherever the part before was cut."""
    first = first_tag(source)
    distance = _FIRST_LOOK_BACK
    while begin > first:
        start = start_of_part(source, max(first, begin - distance), begin)
        parts = []
        for found in RangeScanner(source, start, begin):
            tags = found.tag if isinstance(found, DamagedPart) else found
            if tags is not None:
                coded = classifier.table.coded(classifier.classify(source, tags))
                parts.append(beginning.times(tags.timestamps[coded]))
        times = np.concatenate(parts) if parts else np.empty(0, np.int64)
        if len(times) >= RECENT_FRAMES or begin - distance <= first:
            return times[-RECENT_FRAMES:]
        distance *= _FARTHER
    return np.empty(0, np.int64)


class PartReader:
    """Goes through a part of a file; iterate over it until the end, then it has a `part`.

    Attributes:
        findings: Rows that were found. Whoever iterates takes them from time to time.
        part: What is known of the part.
        end: Where the next part begins.
    """

    def __init__(
        self, source: ByteSource, classifier: Classifier, beginning: Beginning, begin: int, stop: int
    ) -> None:
        self.findings = Findings()
        self.part = Part()
        self.end = begin
        self._beginning = beginning
        self._scanner = RangeScanner(source, begin, stop)
        recent = recent_times(source, classifier, beginning, begin)
        self._blocks = BlockReader(source, classifier, beginning, self.findings, recent)

    def __iter__(self) -> Iterator[None]:
        for batch in self._batches():
            self._take(batch)
            self.findings.seconds.fold()
            yield
        self.end = self._scanner.position

    def _batches(self) -> Iterator[_Batch]:
        batch = _Batch()
        for found in self._scanner:
            batch.add(found)
            if batch.is_large:
                yield batch
                batch = _Batch()
        if batch.tags or batch.damages:
            yield batch

    def _take(self, batch: _Batch) -> None:
        last = self.part.all.last
        frames = Frames()
        if batch.tags:
            part, frames = self._blocks.read(TagArrays.joined(batch.tags))
            self.part = join(self.part, part, self._beginning, self.findings)
        if batch.damages:
            self._take_damages(batch.damages, last.then(frames))

    def _take_damages(self, damages: list[DamagedPart], frames: Frames) -> None:
        """Note damages; each is when the last one of these frames was that is before it."""
        counts = self.part.counts
        before = np.searchsorted(frames.offsets, [damage.begin for damage in damages]) - 1
        for damage, number in zip(damages, before.tolist(), strict=True):
            kind = damage.kind.name.lower()
            time_ms = int(frames.times[number]) if number >= 0 else None
            size = damage.end - damage.begin
            detail = f"{damage.lost_bytes} of {size} bytes lost"
            self.findings.incidents.append(Incident(kind, time_ms, damage.begin, bytes=size, detail=detail))
            counts.lost_bytes += damage.lost_bytes
        counts.damages += len(damages)
        self.part.damage_kinds |= {damage.kind.name.lower() for damage in damages}
