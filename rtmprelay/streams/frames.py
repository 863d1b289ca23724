"""Frames in a live stream: what each one is, and batches that are encoded once for all subscribers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from enum import IntEnum
from itertools import product
from typing import Protocol

import attrs

from rtmprelay.flv import AnyCodec
from rtmprelay.flv.script import is_metadata
from rtmprelay.flv.tags import TagInfo, describe_audio, describe_video
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.streams.summary import FrameSummary, summarize_media


class FrameRole(IntEnum):
    """What a frame means to a receiver that starts late or falls behind."""

    #: Video at which decoding can start.
    KEYFRAME = 0
    #: Video that depends on earlier frames.
    INTER = 1
    #: Audio, or anything else where each frame stands alone.
    AUDIO = 2
    #: Timed data, passed on live.
    DATA = 3
    #: Metadata and decoder configuration: everybody needs the latest of each kind, so it is never dropped.
    STARTUP = 4


#: The startup key of metadata.
METADATA_KEY = "metadata"


@attrs.frozen
class FrameLook:
    """What the first bytes of a payload say. Frames that begin alike share one value.

    Attributes:
        startup_key: For a startup frame: it replaces an earlier one with the same key.
    """

    role: FrameRole
    codec: AnyCodec | None = None
    startup_key: Hashable = None


@attrs.define(eq=False)
class LiveFrame:
    """A media frame and what its first bytes say. All consumers share it."""

    frame: MediaFrame
    role: FrameRole
    size: int
    #: For a startup frame: it replaces an earlier one with the same key.
    startup_key: Hashable = None
    codec: AnyCodec | None = None
    _encoded: dict[FrameEncoder, bytes] | None = attrs.field(default=None, init=False)

    def encoded_for_all(self, encoder: FrameEncoder) -> bytes:
        """The frame alone, encoded once for all receivers: for large frames, of which copies would cost too much."""
        if self._encoded is None:
            self._encoded = {}
        data = self._encoded.get(encoder)
        if data is None:
            data = self._encoded[encoder] = encoder.encode([self.frame])
        return data


def _look_at_video(payload: bytes) -> FrameLook:
    tag = describe_video(payload)
    first_track = not tag.tracks or 0 in tag.tracks
    if tag.keyframe and first_track:
        # Of several tracks, track 0 decides where decoding can start: the others have their keyframes next to its own.
        return FrameLook(FrameRole.KEYFRAME, tag.codec)
    # Video of an unknown codec has no keyframes to wait for: any frame may be the first, as with audio.
    role = FrameRole.AUDIO if tag.codec is None else FrameRole.INTER
    return _look(MediaKind.VIDEO, tag, role)


def _look_at_audio(payload: bytes) -> FrameLook:
    return _look(MediaKind.AUDIO, describe_audio(payload), FrameRole.AUDIO)


def _look(kind: MediaKind, tag: TagInfo, role: FrameRole) -> FrameLook:
    # Of several tracks, the first one names the codec of the stream.
    codec = tag.codec if not tag.tracks or 0 in tag.tracks else None
    if tag.sequence_header or tag.startup_metadata:
        return FrameLook(FrameRole.STARTUP, codec, (kind, tag.tracks, tag.startup_metadata))
    return FrameLook(role, codec)


_METADATA = FrameLook(FrameRole.STARTUP, startup_key=METADATA_KEY)
_DATA = FrameLook(FrameRole.DATA)


def look_at(kind: MediaKind, payload: bytes) -> FrameLook:
    if kind is MediaKind.VIDEO:
        return _look_at_video(payload)
    if kind is MediaKind.AUDIO:
        return _look_at_audio(payload)
    return _METADATA if is_metadata(payload) else _DATA


def _usual(look: Callable[[bytes], FrameLook], first_bytes: Iterable[int]) -> dict[bytes, FrameLook]:
    return {bytes(pair): look(bytes(pair)) for pair in product(first_bytes, range(3))}


#: What payloads of the usual codecs are, by their first two bytes. These are enough unless the payload has an Enhanced
#: RTMP header: the second byte is the packet type, if the codec has any. The frame path looks here first.
USUAL_LOOKS: dict[MediaKind, dict[bytes, FrameLook]] = {
    MediaKind.VIDEO: _usual(_look_at_video, range(0x80)),
    MediaKind.AUDIO: _usual(_look_at_audio, [byte for byte in range(0x100) if byte >> 4 != 9]),
    MediaKind.DATA: {},
}


def live_frame(frame: MediaFrame) -> LiveFrame:
    """A frame with what its first bytes say."""
    look = look_at(frame.kind, frame.payload)
    return LiveFrame(frame, look.role, len(frame.payload), look.startup_key, look.codec)


class FrameEncoder(Protocol):
    """Turns frames into the bytes of one protocol. Consumers with equal encoders share the bytes."""

    def __hash__(self) -> int: ...

    def encode(self, frames: Sequence[MediaFrame]) -> bytes:
        """The frames, one after the other."""


def summarize(frames: Sequence[LiveFrame]) -> FrameSummary:
    """What delivering these frames adds to a record of deliveries."""
    return summarize_media(
        (live.frame for live in frames if live.role <= FrameRole.AUDIO),
        (
            (live.startup_key, live.frame.payload)
            for live in frames
            if live.role is FrameRole.STARTUP and live.startup_key != METADATA_KEY
        ),
    )


@attrs.define(eq=False)
class FrameBatch:
    """Frames that are delivered together."""

    frames: list[LiveFrame]
    #: How many frames, and how many bytes their payloads have.
    count: int
    size: int
    #: The bytes of each encoder, made for the first consumer that needs them.
    encoded: dict[FrameEncoder, bytes] = attrs.field(factory=dict, init=False)
    _summary: FrameSummary | None = attrs.field(default=None, init=False)

    @classmethod
    def of(cls, frames: list[LiveFrame]) -> FrameBatch:
        return cls(frames, len(frames), sum([frame.size for frame in frames]))

    def summary(self) -> FrameSummary:
        """What delivering the batch adds to a record of deliveries; computed once for all that keep one."""
        if self._summary is None:
            self._summary = summarize(self.frames)
        return self._summary
