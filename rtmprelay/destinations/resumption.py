"""What a server that was lost is given first when it is back."""

from __future__ import annotations

import attrs

from rtmprelay.media import milliseconds_between
from rtmprelay.streams.frames import METADATA_KEY, FrameRole, LiveFrame


def not_sent_before(
    newest: int | None, startup: list[LiveFrame], wait_for_keyframe: bool
) -> tuple[list[LiveFrame], bool]:
    """Time must not run backwards over a reconnection: if the cached pictures were sent, wait for new ones.

    Args:
        newest: The time of the last frame that was sent; None if there was none.
        startup: What the stream has for late joiners.
        wait_for_keyframe: Whether those are to wait for a keyframe.
    """
    coded = [frame for frame in startup if frame.role is not FrameRole.STARTUP]
    if newest is None or not coded or milliseconds_between(newest, coded[0].frame.timestamp_ms) > 0:
        return startup, wait_for_keyframe
    return [_not_before(newest, frame) for frame in startup if frame.role is FrameRole.STARTUP], True


def _not_before(timestamp_ms: int, frame: LiveFrame) -> LiveFrame:
    """The same startup frame, but not older than what was sent; metadata has no time of its own."""
    if frame.startup_key == METADATA_KEY or milliseconds_between(timestamp_ms, frame.frame.timestamp_ms) >= 0:
        return frame
    return attrs.evolve(frame, frame=attrs.evolve(frame.frame, timestamp_ms=timestamp_ms))
