"""The tracks of a stream: what each one is, and how they are found in the first frames.

An MP4 must say at its beginning which tracks it has.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.errors import RtmpRelayError
from rtmprelay.flv import AnyCodec, Codec
from rtmprelay.flv.codec_headers import OPUS_RATE, aac_sampling, mp3_sampling, picture_size
from rtmprelay.flv.script import decode_metadata
from rtmprelay.flv.sound_packets import read_ac3, read_eac3, read_flac_header
from rtmprelay.flv.tags import TagInfo, audio_content, describe_audio, describe_video, video_content
from rtmprelay.flv.vp9 import vp9_picture_size, vp9_record
from rtmprelay.media import TIMESTAMP_MODULUS, MediaFrame, MediaKind, milliseconds_between

VIDEO_TRACK_ID = 1
AUDIO_TRACK_ID = 2

#: Pictures are placed as exactly as RTMP says: in milliseconds.
VIDEO_TIMESCALE = 1000

#: The codecs that can be put into an MP4.
VIDEO_CODECS = frozenset((Codec.AVC, Codec.HEVC, Codec.AV1, Codec.VP9))
AUDIO_CODECS = frozenset((Codec.AAC, Codec.OPUS, Codec.MP3, Codec.AC3, Codec.EAC3, Codec.FLAC))
SUPPORTED_CODECS = VIDEO_CODECS | AUDIO_CODECS

#: Those of them whose media comes without a decoder configuration before it: every packet says it itself.
CODECS_WITHOUT_HEADER = frozenset((Codec.MP3, Codec.AC3, Codec.EAC3))

#: The size of the fixed part of each codec's configuration.
_MIN_CONFIGURATION_SIZE = {
    Codec.AVC: 7,
    Codec.HEVC: 23,
    Codec.AV1: 4,
    Codec.VP9: 8,
    Codec.OPUS: 19,
    Codec.AAC: 2,
    Codec.FLAC: 34,
}

_DEFAULT_FRAME_MS = 40

#: Milliseconds of a stream after which an MP4 begins without the tracks that are still missing.
MAX_WAIT_MS = 1000

#: The same as frames, for streams whose timestamps stand still.
MAX_WAIT_FRAMES = 1000


class UnsupportedMediaError(RtmpRelayError):
    """A stream has something in it that cannot be put into an MP4."""


def why_not_in_mp4(codec: AnyCodec | None) -> str | None:
    """Why a codec cannot be put into an MP4; None if it can, or is not known yet."""
    if codec is None or codec in SUPPORTED_CODECS:
        return None
    return f"{codec.display_name} cannot be put into an MP4 here"


def check_codec(codec: AnyCodec | None) -> None:
    """Raise UnsupportedMediaError if a codec cannot be put into an MP4."""
    reason = why_not_in_mp4(codec)
    if reason is not None:
        raise UnsupportedMediaError(reason)


# -- tracks --------------------------------------------------------------------------------------------------


@attrs.frozen(cache_hash=True)
class Track:
    """What video and audio tracks have in common. Tracks are values: equal ones make equal fragments.

    Attributes:
        configuration: As the publisher sent it. For AC-3 and E-AC-3 what an MP4 says of them, for MP3 nothing.
    """

    codec: Codec
    configuration: bytes


@attrs.frozen(cache_hash=True)
class VideoTrack(Track):
    width: int
    height: int
    #: The usual time from one picture to the next.
    frame_ms: int

    track_id = VIDEO_TRACK_ID
    timescale = VIDEO_TIMESCALE


@attrs.frozen(cache_hash=True)
class AudioTrack(Track):
    """Its clock ticks once a sample, so that packets follow each other without gaps."""

    timescale: int
    channels: int
    #: How many samples each packet has; None if every packet says it itself (Opus, FLAC).
    packet_samples: int | None

    track_id = AUDIO_TRACK_ID


AnyTrack = VideoTrack | AudioTrack


def _video_track(
    codec: Codec, configuration: bytes, payload: bytes, metadata: Mapping[str, AmfValue]
) -> VideoTrack:
    _check_configuration(codec, configuration)
    if codec is Codec.VP9 and vp9_record(configuration) is None:
        raise _unreadable(codec)
    width, height = picture_size(payload) or (_side(metadata, "width"), _side(metadata, "height"))
    return VideoTrack(codec, configuration, min(width, 65535), min(height, 65535), _frame_ms(metadata))


def _audio_track(codec: Codec, configuration: bytes) -> AudioTrack:
    """The track of a decoder configuration, or of a packet if the codec has none."""
    if codec in CODECS_WITHOUT_HEADER:
        return _track_of_packet(codec, configuration)
    _check_configuration(codec, configuration)
    if codec is Codec.OPUS:
        if not _is_opus_head(configuration):
            raise _unreadable(codec)
        return AudioTrack(codec, configuration, OPUS_RATE, configuration[9], None)
    if codec is Codec.FLAC:
        header = read_flac_header(configuration)
        if header is None:
            raise _unreadable(codec)
        return AudioTrack(codec, configuration, header.rate, header.channels, None)
    sampling = aac_sampling(configuration)
    if sampling is None:
        raise _unreadable(codec)
    return AudioTrack(codec, configuration, sampling.rate, sampling.channels, sampling.packet_samples)


def _track_of_packet(codec: Codec, packet: bytes) -> AudioTrack:
    if codec is Codec.MP3:
        sampling = mp3_sampling(packet)
        if sampling is not None:
            return AudioTrack(codec, b"", sampling.rate, sampling.channels, sampling.packet_samples)
    else:
        found = read_ac3(packet) if codec is Codec.AC3 else read_eac3(packet)
        if found is not None:
            return AudioTrack(codec, found.specific, found.rate, found.channels, found.samples)
    raise UnsupportedMediaError(
        f"the publisher announces {codec.display_name}, but its packets are something else"
    )


def _unreadable(codec: Codec) -> UnsupportedMediaError:
    return UnsupportedMediaError(f"the decoder configuration of {codec.display_name} cannot be read")


def _is_opus_head(configuration: bytes) -> bool:
    channels, mapping = configuration[9], configuration[18]
    # With a mapping, a table of the channels follows.
    size = 21 + channels if mapping else 19
    return configuration.startswith(b"OpusHead") and channels > 0 and len(configuration) >= size


def _check_configuration(codec: Codec, configuration: bytes) -> None:
    if len(configuration) < _MIN_CONFIGURATION_SIZE[codec]:
        raise UnsupportedMediaError(f"the decoder configuration of {codec.display_name} is cut short")


def _with_size_of(track: VideoTrack, picture: bytes) -> VideoTrack:
    """VP9 says the size in its keyframes; metadata may be wrong or missing."""
    size = vp9_picture_size(picture)
    return (
        track if size is None else attrs.evolve(track, width=min(size[0], 65535), height=min(size[1], 65535))
    )


def _side(metadata: Mapping[str, AmfValue], name: str) -> int:
    value = metadata.get(name)
    return int(value) if isinstance(value, float | int) and 0 < value <= 65535 else 0


def _frame_ms(metadata: Mapping[str, AmfValue]) -> int:
    rate = metadata.get("framerate")
    if isinstance(rate, float | int) and 0.5 <= rate <= 500:
        return round(1000 / rate)
    return _DEFAULT_FRAME_MS


# -- finding them --------------------------------------------------------------------------------------------

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


class TrackFinder:
    """Finds the tracks: give it frame after frame until `is_complete`.

    It waits for a first frame of each kind that the metadata announces: the timeline begins at the earliest
    of them. What does not come within a second of media is left out.

    Args:
        wait_for_keyframe: Pictures before the next keyframe will not be delivered.
    """

    def __init__(self, wait_for_keyframe: bool = False) -> None:
        self.is_complete = False
        #: What was found so far.
        self.video: VideoTrack | None = None
        self.audio: AudioTrack | None = None
        self._wait_for_keyframe = wait_for_keyframe
        self._metadata: dict[str, AmfValue] = {}
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
        codec = None if content is None else content.codec
        if content is None or not isinstance(codec, Codec) or codec not in VIDEO_CODECS:
            self._note_other(frame, describe_video(frame.payload))
        elif content.configuration:
            if not content.is_empty:
                self.video = _video_track(codec, content.of(frame.payload), frame.payload, self._metadata)
        elif content.keyframe or not self._wait_for_keyframe:
            self._wait_for_keyframe = False
            if codec is Codec.VP9 and self.video is not None:
                self.video = _with_size_of(self.video, content.of(frame.payload))
            self._note_coded(frame)

    def _note_audio(self, frame: MediaFrame) -> None:
        content = audio_content(frame.payload)
        codec = None if content is None else content.codec
        if content is None or not isinstance(codec, Codec) or codec not in AUDIO_CODECS:
            self._note_other(frame, describe_audio(frame.payload))
        elif content.configuration:
            if not content.is_empty and codec not in CODECS_WITHOUT_HEADER:
                self.audio = _audio_track(codec, content.of(frame.payload))
        else:
            if codec in CODECS_WITHOUT_HEADER and self.audio is None:
                self.audio = _audio_track(codec, content.of(frame.payload))
            self._note_coded(frame)

    def _note_other(self, frame: MediaFrame, info: TagInfo) -> None:
        """Media that no track here can hold. The tracks beside track 0 may have any codec."""
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
        tracks = {MediaKind.VIDEO: self.video, MediaKind.AUDIO: self.audio}
        return all(
            tracks[kind] is not None and kind in self._firsts for kind in promised_kinds(self._metadata)
        )

    def _waited_enough(self) -> bool:
        if self._began_at is None:
            return False
        waited_ms = milliseconds_between(self._began_at, self._newest)
        if waited_ms < MAX_WAIT_MS and self._frames < MAX_WAIT_FRAMES:
            return False
        if self.video is None and self.audio is None:
            raise UnsupportedMediaError("this stream has sent nothing that tells its codecs")
        return True

    @property
    def has_media(self) -> bool:
        """Whether a file could be made of what was found so far."""
        return bool(self._firsts) and (self.video is not None or self.audio is not None)

    @property
    def begin_ms(self) -> int:
        """The timestamp at which the stream begins."""
        begin = self._began_at or 0
        earliest = min((milliseconds_between(begin, first) for first in self._firsts.values()), default=0)
        return (begin + earliest) % TIMESTAMP_MODULUS
