"""What a late joiner needs first: metadata, decoder configuration, and the frames since the last keyframe."""

from __future__ import annotations

from collections.abc import Hashable

import attrs

from rtmprelay.media import MediaKind, milliseconds_between
from rtmprelay.streams.frames import METADATA_KEY, FrameRole, LiveFrame
from rtmprelay.streams.limits import StreamLimits


class StartupCache:
    """Remembers the latest startup frames and the current group of pictures, both within bounds."""

    def __init__(self, limits: StreamLimits) -> None:
        self._limits = limits
        self._startup: dict[Hashable, LiveFrame] = {}
        self._gop: list[LiveFrame] = []
        self._gop_bytes = 0
        #: Whether a keyframe has come: before that, nobody can know what to wait for.
        self.has_keyframes = False

    def remember(self, frame: LiveFrame) -> None:
        """Take note of a frame that goes through the stream."""
        role = frame.role
        if role is FrameRole.STARTUP:
            self._remember_startup(frame)
        elif role is FrameRole.KEYFRAME:
            self.has_keyframes = True
            self._gop = [frame]
            self._gop_bytes = frame.size
            if frame.size > self._limits.gop_bytes:
                self._forget_gop()
        elif self._gop:
            self._extend_gop(frame)

    def _extend_gop(self, frame: LiveFrame) -> None:
        self._gop.append(frame)
        self._gop_bytes += frame.size
        length_ms = milliseconds_between(self._gop[0].frame.timestamp_ms, frame.frame.timestamp_ms)
        limits = self._limits
        if (
            self._gop_bytes > limits.gop_bytes
            or length_ms > limits.gop_ms
            or len(self._gop) > limits.gop_frames
        ):
            self._forget_gop()
            if length_ms > limits.gop_ms:
                # Nobody knows when the next keyframe comes, or whether: streams with intra refresh have one in all.
                self.has_keyframes = False

    def _remember_startup(self, frame: LiveFrame) -> None:
        known = self._startup.get(frame.startup_key)
        if known is not None and known.frame.payload == frame.frame.payload:
            return
        if known is not None and frame.startup_key != METADATA_KEY:
            # What was cached was made for another decoder configuration.
            self._forget_gop()
        others = [other for key, other in self._startup.items() if key != frame.startup_key]
        too_many = len(others) >= self._limits.startup_frames
        if too_many or sum(other.size for other in others) + frame.size > self._limits.startup_bytes:
            # Without it a late joiner waits; with the one before it would decode garbage.
            self.forget_startup(frame.startup_key)
            return
        self._startup[frame.startup_key] = frame

    def forget_startup(self, key: Hashable) -> None:
        """The publisher took this back."""
        self._startup.pop(key, None)

    def _forget_gop(self) -> None:
        self._gop = []
        self._gop_bytes = 0

    @property
    def begins_with_keyframe(self) -> bool:
        """Whether a late joiner gets a picture at once."""
        return bool(self._gop)

    @property
    def gop(self) -> tuple[int, int] | None:
        """The timestamps of the first and the last of the cached frames."""
        return (self._gop[0].frame.timestamp_ms, self._gop[-1].frame.timestamp_ms) if self._gop else None

    def header(self, kind: MediaKind) -> bytes | None:
        """The decoder configuration of the first track of this kind."""
        for frame in self._startup.values():
            if frame.frame.kind is kind and frame.startup_key != METADATA_KEY:
                return frame.frame.payload
        return None

    def startup_frames(self) -> list[LiveFrame]:
        """The latest startup frames: metadata, from which players learn their tracks, then by first appearance."""
        return sorted(self._startup.values(), key=lambda frame: frame.startup_key != METADATA_KEY)

    def frames(self, now_ms: int) -> list[LiveFrame]:
        """Everything for a late joiner. Decoder configuration gets the time of the first frame behind it.

        Args:
            now_ms: The timestamp at which the stream is, for a stream without cached pictures.
        """
        begin = self._gop[0].frame.timestamp_ms if self._gop else now_ms
        return [_moved(frame, begin) for frame in self.startup_frames()] + self._gop


def _moved(frame: LiveFrame, timestamp_ms: int) -> LiveFrame:
    # Metadata belongs to no time: FFmpeg takes it for a data stream of its own unless it says zero.
    timestamp = 0 if frame.startup_key == METADATA_KEY else timestamp_ms
    return attrs.evolve(frame, frame=attrs.evolve(frame.frame, timestamp_ms=timestamp))
