"""Finds the place where a new connection goes on with what the old one delivered.

A server begins each play with the frames since the last keyframe. Those that came over the old connection must not come
again, and if the newest of them is among the first frames of the new one, nothing is missing between the two.
"""

from __future__ import annotations

from collections.abc import Sequence

from rtmprelay.media import MediaFrame, milliseconds_between
from rtmprelay.quantities import MEBIBYTE
from rtmprelay.streams.frames import FrameRole, look_at

#: Milliseconds: what servers keep for late joiners. A frame that is older belongs to another timeline.
_LONGEST_OVERLAP = 60_000

#: Milliseconds by which audio and video may overtake each other.
_INTERLEAVING = 1_000

#: Milliseconds that may be missing between the two connections; with a longer gap it is another timeline.
_LONGEST_GAP = 15_000

#: What is held back while the place is looked for.
_MOST_BYTES = 32 * MEBIBYTE
_MOST_FRAMES = 65_536


class Continuation:
    """Remembers the last frame of a stream, and looks for it after a new beginning."""

    def __init__(self) -> None:
        self._last: MediaFrame | None = None
        self._held: list[MediaFrame] | None = None
        self._held_bytes = 0
        # Whether a coded frame has come on this connection.
        self._has_looked = False

    @property
    def is_searching(self) -> bool:
        """Whether frames have to go through `search`."""
        return self._held is not None

    def delivered(self, frames: Sequence[MediaFrame]) -> None:
        """These frames were published."""
        for frame in reversed(frames):
            if _is_coded(frame):
                self._last = frame
                return

    def new_connection(self) -> None:
        """Other frames follow, perhaps of the same timeline."""
        self._held = None if self._last is None else []
        self._held_bytes = 0
        self._has_looked = False

    def forget(self) -> None:
        """The stream has ended: what comes next is another one."""
        self._last = self._held = None

    def search(self, frames: Sequence[MediaFrame]) -> tuple[list[MediaFrame], bool]:
        """The frames to publish now, and whether they go on from the last one.

        There are none while it is not known yet.
        """
        assert self._held is not None
        assert self._last is not None
        for index, frame in enumerate(frames):
            self._held.append(frame)
            self._held_bytes += len(frame.payload)
            if not _is_coded(frame):
                continue
            if frame == self._last:
                self._held = None
                return list(frames[index + 1 :]), True
            behind = milliseconds_between(frame.timestamp_ms, self._last.timestamp_ms)
            if not self._has_looked and -_LONGEST_GAP <= behind < 0:
                # What the server keeps begins after the last frame: the frames between are lost.
                held, self._held = self._held, None
                return [*held, *frames[index + 1 :]], True
            self._has_looked = True
            if not -_INTERLEAVING <= behind <= _LONGEST_OVERLAP:
                return self._give_up(frames[index + 1 :])
        if self._held_bytes > _MOST_BYTES or len(self._held) > _MOST_FRAMES:
            return self._give_up(())
        return [], False

    def _give_up(self, rest: Sequence[MediaFrame]) -> tuple[list[MediaFrame], bool]:
        assert self._held is not None
        held, self._held = self._held, None
        return [*held, *rest], False


def _is_coded(frame: MediaFrame) -> bool:
    return look_at(frame.kind, frame.payload).role <= FrameRole.AUDIO
