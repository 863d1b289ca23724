"""What many tags are, at once: the answers of `rtmprelay.flv.tags`, asked once for each first bytes that occur."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np
import numpy.typing as npt

from rtmprelay.flv.container import TAG_HEADER_SIZE
from rtmprelay.flv.enhanced_header import AudioPacketType, VideoPacketType
from rtmprelay.flv.tags import UNKNOWN, TagInfo, composition_time_ms, describe_audio, describe_video
from rtmprelay.media import MediaKind
from spark_analytics.scanning.sources import Bytes, ByteSource
from spark_analytics.scanning.tag_arrays import Integers, TagArrays

Codes = npt.NDArray[np.int16]
Flags = npt.NDArray[np.bool_]

#: What a codec is called that nobody has a name for. A stranger's file may have any number of them.
OTHER_CODEC = "other"

#: Different first bytes of enhanced payloads that are remembered; real files have a handful.
_MOST_REMEMBERED = 4096


@attrs.frozen
class TagClass:
    """All that is told apart of tags: what they carry, and what their first bytes say."""

    kind: MediaKind | None
    info: TagInfo


class ClassTable:
    """Gives numbers to classes, and properties of many numbers at once."""

    def __init__(self) -> None:
        self.classes: list[TagClass] = []
        self._numbers: dict[TagClass, int] = {}
        self._coded: Flags = np.empty(0, np.bool_)
        self._keyframe: Flags = np.empty(0, np.bool_)
        self._codec: Codes = np.empty(0, np.int16)
        self._codecs: dict[str | None, int] = {None: -1}
        self.no_media = self.number(TagClass(None, UNKNOWN))
        self.script = self.number(TagClass(MediaKind.DATA, UNKNOWN))

    def number(self, tag_class: TagClass) -> int:
        """The number of a class; there are some hundred at most, because unknown codecs and tracks are one."""
        info = tag_class.info
        codec = OTHER_CODEC if info.codec is not None and info.codec.startswith("FourCC ") else info.codec
        plain = attrs.evolve(tag_class, info=attrs.evolve(info, codec=codec, tracks=()))
        known = self._numbers.get(plain)
        if known is None:
            known = self._numbers[plain] = len(self.classes)
            self.classes.append(plain)
            media = plain.kind in (MediaKind.AUDIO, MediaKind.VIDEO)
            self._coded = np.append(self._coded, media and plain.info.coded)
            self._keyframe = np.append(self._keyframe, media and plain.info.keyframe)
            codec_number = self._codecs.setdefault(codec, len(self._codecs) - 1)
            self._codec = np.append(self._codec, np.int16(codec_number))
        return known

    def coded(self, codes: Codes) -> Flags:
        """Which tags carry coded audio or video; empty ones do not."""
        return self._coded[codes]

    def keyframe(self, codes: Codes) -> Flags:
        """At which of them decoding can start."""
        return self._keyframe[codes]

    def codec_numbers(self, codes: Codes) -> Codes:
        """A number for each codec; -1 where it is not known."""
        return self._codec[codes]

    def where(self, codes: Codes, test: Callable[[TagClass], bool]) -> Flags:
        """Which tags are of a class that passes a test."""
        passes: Flags = np.array([test(one) for one in self.classes], np.bool_)
        return passes[codes]


@attrs.define(eq=False)
class _MediaClassifier:
    """Audio, or video."""

    table: ClassTable
    kind: MediaKind
    describe: Callable[[bytes], TagInfo]
    #: Which first bytes belong to Enhanced RTMP.
    enhanced: Flags
    #: Which of those have more before the FourCC, or tracks.
    involved: Flags
    by_two_bytes: Codes = attrs.field(factory=lambda: np.full(65536, -1, np.int16))
    by_five_bytes: dict[bytes, int] = attrs.field(factory=dict)

    def classify(self, tags: TagArrays, which: Integers, read: Callable[[int], bytes]) -> Codes:
        heads, sizes = tags.heads[which], tags.sizes[which]
        first = heads[:, 0]
        keys = first.astype(np.int64) << 8 | heads[:, 1]
        codes: Codes = self.by_two_bytes[keys]
        enhanced = self.enhanced[first]
        missing = (codes < 0) & ~enhanced & (sizes >= 2)
        if missing.any():
            for key in np.unique(keys[missing]).tolist():
                self.by_two_bytes[key] = self._number(key.to_bytes(2, "big"))
            codes = self.by_two_bytes[keys]
        if enhanced.any():
            plain = enhanced & ~self.involved[first] & (sizes >= 5)
            if plain.any():
                codes[plain] = self._by_five_bytes(heads[plain, :5])
            enhanced &= ~plain
        for number in np.flatnonzero(enhanced | (sizes < 2)).tolist():
            codes[number] = self._number(read(int(which[number])))
        return codes

    def _by_five_bytes(self, heads: Bytes) -> Codes:
        if (heads == heads[0]).all():
            return np.full(len(heads), self._remembered(heads[0].tobytes()), np.int16)
        keys = heads[:, 1:].copy().view(">u4").ravel().astype(np.int64) | heads[:, 0].astype(np.int64) << 32
        different, which = np.unique(keys, return_inverse=True)
        codes = [self._remembered(key.to_bytes(5, "big")) for key in different.tolist()]
        found: Codes = np.array(codes, np.int16)[which]
        return found

    def _remembered(self, head: bytes) -> int:
        code = self.by_five_bytes.get(head)
        if code is None:
            code = self._number(head)
            if len(self.by_five_bytes) < _MOST_REMEMBERED:
                self.by_five_bytes[head] = code
        return code

    def _number(self, payload: bytes) -> int:
        info = self.describe(payload)
        # Without a payload there is nothing to decode, whatever is assumed of what is not understood.
        return self.table.number(TagClass(self.kind, info if payload else attrs.evolve(info, coded=False)))


class Classifier:
    """Tells classes of tags apart. The answers depend on nothing but the tags."""

    def __init__(self) -> None:
        self.table = ClassTable()
        bytes_ = np.arange(256)
        low, high = bytes_ & 15, bytes_ >> 4
        self._by_type = {
            MediaKind.VIDEO: _MediaClassifier(
                self.table,
                MediaKind.VIDEO,
                describe_video,
                high >= 8,
                np.isin(low, (VideoPacketType.MULTITRACK, VideoPacketType.MOD_EX)),
            ),
            MediaKind.AUDIO: _MediaClassifier(
                self.table,
                MediaKind.AUDIO,
                describe_audio,
                high == 9,
                np.isin(low, (AudioPacketType.MULTITRACK, AudioPacketType.MOD_EX)),
            ),
        }

    def classify(self, source: ByteSource, tags: TagArrays) -> Codes:
        """The number of the class of each tag, as `table` has them."""
        codes = np.full(len(tags), self.table.no_media, np.int16)
        codes[tags.types == MediaKind.DATA] = self.table.script

        def payload(number: int) -> bytes:
            return source.read(int(tags.offsets[number]) + TAG_HEADER_SIZE, int(tags.sizes[number]))

        for kind, classifier in self._by_type.items():
            which = np.flatnonzero(tags.types == kind)
            if len(which):
                codes[which] = classifier.classify(tags, which, payload)
        return codes


def composition_times(source: ByteSource, tags: TagArrays, codes: Codes, table: ClassTable) -> Integers:
    """How much later than it is decoded each picture is shown, in milliseconds."""
    times = np.zeros(len(tags), np.int64)
    coded = table.where(codes, lambda one: one.kind is MediaKind.VIDEO and one.info.coded)
    heads = tags.heads
    legacy = coded & (heads[:, 0] < 0x80) & (tags.sizes >= 5)
    packeted = legacy & np.isin(heads[:, 0] & 15, _with_composition_time()) & (heads[:, 1] == 1)
    fields = heads[packeted][:, 2:5].astype(np.int64)
    numbers = fields[:, 0] << 16 | fields[:, 1] << 8 | fields[:, 2]
    times[packeted] = (numbers ^ 0x800000) - 0x800000
    for number in np.flatnonzero(coded & ~legacy).tolist():
        size = int(tags.sizes[number])
        times[number] = composition_time_ms(source.read(int(tags.offsets[number]) + TAG_HEADER_SIZE, size))
    return times


def _with_composition_time() -> list[int]:
    """The legacy codecs that have one, as `rtmprelay.flv.tags` knows them."""
    return [codec for codec in range(16) if composition_time_ms(bytes([0x10 | codec, 1, 0, 0, 1]))]
