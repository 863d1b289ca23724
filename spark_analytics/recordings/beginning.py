"""What every part of a file must know of its beginning."""

from __future__ import annotations

import attrs
import numpy as np

from rtmprelay.flv.container import TAG_HEADER_SIZE
from rtmprelay.media import TIMESTAMP_MODULUS, MediaKind
from spark_analytics.flv.classify import Classifier, TagClass
from spark_analytics.flv.scan import DamagedPart, RangeScanner, first_tag
from spark_analytics.flv.sources import ByteSource, Window
from spark_analytics.flv.tags import Integers, TagArrays
from spark_analytics.recordings.rules import BEFORE_START_MS, STILL_MS
from spark_analytics.recordings.sound import Sound, sound_of

#: How far is looked for the first frames. Every part does so, and must find the same.
_MOST_TAGS = 4096
_MOST_BYTES = 64 * 1024 * 1024

#: How many tags are looked at together: most of the time that is enough.
_FIRST_TAGS = 64


@attrs.frozen
class Beginning:
    """How a recording begins.

    Attributes:
        first_ms: The timestamp of the first coded frame.
        sound: How the sound is sampled, as far as its first configuration and its first frame say.
        only_side_tracks: The kinds of media that have side tracks, and no first one.
        no_gaps: The offsets of frames that open a track ahead of the other one: what looks like a gap before them is
            filled by frames that come later in the file.
    """

    first_ms: int = 0
    sound: Sound = attrs.field(factory=Sound)
    only_side_tracks: frozenset[MediaKind] = frozenset()
    no_gaps: frozenset[int] = frozenset()

    def times(self, timestamps: Integers) -> Integers:
        """Milliseconds since the first frame, across the end of the circle of 32 bits."""
        return (timestamps - self.first_ms + BEFORE_START_MS) % TIMESTAMP_MODULUS - BEFORE_START_MS


class _Clipped:
    """The first bytes of a file, as if there were no more."""

    def __init__(self, source: ByteSource, size: int) -> None:
        self._source = source
        self.size = size

    def window(self, begin: int, least: int) -> Window:
        """As that of the whole file, cut off."""
        window = self._source.window(begin, least)
        if window.end <= self.size:
            return window
        return Window(window.buffer, window.array[: self.size - window.begin], window.begin)

    def read(self, begin: int, size: int) -> bytes:
        """As of the whole file, cut off."""
        return self._source.read(begin, max(0, min(size, self.size - begin)))

    def close(self) -> None:
        """Nothing to let go."""


def read_beginning(source: ByteSource, classifier: Classifier) -> Beginning:
    """Look at the first tags of a file."""
    reader = _look(_Clipped(source, min(source.size, _MOST_BYTES)), classifier)
    if reader.first_ms is None:
        # All times count from the first frame, however late it comes. Hardly ever is there so much before it.
        reader = _look(source, classifier, has_patience=True)
    return Beginning(reader.first_ms or 0, reader.sound, reader.only_side_tracks, reader.no_gaps())


def _look(source: ByteSource, classifier: Classifier, has_patience: bool = False) -> _BeginningReader:
    """Look at the first tags.

    Args:
        has_patience: Whether tags before the first frame do not count.
    """
    reader = _BeginningReader(source, classifier)
    left = _MOST_TAGS
    for found in RangeScanner(source, first_tag(source), source.size, _FIRST_TAGS):
        tags = found.tag if isinstance(found, DamagedPart) else found
        if tags is not None:
            reader.take(tags.first(left))
            if reader.first_ms is not None or not has_patience:
                left -= min(left, len(tags))
        if not left or reader.is_done:
            break
    return reader


class _BeginningReader:
    """Looks at tags until everything is known."""

    def __init__(self, source: ByteSource, classifier: Classifier) -> None:
        self._source = source
        self._classifier = classifier
        self._audio_is_known = False
        # Kinds of which the first track is there, and kinds of which others are.
        self._first_tracks: set[MediaKind] = set()
        self._side_tracks: set[MediaKind] = set()
        self._frames: list[tuple[Integers, Integers, Integers]] = []
        self.first_ms: int | None = None
        self.sound = Sound()

    @property
    def is_done(self) -> bool:
        """Whether more tags would tell nothing new."""
        is_known = self.first_ms is not None and self._audio_is_known and not self.only_side_tracks
        return is_known and not self._ahead()[1]

    @property
    def only_side_tracks(self) -> frozenset[MediaKind]:
        """As `Beginning` has them, as far as is known."""
        return frozenset(self._side_tracks - self._first_tracks)

    def take(self, tags: TagArrays) -> None:
        """Look at the next ones."""
        codes = self._classifier.classify(self._source, tags)
        coded = np.flatnonzero(self._classifier.table.coded(codes))
        if self.first_ms is None and len(coded):
            self.first_ms = int(tags.timestamps[coded[0]])
        self._frames.append((tags.timestamps[coded], tags.offsets[coded], tags.types[coded].astype(np.int64)))
        classes = self._classifier.table.classes
        self._take_tracks([classes[code] for code in np.unique(codes[coded]).tolist()])
        for number in np.flatnonzero(tags.types == MediaKind.AUDIO).tolist():
            if self._audio_is_known:
                break
            if not classes[codes[number]].side_track:
                self._take_audio(tags, number, classes[codes[number]].info.coded)

    def no_gaps(self) -> frozenset[int]:
        """As `Beginning` has them."""
        return self._ahead()[0]

    def _ahead(self) -> tuple[frozenset[int], bool]:
        """The first frames of a kind that are ahead of the other kind, and whether there may be one that nobody knows yet."""
        if self.first_ms is None:
            return frozenset(), False
        stamps, offsets, kinds = (np.concatenate(column) for column in zip(*self._frames, strict=True))
        times = Beginning(self.first_ms).times(stamps)
        found, is_open = set(), False
        for first in np.unique(kinds, return_index=True)[1].tolist():
            if first and times[first] - times[first - 1] >= STILL_MS:
                others = times[first + 1 :][kinds[first + 1 :] != kinds[first]]
                is_open |= not len(others)
                if len(others) and times[first - 1] <= others[0] < times[first]:
                    found.add(int(offsets[first]))
        return frozenset(found), is_open

    def _take_tracks(self, classes: list[TagClass]) -> None:
        for one in classes:
            if one.kind is not None:
                (self._side_tracks if one.side_track else self._first_tracks).add(one.kind)

    def _take_audio(self, tags: TagArrays, number: int, is_coded: bool) -> None:
        # Configurations and frame headers are in the first bytes.
        size = min(int(tags.sizes[number]), 256)
        sound = sound_of(self._source.read(int(tags.offsets[number]) + TAG_HEADER_SIZE, size))
        if sound is not None:
            known = self.sound
            self.sound = Sound(
                known.rate or sound.rate, known.channels or sound.channels, known.frame_ms or sound.frame_ms
            )
        self._audio_is_known = is_coded and size > 0
