"""What a late joiner needs first: metadata, decoder configuration, and the frames since the last keyframe."""

from __future__ import annotations

from collections.abc import Hashable

import attrs

from rtmprelay.media import TIMESTAMP_MODULUS, MediaFrame, MediaKind
from rtmprelay.streams.frames import METADATA_KEY, FrameRole, LiveFrame
from rtmprelay.streams.limits import StreamLimits

_HALF_CIRCLE = TIMESTAMP_MODULUS >> 1


class StartupCache:
    """Remembers the latest startup frames and the current group of pictures (GOP), both within bounds."""

    def __init__(self, limits: StreamLimits) -> None:
        self._limits = limits
        self._startup: dict[Hashable, LiveFrame] = {}
        self._gop: list[LiveFrame] = []
        self._gop_bytes = 0
        #: Bytes that the current group of pictures may have; less than usual while memory is scarce.
        self.most_bytes = limits.gop_bytes
        #: The newest timestamp of coded media, and when it arrived; None before the first.
        self.newest: int | None = None
        self.newest_at = 0.0
        #: Whether a keyframe has come: before that, a late joiner cannot be told to wait for one.
        self.has_keyframes = False

    def remember(self, frame: LiveFrame, now: float) -> None:
        """Take note of a frame. This is the frame path: distances between timestamps are computed without a call."""
        role = frame.role
        timestamp = frame.frame.timestamp_ms
        if role <= FrameRole.AUDIO:
            newest = self.newest
            if newest is None or 0 < (timestamp - newest) % TIMESTAMP_MODULUS < _HALF_CIRCLE:
                self.newest = timestamp
                self.newest_at = now
        if role is FrameRole.KEYFRAME:
            self.has_keyframes = True
            self._gop = [frame]
            self._gop_bytes = frame.size
            if frame.size > self.most_bytes:
                self._forget_gop()
        elif role is FrameRole.STARTUP:
            self._remember_startup(frame)
        elif self._gop:
            gop = self._gop
            gop.append(frame)
            self._gop_bytes += frame.size
            limits = self._limits
            # Frames may be a little older than the keyframe before them: the distance has a sign.
            length_ms = (
                timestamp - gop[0].frame.timestamp_ms + _HALF_CIRCLE
            ) % TIMESTAMP_MODULUS - _HALF_CIRCLE
            if length_ms > limits.gop_ms:
                # Nobody knows when the next keyframe comes: streams with intra refresh have only one.
                self.has_keyframes = False
                self._forget_gop()
            elif self._gop_bytes > self.most_bytes or len(gop) > limits.gop_frames:
                self._forget_gop()

    def _remember_startup(self, frame: LiveFrame) -> None:
        known = self._startup.get(frame.startup_key)
        if known is not None and known.frame.payload == frame.frame.payload:
            return
        if known is not None and frame.startup_key != METADATA_KEY:
            # The cached frames were made for another decoder configuration.
            self._forget_gop()
        others = [other for key, other in self._startup.items() if key != frame.startup_key]
        too_many = len(others) >= self._limits.startup_frames
        if too_many or sum(other.size for other in others) + frame.size > self._limits.startup_bytes:
            # Without it a late joiner waits; with the one before it would decode garbage.
            self.forget_startup(frame.startup_key)
            return
        self._startup[frame.startup_key] = frame

    def forget_startup(self, key: Hashable) -> None:
        """Forget a startup frame that the publisher has withdrawn."""
        self._startup.pop(key, None)

    def clear(self) -> None:
        """The publisher is gone: forget its frames, but not how far the timestamps have come."""
        self._startup.clear()
        self._forget_gop()
        self.has_keyframes = False

    def limit(self, size: int) -> bool:
        """Keep no more than so many bytes of the current group of pictures. Returns whether that is as much as usual."""
        self.most_bytes = min(size, self._limits.gop_bytes)
        if self._gop_bytes > self.most_bytes:
            self._forget_gop()
        return self.most_bytes == self._limits.gop_bytes

    @property
    def size(self) -> int:
        """The bytes of all frames that are kept."""
        return self._gop_bytes + sum(frame.size for frame in self._startup.values())

    def __len__(self) -> int:
        return len(self._gop) + len(self._startup)

    def _forget_gop(self) -> None:
        self._gop = []
        self._gop_bytes = 0

    @property
    def begins_with_keyframe(self) -> bool:
        """Whether a late joiner gets a picture at once."""
        return bool(self._gop)

    @property
    def gop(self) -> tuple[int, int] | None:
        """The timestamps of the first and the last cached frame."""
        return (self._gop[0].frame.timestamp_ms, self._gop[-1].frame.timestamp_ms) if self._gop else None

    def header(self, kind: MediaKind) -> bytes | None:
        """The decoder configuration of the first track of this kind."""
        for frame in self._startup.values():
            if frame.frame.kind is kind and frame.startup_key != METADATA_KEY:
                return frame.frame.payload
        return None

    def still(self) -> list[MediaFrame]:
        """What decodes to the picture of the latest keyframe; nothing if that is not kept."""
        if not self._gop:
            return []
        headers = [frame.frame for frame in self._startup.values() if frame.frame.kind is MediaKind.VIDEO]
        return [*headers, self._gop[0].frame]

    def startup_frames(self) -> list[LiveFrame]:
        """The latest startup frames: metadata first, from which players learn their tracks, then by first appearance."""
        return sorted(self._startup.values(), key=lambda frame: frame.startup_key != METADATA_KEY)

    def frames(self) -> list[LiveFrame]:
        """Everything that a late joiner needs. Decoder configuration gets the timestamp of the first frame after it."""
        begin = self._gop[0].frame.timestamp_ms if self._gop else self.newest or 0
        return [_moved(frame, begin) for frame in self.startup_frames()] + self._gop


def _moved(frame: LiveFrame, timestamp_ms: int) -> LiveFrame:
    # Metadata has no time: FFmpeg takes it for a separate data stream unless its timestamp is zero.
    timestamp = 0 if frame.startup_key == METADATA_KEY else timestamp_ms
    return attrs.evolve(frame, frame=attrs.evolve(frame.frame, timestamp_ms=timestamp))
