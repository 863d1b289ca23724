"""What a destination missed while there was no connection to it."""

from __future__ import annotations

import attrs

from rtmprelay.streams.frames import FrameBatch, FrameRole


@attrs.define(eq=False)
class Missed:
    """What came while there was no connection: lost, unless the stream still has it when there is one."""

    messages: int = 0
    size: int = 0
    messages_since_keyframe: int = 0
    size_since_keyframe: int = 0

    def add(self, batch: FrameBatch) -> None:
        """Frames came, and there was nowhere to send them."""
        for frame in batch.frames:
            if frame.role is FrameRole.STARTUP:
                # The stream keeps it.
                continue
            if frame.role is FrameRole.KEYFRAME:
                self.messages_since_keyframe = self.size_since_keyframe = 0
            self.messages += 1
            self.size += frame.size
            self.messages_since_keyframe += 1
            self.size_since_keyframe += frame.size

    def made_good(self) -> None:
        """Everything since the last keyframe is sent after all."""
        self.messages -= self.messages_since_keyframe
        self.size -= self.size_since_keyframe
