"""The metadata at the start of a recording: what it says of the file, and the space that is kept for it.

`FileFacts` learns from every tag what the metadata must say in the end. `ReservedMetadata` is the onMetaData
tag: it is written when little is known, and completed in place at the end.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping

import attrs

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.errors import LocalProtocolError
from rtmprelay.flv.codec_headers import picture_size
from rtmprelay.flv.container import MAX_PAYLOAD_SIZE
from rtmprelay.flv.enhanced_header import read_audio_header, read_video_header
from rtmprelay.flv.script import decode_metadata, encode_metadata
from rtmprelay.flv.tags import TagInfo, describe_audio, describe_video
from rtmprelay.media import MediaFrame, MediaKind, milliseconds_between

#: Values that describe one file, and are wrong for any other file made from the same stream.
_FILE_VALUES = frozenset(
    {
        "duration",
        "filesize",
        "lasttimestamp",
        "lastkeyframetimestamp",
        "lastkeyframelocation",
        "keyframes",
        "hasAudio",
        "hasVideo",
        "hasMetadata",
        "hasKeyframes",
        "canSeekToEnd",
        "datasize",
        "audiosize",
        "videosize",
    }
)

#: The prefix of the values that only the recorder may write.
_OWN_PREFIX = "rtmprelay_"

#: Keyframes in memory: twice what fits into the space that a recording reserves. A day of keyframes every two
#: seconds is 43,000; an encoder that makes every frame one would fill the memory.
_MAX_KEYFRAMES = 8192

#: Bytes of one keyframe in the metadata: two numbers.
_KEYFRAME_SIZE = 18

#: Bytes of an index without keyframes: its name, two names of arrays, two counts, the end mark.
_EMPTY_INDEX_SIZE = 2 + 9 + 1 + (2 + 5 + 5) + (2 + 13 + 5) + 3

#: Room for 3,600 keyframes: two hours with one every two seconds. Longer recordings keep fewer of them.
DEFAULT_SPACE = 64 * 1024

#: Room for the values of the file itself, besides the keyframes.
_MIN_SPACE = 512

#: Keyframes in a file: more would exceed the 100,000 values that an AMF message may have when it is read back.
MAX_INDEXED = 40_000

#: What is kept of metadata that together is too much for one message: this many values of this size in bytes.
_MAX_SMALL_VALUES = 1000
_SMALL_VALUE_SIZE = 256

_NULL = b"\x05"


# -- what the file is ----------------------------------------------------------------------------------------


class KeyframeIndex:
    """Times and file positions of keyframes. When there are too many, every other one is dropped.

    Args:
        max_entries: How many are kept; once there were that many, at least half of it stays.
    """

    def __init__(self, max_entries: int = _MAX_KEYFRAMES) -> None:
        self._max_entries = max_entries
        self._times = array("q")
        self._positions = array("q")
        self._every = 1
        self._seen = 0

    def __len__(self) -> int:
        return len(self._times)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._times, self._positions, strict=True)

    def add(self, time_ms: int, position: int) -> None:
        if self._seen % self._every == 0:
            self._times.append(time_ms)
            self._positions.append(position)
            if len(self._times) >= self._max_entries:
                self._times, self._positions = self._times[::2], self._positions[::2]
                self._every *= 2
        self._seen += 1

    def as_amf(self, space: int) -> dict[str, AmfValue] | None:
        """The `keyframes` object of the metadata in at most `space` bytes; None if not one entry fits.

        With too little space it is thinned evenly; the first entry, where players start, always stays.
        """
        fitting = (space - _EMPTY_INDEX_SIZE) // _KEYFRAME_SIZE
        if fitting < 1 or not self._times:
            return None
        step = -(-len(self._times) // fitting)
        times: list[AmfValue] = [time / 1000 for time in self._times[::step]]
        positions: list[AmfValue] = [float(position) for position in self._positions[::step]]
        return {"times": times, "filepositions": positions}


class FileFacts:
    """Times, codecs and keyframes of a file. Times continue when the 32-bit timestamps wrap.

    Attributes:
        metadata: What the publisher says of its stream, without the values that describe a file.
    """

    def __init__(self, index: KeyframeIndex | None = None) -> None:
        self.index = KeyframeIndex() if index is None else index
        self.metadata: dict[str, AmfValue] = {}
        self.has_audio = False
        self.has_video = False
        self.first_ms: int | None = None
        self.last_ms = 0
        self.last_keyframe_ms: int | None = None
        self.keyframes = 0
        self._newest = 0
        self._newest_ms = 0
        self._from_codecs: dict[str, AmfValue] = {}
        # Timestamp and position of the first decoder configuration, until a keyframe follows.
        self._header: tuple[int, int] | None = None

    @property
    def duration_ms(self) -> int:
        """From the first coded frame to the last."""
        return 0 if self.first_ms is None else self.last_ms - self.first_ms

    def note(self, frame: MediaFrame, position: int) -> None:
        """Learn from the tag at this position of the file."""
        if frame.kind is MediaKind.VIDEO:
            self._note_video(frame, describe_video(frame.payload), position)
        elif frame.kind is MediaKind.AUDIO:
            self._note_audio(frame, describe_audio(frame.payload))
        else:
            self.note_metadata(frame.payload)

    def note_metadata(self, payload: bytes, ours: bool = False) -> None:
        """Learn what the publisher says of its stream.

        Args:
            ours: The recorder wrote it. Nobody else may say which stream this is.
        """
        for name, value in (decode_metadata(payload) or {}).items():
            if name not in _FILE_VALUES and (ours or not name.startswith(_OWN_PREFIX)):
                self.metadata[name] = value

    def _note_video(self, frame: MediaFrame, info: TagInfo, position: int) -> None:
        if not self.has_video and frame.payload:
            self.has_video = True
            self._from_codecs["videocodecid"] = _video_codec_id(frame.payload)
        if info.sequence_header:
            self._note_video_header(frame, position)
        elif info.coded and frame.payload:
            time_ms = self._time_of(frame.timestamp_ms)
            if info.keyframe:
                if not self.keyframes:
                    self._index_header(frame.timestamp_ms, time_ms)
                self.last_keyframe_ms = time_ms
                self.keyframes += 1
                self.index.add(time_ms, position)

    def _index_header(self, keyframe_timestamp_ms: int, keyframe_ms: int) -> None:
        """mpegts.js takes the first entry for the decoder configuration, and does not seek to it."""
        if self._header is not None:
            timestamp_ms, position = self._header
            # With its own time: FFmpeg discards an index whose times are not those of the tags.
            time_ms = keyframe_ms - milliseconds_between(timestamp_ms, keyframe_timestamp_ms)
            if 0 <= time_ms <= keyframe_ms:
                self.index.add(time_ms, position)

    def _note_video_header(self, frame: MediaFrame, position: int) -> None:
        if self._header is None:
            self._header = frame.timestamp_ms, position
        size = picture_size(frame.payload)
        if size is not None:
            self._from_codecs["width"], self._from_codecs["height"] = map(float, size)

    def _note_audio(self, frame: MediaFrame, info: TagInfo) -> None:
        if not self.has_audio and frame.payload:
            self.has_audio = True
            self._from_codecs["audiocodecid"] = _audio_codec_id(frame.payload)
        if info.coded and frame.payload:
            self._time_of(frame.timestamp_ms)

    def _time_of(self, timestamp_ms: int) -> int:
        if self.first_ms is None:
            self.first_ms = self._newest = self._newest_ms = self.last_ms = timestamp_ms
            return timestamp_ms
        self._newest_ms += milliseconds_between(self._newest, timestamp_ms)
        self._newest = timestamp_ms
        self.last_ms = max(self.last_ms, self._newest_ms)
        return self._newest_ms

    def stream_values(self) -> dict[str, AmfValue]:
        """The values of the stream: the publisher's own where it sends them, else what the codecs say."""
        return {**self._from_codecs, **self.metadata}

    def file_values(self, size: int) -> dict[str, AmfValue]:
        """The values of a file of this size, without the index."""
        last_keyframe = self.last_keyframe_ms
        return {
            "duration": self.duration_ms / 1000,
            "filesize": float(size),
            "lasttimestamp": self.last_ms / 1000,
            **({} if last_keyframe is None else {"lastkeyframetimestamp": last_keyframe / 1000}),
            "hasAudio": self.has_audio,
            "hasVideo": self.has_video,
            "hasMetadata": True,
            "hasKeyframes": bool(self.keyframes),
        }


def _video_codec_id(payload: bytes) -> float:
    """The legacy number; for Enhanced RTMP, as its specification says, the FourCC as a number."""
    if payload[0] & 0x80:
        header = read_video_header(payload)
        return float(int.from_bytes(header.fourcc)) if header is not None else 0.0
    return float(payload[0] & 15)


def _audio_codec_id(payload: bytes) -> float:
    if payload[0] >> 4 == 9:
        header = read_audio_header(payload)
        return float(int.from_bytes(header.fourcc)) if header is not None else 9.0
    return float(payload[0] >> 4)


# -- the tag -------------------------------------------------------------------------------------------------


@attrs.frozen
class ReservedMetadata:
    """The payload of the onMetaData tag as it is first written: values, then space as AMF nulls.

    Readers take the one value and ignore what follows it. To complete the tag, write the space first, from
    `values_end` on, and only then the part before it. Until that last write, which for metadata of usual size
    lies in one page, the old values and their end mark are there; after it, the new ones. So a crash at any
    moment leaves one or the other.

    Attributes:
        values_end: Where in the payload the values end and the space begins.
    """

    payload: bytes
    values_end: int

    @classmethod
    def with_space(cls, values: Mapping[str, AmfValue], space: int = DEFAULT_SPACE) -> ReservedMetadata:
        """These values, and space for more; values that cannot be written are left out."""
        encoded = _encode_what_can_be(values)
        return cls(encoded + _NULL * max(space, _MIN_SPACE), len(encoded))

    def completed(
        self, values: Mapping[str, AmfValue], fallback: Mapping[str, AmfValue], index: KeyframeIndex
    ) -> bytes:
        """A payload of the same size with these values and as many keyframes as fit.

        Args:
            fallback: The values to write if there is no space for all.
        """
        size = len(self.payload)
        encoded = _encode_what_can_be(values)
        if len(encoded) > size:
            values, encoded = fallback, _encode_what_can_be(fallback)
        if len(encoded) > size:
            return self.payload
        keyframes = index.as_amf(size - len(encoded))
        if keyframes is not None:
            encoded = _encode_what_can_be({**values, "keyframes": keyframes})
        return encoded.ljust(size, _NULL)


def whole_payload(values: Mapping[str, AmfValue], index: KeyframeIndex) -> bytes:
    """The payload for a file that is written when all is known: no more space than the index needs."""
    size = len(_encode_what_can_be(values)) + 100 + _KEYFRAME_SIZE * min(len(index), MAX_INDEXED)
    return ReservedMetadata(bytes(min(size, MAX_PAYLOAD_SIZE)), 0).completed(values, values, index)


def _encode_what_can_be(values: Mapping[str, AmfValue]) -> bytes:
    try:
        return encode_metadata(values)
    except LocalProtocolError:
        # A publisher's metadata may hold what only a reader understands: AMF3, or a value inside itself.
        sizes = {name: size for name in values if (size := _encoded_size(name, values[name])) is not None}
    try:
        return encode_metadata({name: values[name] for name in sizes})
    except LocalProtocolError:
        # Together they are too much for one message. The recorder's own values are small and the last ones.
        small = [name for name, size in sizes.items() if size <= _SMALL_VALUE_SIZE]
        return encode_metadata({name: values[name] for name in small[-_MAX_SMALL_VALUES:]})


def _encoded_size(name: str, value: AmfValue) -> int | None:
    try:
        return len(encode_metadata({name: value}))
    except LocalProtocolError:
        return None
