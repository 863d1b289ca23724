"""What many tags are, at once: the answers of `rtmprelay.flv.tags`, asked once for each first bytes that occur."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
import numpy as np
import numpy.typing as npt

from rtmprelay.flv import AnyCodec, UnknownCodec
from rtmprelay.flv.container import TAG_HEADER_SIZE
from rtmprelay.flv.enhanced_header import AudioPacketType, MultitrackType, VideoPacketType
from rtmprelay.flv.tags import UNKNOWN, TagInfo, composition_time_ms, describe_audio, describe_video
from rtmprelay.media import MediaKind
from spark_analytics.flv.sources import Bytes, ByteSource
from spark_analytics.flv.tags import HEAD_SIZE, Integers, TagArrays

Codes = npt.NDArray[np.int16]
Flags = npt.NDArray[np.bool_]

#: Stands for every codec that has no name. A stranger's file may have any number of them.
OTHER_CODEC = UnknownCodec(b"")

#: Different first bytes of enhanced payloads that are remembered; real files have a handful.
_MOST_REMEMBERED = 4096

#: What the header of an enhanced payload has: a first byte and a FourCC; with one track, also how the tracks are told
#: apart, and which one it is.
_PLAIN_HEADER = 5
_TRACK_HEADER = 7

#: If one of so many tags must be asked for its payload, that is many: they are read with what is between them.
_MANY = 8


@attrs.frozen
class TagClass:
    """All that is told apart of tags: what they carry, and what their first bytes say.

    Attributes:
        side_track: Whether it belongs to other tracks than the first alone; what tells no tracks apart is the first.
    """

    kind: MediaKind | None
    info: TagInfo
    side_track: bool = False

    @property
    def codec_name(self) -> str | None:
        """The codec as the tables show it."""
        codec = self.info.codec
        return "other" if codec is OTHER_CODEC else codec.display_name if codec is not None else None


class ClassTable:
    """Gives numbers to classes, and properties of many numbers at once."""

    def __init__(self) -> None:
        self.classes: list[TagClass] = []
        self._numbers: dict[TagClass, int] = {}
        self._coded: Flags = np.empty(0, np.bool_)
        self._keyframe: Flags = np.empty(0, np.bool_)
        self._codec: Codes = np.empty(0, np.int16)
        self._codecs: dict[AnyCodec | None, int] = {None: -1}
        self.no_media = self.number(TagClass(None, UNKNOWN))
        self.script = self.number(TagClass(MediaKind.DATA, UNKNOWN))

    def number(self, tag_class: TagClass) -> int:
        """The number of a class; there are some hundred at most, because unknown codecs are one, and so are side tracks."""
        info = tag_class.info
        codec = OTHER_CODEC if isinstance(info.codec, UnknownCodec) else info.codec
        side_track = bool(info.tracks) and 0 not in info.tracks
        plain = TagClass(tag_class.kind, attrs.evolve(info, codec=codec, tracks=()), side_track)
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
    #: The packet type that says that there are tracks.
    multitrack: int
    by_two_bytes: Codes = attrs.field(factory=lambda: np.full(65536, -1, np.int16))
    by_first_bytes: dict[bytes, int] = attrs.field(factory=dict)

    def classify(self, tags: TagArrays, which: Integers, source: ByteSource) -> Codes:
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
            plain = enhanced & ~self.involved[first] & (sizes >= _PLAIN_HEADER)
            self._take_heads(codes, plain, heads[:, :_PLAIN_HEADER])
            one_track = enhanced & ((first & 15) == self.multitrack) & (sizes >= _TRACK_HEADER)
            one_track &= heads[:, 1] >> 4 == MultitrackType.ONE_TRACK
            self._take_heads(codes, one_track, heads[:, :_TRACK_HEADER])
            enhanced &= ~plain & ~one_track
        asked = np.flatnonzero(enhanced | (sizes < 2))
        for number, payload in zip(asked.tolist(), _payloads(source, tags, which[asked]), strict=True):
            codes[number] = self._number(payload)
        return codes

    def _take_heads(self, codes: Codes, chosen: Flags, heads: Bytes) -> None:
        """Fill in what the first bytes alone tell."""
        if chosen.any():
            codes[chosen] = self._by_first_bytes(heads[chosen])

    def _by_first_bytes(self, heads: Bytes) -> Codes:
        if (heads == heads[0]).all():
            return np.full(len(heads), self._remembered(heads[0].tobytes()), np.int16)
        different, which = _different(heads)
        found: Codes = np.array([self._remembered(head) for head in different], np.int16)[which]
        return found

    def _remembered(self, head: bytes) -> int:
        code = self.by_first_bytes.get(head)
        if code is None:
            code = self._number(head)
            if len(self.by_first_bytes) < _MOST_REMEMBERED:
                self.by_first_bytes[head] = code
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
                VideoPacketType.MULTITRACK,
            ),
            MediaKind.AUDIO: _MediaClassifier(
                self.table,
                MediaKind.AUDIO,
                describe_audio,
                high == 9,
                np.isin(low, (AudioPacketType.MULTITRACK, AudioPacketType.MOD_EX)),
                AudioPacketType.MULTITRACK,
            ),
        }

    def classify(self, source: ByteSource, tags: TagArrays) -> Codes:
        """The number of the class of each tag, as `table` has them."""
        codes = np.full(len(tags), self.table.no_media, np.int16)
        codes[tags.types == MediaKind.DATA] = self.table.script
        for kind, classifier in self._by_type.items():
            which = np.flatnonzero(tags.types == kind)
            if len(which):
                codes[which] = classifier.classify(tags, which, source)
        return codes


def composition_times(source: ByteSource, tags: TagArrays, codes: Codes, table: ClassTable) -> Integers:
    """How much later than it is decoded each picture is shown, in milliseconds."""
    times = np.zeros(len(tags), np.int64)
    coded = table.where(codes, lambda one: one.kind is MediaKind.VIDEO and one.info.coded)
    if not coded.any():
        return times
    first, low = tags.heads[:, 0], tags.heads[:, 0] & 15
    enhanced = coded & (first >= 0x80)
    packeted = coded & ~enhanced & np.isin(low, _with_composition_time()) & (tags.heads[:, 1] == 1)
    packeted &= tags.sizes >= 5
    times[packeted] = _signed_24(tags.heads[packeted, 2:5])
    involved = enhanced & np.isin(low, (VideoPacketType.MULTITRACK, VideoPacketType.MOD_EX))
    plain = np.flatnonzero(enhanced & ~involved & (tags.sizes >= _PLAIN_HEADER + 3))
    different, which = _different(tags.heads[plain, :_PLAIN_HEADER])
    # Whether there is one depends on the header alone.
    has_one: Flags = np.array([composition_time_ms(head + b"\0\0\1") != 0 for head in different], np.bool_)
    plain = plain[has_one[which]]
    times[plain] = _signed_24(tags.heads[plain, _PLAIN_HEADER : _PLAIN_HEADER + 3])
    asked = np.flatnonzero(involved)
    times[asked] = [composition_time_ms(payload) for payload in _payloads(source, tags, asked)]
    return times


def _signed_24(fields: Bytes) -> Integers:
    """The numbers in rows of three bytes."""
    wide = fields.astype(np.int64)
    numbers: Integers = (wide[:, 0] << 16 | wide[:, 1] << 8 | wide[:, 2]) ^ 0x800000
    return numbers - 0x800000


def _different(heads: Bytes) -> tuple[list[bytes], Integers]:
    """The first bytes that occur, eight at most, and which of them each row has."""
    width = heads.shape[1]
    rows = np.zeros((len(heads), 8), np.uint8)
    rows[:, :width] = heads
    keys, which = np.unique(rows.view(">u8").ravel().astype(np.uint64), return_inverse=True)
    return [key.to_bytes(8, "big")[:width] for key in keys.tolist()], which


def _payloads(source: ByteSource, tags: TagArrays, numbers: Integers) -> Iterator[bytes]:
    """The payloads of some of the tags. Far away each request takes its time: many of them are read in blocks."""
    many = len(numbers) > max(_MANY, len(tags) // _MANY)
    for number in numbers.tolist():
        begin, size = int(tags.offsets[number]) + TAG_HEADER_SIZE, int(tags.sizes[number])
        if size <= HEAD_SIZE:
            yield tags.heads[number, :size].tobytes()
            continue
        if many:
            source.window(begin, size)
        yield source.read(begin, size)


def _with_composition_time() -> list[int]:
    """The legacy codecs that have one, as `rtmprelay.flv.tags` knows them."""
    return [codec for codec in range(16) if composition_time_ms(bytes([0x10 | codec, 1, 0, 0, 1]))]
