"""Frames of each role, an encoder that can be read back, and a subscriber that keeps what it gets."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from zope.interface import implementer

from rtmprelay.flv.script import encode_metadata
from rtmprelay.interfaces import IFrameSubscriber, IStreamPublisher
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.streams.frames import FrameBatch, LiveFrame, live_frame

AVC_HEADER = b"\x17\x00\x00\x00\x00avc"
AAC_HEADER = b"\xaf\x00aac"
METADATA = encode_metadata({"width": 640.0})


def video(timestamp_ms: int, *, key: bool = False, size: int = 10) -> MediaFrame:
    """Coded H.264 of this many bytes."""
    return MediaFrame(MediaKind.VIDEO, timestamp_ms, (b"\x17\x01" if key else b"\x27\x01").ljust(size, b"v"))


def audio(timestamp_ms: int, *, size: int = 5) -> MediaFrame:
    """Coded AAC."""
    return MediaFrame(MediaKind.AUDIO, timestamp_ms, b"\xaf\x01".ljust(size, b"a"))


def data(timestamp_ms: int, payload: bytes = b"\x02\x00\x05onCue") -> MediaFrame:
    """A data message; a cue if nothing is said."""
    return MediaFrame(MediaKind.DATA, timestamp_ms, payload)


def video_header(payload: bytes = AVC_HEADER, timestamp_ms: int = 0) -> MediaFrame:
    return MediaFrame(MediaKind.VIDEO, timestamp_ms, payload)


def audio_header(payload: bytes = AAC_HEADER, timestamp_ms: int = 0) -> MediaFrame:
    return MediaFrame(MediaKind.AUDIO, timestamp_ms, payload)


def live(*frames: MediaFrame) -> list[LiveFrame]:
    return [live_frame(frame) for frame in frames]


@attrs.frozen
class ListingEncoder:
    """Names the timestamps of the frames; counts how often it worked."""

    name: str = ""
    calls: list[int] = attrs.field(factory=list, eq=False)

    def encode(self, frames: Sequence[MediaFrame]) -> bytes:
        self.calls.append(len(frames))
        return b"".join(b"%d:%d " % (frame.kind, frame.timestamp_ms) for frame in frames)


@implementer(IStreamPublisher)
class FakePublisher:
    def __init__(self, connection_id: str = "c000001") -> None:
        self.connection_id = connection_id
        self.address = "192.0.2.1:50000"
        self.superseded = 0
        self.ended: list[str] = []

    def publish_superseded(self) -> None:
        self.superseded += 1

    def publish_ended(self, reason: str) -> None:
        self.ended.append(reason)


@implementer(IFrameSubscriber)
class KeepingSubscriber:
    """Keeps all frames and calls that it gets."""

    def __init__(self) -> None:
        self.frames: list[MediaFrame] = []
        self.told: list[str] = []
        self.waits_for_keyframe = False

    def begin(self, startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        self.told.append("begin")
        self.waits_for_keyframe = wait_for_keyframe
        self.frames += [frame.frame for frame in startup]

    def frames_arrived(self, batch: FrameBatch) -> None:
        self.frames += [frame.frame for frame in batch.frames]

    def write(self, data: bytes) -> None:
        raise AssertionError("nothing was returned to be written")

    def publisher_left(self) -> None:
        self.told.append("left")

    def publisher_returned(self) -> None:
        self.told.append("returned")
