"""What live streams and their consumers may cost in memory, with reasons."""

from __future__ import annotations

import attrs

from rtmprelay.quantities import MEBIBYTE


@attrs.frozen
class StreamLimits:
    """Bounds of one live stream."""

    #: Bytes kept since the last keyframe for late joiners: ten seconds at 25 Mbit/s.
    gop_bytes: int = 32 * MEBIBYTE
    #: Milliseconds kept since the last keyframe; a longer burst would put a late joiner too far behind.
    gop_ms: int = 30_000
    #: Messages kept since the last keyframe: empty ones have no bytes and still cost memory.
    gop_frames: int = 65_536
    #: Bytes of decoder configuration and metadata; real ones have a few hundred.
    startup_bytes: int = 1 * MEBIBYTE
    #: Different pieces of decoder configuration: one for each track and kind.
    startup_frames: int = 64
    #: AMF values a second in onMetaData, on average over 20 seconds. An encoder sends some twenty, once. Metadata
    #: over this is not passed on, because every receiver would have to parse it.
    metadata_value_rate: int = 1_000
    #: Seconds without a frame after which a new publisher may take over.
    silent_publisher: float = 5.0
    #: Players of one stream, over RTMP and HTTP together; None for no bound but that of connections.
    max_players: int | None = None


@attrs.frozen
class QueueLimits:
    """Bounds of what waits for one consumer. The frames themselves are shared with all others."""

    #: Bytes that wait: ten seconds at 25 Mbit/s.
    max_bytes: int = 32 * MEBIBYTE
    #: Milliseconds of media that wait: a consumer that is further behind does better with the next keyframe.
    max_ms: int = 10_000
    #: Messages that wait: empty ones have no bytes and still cost memory.
    max_frames: int = 65_536
    #: Milliseconds of video without a keyframe after which waiting for one makes no sense.
    max_keyframe_wait_ms: int = 30_000
