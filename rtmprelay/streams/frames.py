"""Frames on their way through a live stream: what each one is, and batches that are encoded once for all."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import IntEnum
from typing import Protocol

import attrs

from rtmprelay.flv import AnyCodec
from rtmprelay.flv.script import is_metadata
from rtmprelay.flv.tags import TagInfo, describe_audio, describe_video
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.streams.summary import FrameSummary, summarize_media


class FrameRole(IntEnum):
    """What a frame is to those that start late or fall behind."""

    #: Video that can be decoded from here on.
    KEYFRAME = 0
    #: Video that leans on earlier frames.
    INTER = 1
    #: Audio, or anything else of which each frame stands alone.
    AUDIO = 2
    #: Timed data, passed on live.
    DATA = 3
    #: Metadata and decoder configuration: everybody needs the latest of its kind, nobody may lose it.
    STARTUP = 4


@attrs.define(eq=False)
class LiveFrame:
    """A media frame, and what was learnt from its first bytes. Shared by all consumers."""

    frame: MediaFrame
    role: FrameRole
    size: int
    #: For a startup frame: which other one it replaces.
    startup_key: Hashable = None
    codec: AnyCodec | None = None


METADATA_KEY = "metadata"


def live_frame(frame: MediaFrame) -> LiveFrame:
    """Look at the first bytes of a frame."""
    payload = frame.payload
    kind = frame.kind
    if kind is MediaKind.VIDEO:
        tag = describe_video(payload)
        if tag.keyframe and (not tag.tracks or 0 in tag.tracks):
            # Of several tracks, track 0 says where decoding can start: the others' keyframes come beside its own.
            return LiveFrame(frame, FrameRole.KEYFRAME, len(payload), None, tag.codec)
        # Video of an unknown kind has no keyframes that one could wait for: each frame may be the first, as with audio.
        role = FrameRole.AUDIO if tag.codec is None else FrameRole.INTER
    elif kind is MediaKind.AUDIO:
        tag = describe_audio(payload)
        role = FrameRole.AUDIO
    elif is_metadata(payload):
        return LiveFrame(frame, FrameRole.STARTUP, len(payload), METADATA_KEY)
    else:
        return LiveFrame(frame, FrameRole.DATA, len(payload))
    # Of several tracks the first one says what the stream is made of.
    codec = tag.codec if not tag.tracks or 0 in tag.tracks else None
    if tag.sequence_header or tag.startup_metadata:
        return LiveFrame(frame, FrameRole.STARTUP, len(payload), _startup_key(kind, tag), codec)
    return LiveFrame(frame, role, len(payload), None, codec)


def _startup_key(kind: MediaKind, tag: TagInfo) -> Hashable:
    return kind, tag.tracks, tag.startup_metadata


class FrameEncoder(Protocol):
    """Turns frames into the bytes of one protocol. Equal encoders share their results."""

    def __hash__(self) -> int: ...

    def encode(self, frames: Sequence[LiveFrame]) -> bytes:
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


class FrameBatch:
    """Frames that came in together. Each encoder's bytes are made once, for the first consumer that wants them."""

    __slots__ = ("_encoded", "_summary", "count", "frames", "size")

    def __init__(self, frames: Sequence[LiveFrame]) -> None:
        self.frames = frames
        self.count = len(frames)
        self.size = sum(frame.size for frame in frames)
        self._encoded: dict[FrameEncoder, bytes] = {}
        self._summary: FrameSummary | None = None

    def encoded(self, encoder: FrameEncoder) -> bytes:
        """All frames of the batch as bytes."""
        data = self._encoded.get(encoder)
        if data is None:
            data = self._encoded[encoder] = encoder.encode(self.frames)
        return data

    def summary(self) -> FrameSummary:
        """What delivering the batch adds to a record of deliveries; made once for all who keep one."""
        if self._summary is None:
            self._summary = summarize(self.frames)
        return self._summary
