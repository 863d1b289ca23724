"""What a file is made of, learnt tag by tag: what the metadata at its start says in the end."""

from __future__ import annotations

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.flv.enhanced_header import read_audio_header, read_video_header
from rtmprelay.flv.keyframe_index import KeyframeIndex
from rtmprelay.flv.picture_size import picture_size
from rtmprelay.flv.script import decode_metadata
from rtmprelay.flv.tags import TagInfo, describe_audio, describe_video
from rtmprelay.media import MediaFrame, MediaKind, milliseconds_between

#: What describes a file, and is false for any other one that is made from the same stream.
FILE_VALUES = frozenset(
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

#: How the names begin of what a recorder says of its file.
OWN_PREFIX = "rtmprelay_"


class FileFacts:
    """Times, codecs and keyframes of a file. Times go on across the end of the 32-bit circle.

    Attributes:
        metadata: What the publisher said of its stream, without what only holds for a file.
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
        """Take note of a tag at this position."""
        if frame.kind is MediaKind.VIDEO:
            self._note_video(frame, describe_video(frame.payload), position)
        elif frame.kind is MediaKind.AUDIO:
            self._note_audio(frame, describe_audio(frame.payload))
        else:
            self.note_metadata(frame.payload)

    def note_metadata(self, payload: bytes, ours: bool = False) -> None:
        """Take note of what the publisher says of its stream.

        Args:
            ours: The recorder wrote it. Nobody else may say which stream this is.
        """
        for name, value in (decode_metadata(payload) or {}).items():
            if name not in FILE_VALUES and (ours or not name.startswith(OWN_PREFIX)):
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
            # Its own time and no other: FFmpeg throws an index away whose times are not those of the tags.
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
        """What holds for the stream: the publisher's word first, then what its bytes say."""
        return {**self._from_codecs, **self.metadata}

    def file_values(self, size: int) -> dict[str, AmfValue]:
        """What holds for this file once it has so many bytes, but for the index."""
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
    """The legacy number, or as Enhanced RTMP has it the FourCC as a number."""
    if payload[0] & 0x80:
        header = read_video_header(payload)
        return float(int.from_bytes(header.fourcc, "big")) if header is not None else 0.0
    return float(payload[0] & 15)


def _audio_codec_id(payload: bytes) -> float:
    if payload[0] >> 4 == 9:
        header = read_audio_header(payload)
        return float(int.from_bytes(header.fourcc, "big")) if header is not None else 9.0
    return float(payload[0] >> 4)
