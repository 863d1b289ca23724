"""A block of tags as the smallest part of a recording."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from rtmprelay.flv.container import TAG_HEADER_SIZE
from rtmprelay.flv.picture_size import picture_size
from rtmprelay.media import MediaKind
from spark_analytics.analysis.audio_frames import sound_of
from spark_analytics.analysis.beginning import Beginning
from spark_analytics.analysis.codec_track import Seen, Track
from spark_analytics.analysis.findings import GAP, Findings
from spark_analytics.analysis.part import Counts, Part, Stretch, note_audio_steps, note_video_steps
from spark_analytics.analysis.steps import Frames, gaps_between
from spark_analytics.scanning.classify import Classifier, Codes
from spark_analytics.scanning.sources import ByteSource
from spark_analytics.scanning.tag_arrays import Integers, TagArrays

#: A decoder configuration has some hundred bytes. Of a larger one, the beginning must do.
_MOST_OF_CONFIGURATION = 65536


class BlockReader:
    """Makes parts of blocks of tags."""

    def __init__(
        self, source: ByteSource, classifier: Classifier, beginning: Beginning, findings: Findings
    ) -> None:
        self._source = source
        self._classifier = classifier
        self._beginning = beginning
        self._findings = findings
        # The last configuration: many encoders repeat it at each keyframe.
        self._known: dict[MediaKind, tuple[bytes, Seen]] = {}

    def read(self, tags: TagArrays) -> Part:
        """What these tags are; rows go to the findings."""
        codes = self._classifier.classify(self._source, tags)
        table = self._classifier.table
        part = Part(Counts(len(tags), int(np.count_nonzero(codes == table.script))))
        self._note_frames(part, tags, codes)
        self._note_codecs(part, tags, codes)
        return part

    def _note_frames(self, part: Part, tags: TagArrays, codes: Codes) -> None:
        table = self._classifier.table
        coded = np.flatnonzero(table.coded(codes))
        if not len(coded):
            return
        times = self._beginning.times(tags.timestamps[coded])
        frames = Frames(times, tags.offsets[coded])
        still, gaps = gaps_between(frames)
        self._findings.add_stills(GAP, still)
        frames = Frames(times, frames.offsets, np.concatenate([np.zeros(1, np.int64), np.cumsum(gaps)]))
        part.all = Stretch.of(frames)
        part.gap_ms = int(frames.gaps[-1])
        part.newest_ms = int(times.max())
        is_video = tags.types[coded] == MediaKind.VIDEO
        sizes = tags.sizes[coded]
        self._note_sound(part, _chosen(frames, ~is_video), sizes[~is_video])
        video = coded[is_video]
        keys = table.keyframe(codes[video])
        self._note_pictures(part, _chosen(frames, is_video), sizes[is_video], keys, tags.timestamps[video])

    def _note_sound(self, part: Part, frames: Frames, sizes: Integers) -> None:
        seconds = frames.times // 1000
        sums = self._findings.seconds
        sums.add("audio_bytes", seconds, sizes)
        sums.add("audio_frames", seconds)
        sums.add("last_audio_ms", seconds, frames.times)
        part.audio = Stretch.of(frames)
        part.counts.audio_frames = len(frames)
        part.counts.audio_bytes = int(sizes.sum())
        note_audio_steps(frames, part.counts, self._beginning, self._findings)

    def _note_pictures(
        self, part: Part, frames: Frames, sizes: Integers, keys: npt.NDArray[np.bool_], timestamps: Integers
    ) -> None:
        seconds = frames.times // 1000
        sums = self._findings.seconds
        sums.add("video_bytes", seconds, sizes)
        sums.add("video_frames", seconds)
        sums.add("last_video_ms", seconds, frames.times)
        part.video = Stretch.of(frames)
        part.counts.video_frames = len(frames)
        part.counts.video_bytes = int(sizes.sum())
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
            part.first_keyframe_ms, part.last_keyframe_ms = int(rows[0, 0]), int(rows[-1, 0])
            part.open_keyframe = rows[-1].copy()
            self._findings.keyframes.append(rows[:-1])

    def _note_codecs(self, part: Part, tags: TagArrays, codes: Codes) -> None:
        table = self._classifier.table
        names = [one.info.codec for one in table.classes]
        codecs_of = table.codec_numbers(codes)
        headers = table.where(codes, lambda one: one.info.sequence_header)
        for kind in (MediaKind.VIDEO, MediaKind.AUDIO):
            numbers = np.flatnonzero(tags.types == kind)
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
        payload = self._source.read(offset + TAG_HEADER_SIZE, size)
        time_ms = self._time(tags, number)
        known = self._known.get(kind)
        if known is None or known[0] != payload:
            digest = hashlib.blake2b(payload, digest_size=8).hexdigest()
            text = ""
            if kind is MediaKind.VIDEO:
                picture = picture_size(payload)
                text = "" if picture is None else f"{picture[0]}x{picture[1]}"
                part.picture = part.picture or picture
            else:
                sound = sound_of(payload)
                text = "" if sound is None else f"{sound.rate} Hz, {sound.channels} channels"
                part.sound = part.sound or sound
            known = self._known[kind] = payload, Seen(codec, time_ms, offset, digest, text)
        return Seen(codec, time_ms, offset, known[1].digest, known[1].text)

    def _time(self, tags: TagArrays, number: int) -> int:
        return int(self._beginning.times(tags.timestamps[number : number + 1])[0])


def _chosen(frames: Frames, which: npt.NDArray[np.bool_]) -> Frames:
    return Frames(frames.times[which], frames.offsets[which], frames.gaps[which])


def _where_changes(values: Codes, numbers: Integers) -> list[int]:
    """The first of these tags, and each whose value is not that of the one before."""
    if not len(numbers):
        return []
    changed: list[int] = numbers[np.flatnonzero(np.diff(values[numbers])) + 1].tolist()
    return [int(numbers[0]), *changed]
