"""Which tracks a stream has, learnt from its first frames: an MP4 must say so at its beginning."""

from __future__ import annotations

from collections.abc import Mapping

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.flv.contents import audio_content, video_content
from rtmprelay.flv.script import decode_metadata
from rtmprelay.flv.tags import TagInfo, describe_audio, describe_video
from rtmprelay.media import TIMESTAMP_MODULUS, MediaFrame, MediaKind, milliseconds_between
from rtmprelay.mp4.fragments import FragmentEncoder
from rtmprelay.mp4.tracks import (
    AUDIO_CODECS,
    SUPPORTED_CODECS,
    VIDEO_CODECS,
    AudioTrack,
    UnsupportedMediaError,
    VideoTrack,
    audio_track,
    video_track,
)

#: How much of a stream may pass before it begins without what is still missing.
MAX_WAIT_MS = 1000

#: The same for timestamps that stand still.
MAX_WAIT_FRAMES = 1000

_BOTH = frozenset((MediaKind.VIDEO, MediaKind.AUDIO))


def promised_kinds(metadata: Mapping[str, AmfValue]) -> frozenset[MediaKind]:
    """The kinds of media that a publisher announces; both if it does not say."""
    found = set()
    for kind, signs, denial in (
        (MediaKind.VIDEO, ("videocodecid", "width", "framerate"), "hasVideo"),
        (MediaKind.AUDIO, ("audiocodecid", "audiosamplerate", "audiochannels"), "hasAudio"),
    ):
        if metadata.get(denial) is not False and any(sign in metadata for sign in (*signs, denial)):
            found.add(kind)
    return frozenset(found) or _BOTH


def check_codec(name: str | None) -> None:
    """Raise if a codec, by its name in `rtmprelay.flv.tags`, has no place in an MP4."""
    if name is not None and name not in SUPPORTED_CODECS:
        raise UnsupportedMediaError(f"{name} has no place in an MP4 here")


class TrackFinder:
    """Gets frame after frame until `is_complete`.

    It waits for a first frame of each kind that the metadata announces: then the earliest of them is where the
    timeline begins. What does not come within a second of media is left out.
    """

    def __init__(self, wait_for_keyframe: bool = False) -> None:
        """Args:
        wait_for_keyframe: Pictures before the next keyframe will not be delivered.
        """
        self.is_complete = False
        self._wait_for_keyframe = wait_for_keyframe
        self._metadata: dict[str, AmfValue] = {}
        self._video: VideoTrack | None = None
        self._audio: AudioTrack | None = None
        self._firsts: dict[MediaKind, int] = {}
        self._began_at: int | None = None
        self._newest = 0
        self._frames = 0

    def note(self, frame: MediaFrame) -> None:
        """Look at a frame.

        Raises:
            UnsupportedMediaError: This stream cannot become an MP4.
        """
        self._frames += 1
        if frame.kind is MediaKind.VIDEO:
            self._note_video(frame)
        elif frame.kind is MediaKind.AUDIO:
            self._note_audio(frame)
        else:
            self._metadata = decode_metadata(frame.payload) or self._metadata
        self.is_complete = self._is_all_there() or self._waited_enough()

    def _note_video(self, frame: MediaFrame) -> None:
        content = video_content(frame.payload)
        if content is None or content.codec not in VIDEO_CODECS:
            self._note_other(frame, describe_video(frame.payload))
        elif content.configuration:
            if not content.is_empty:
                self._video = video_track(frame.payload, content, self._metadata)
        elif content.keyframe or not self._wait_for_keyframe:
            self._wait_for_keyframe = False
            self._note_coded(frame)

    def _note_audio(self, frame: MediaFrame) -> None:
        content = audio_content(frame.payload)
        if content is None or content.codec not in AUDIO_CODECS:
            self._note_other(frame, describe_audio(frame.payload))
        elif content.configuration:
            if not content.is_empty:
                self._audio = audio_track(frame.payload, content)
        else:
            if content.codec == b".mp3" and self._audio is None:
                self._audio = audio_track(frame.payload, content)
            self._note_coded(frame)

    def _note_other(self, frame: MediaFrame, info: TagInfo) -> None:
        """Something that goes into no MP4; the tracks beside track 0 may be what they like."""
        if not info.tracks or 0 in info.tracks:
            check_codec(info.codec)
        if info.coded:
            self._note_time(frame.timestamp_ms)

    def _note_coded(self, frame: MediaFrame) -> None:
        self._firsts.setdefault(frame.kind, frame.timestamp_ms)
        self._note_time(frame.timestamp_ms)

    def _note_time(self, timestamp_ms: int) -> None:
        if self._began_at is None:
            self._began_at = timestamp_ms
        self._newest = timestamp_ms

    def _is_all_there(self) -> bool:
        tracks = {MediaKind.VIDEO: self._video, MediaKind.AUDIO: self._audio}
        return all(
            tracks[kind] is not None and kind in self._firsts for kind in promised_kinds(self._metadata)
        )

    def _waited_enough(self) -> bool:
        if self._began_at is None:
            return False
        if (
            milliseconds_between(self._began_at, self._newest) < MAX_WAIT_MS
            and self._frames < MAX_WAIT_FRAMES
        ):
            return False
        if self._video is None and self._audio is None:
            raise UnsupportedMediaError("this stream has sent nothing by which its codecs can be recognised")
        return True

    @property
    def has_media(self) -> bool:
        """Whether a file could be made of what there is so far."""
        return bool(self._firsts) and (self._video is not None or self._audio is not None)

    def encoder(self) -> FragmentEncoder:
        """What makes the fragments; for a finder that is complete."""
        return FragmentEncoder(self._video, self._audio)

    @property
    def begin_ms(self) -> int:
        """The timestamp at which the stream begins."""
        begin = self._began_at or 0
        earliest = min((milliseconds_between(begin, first) for first in self._firsts.values()), default=0)
        return (begin + earliest) % TIMESTAMP_MODULUS
