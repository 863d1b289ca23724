"""Live frames as RTMP messages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rtmprelay.session.channel import media_chunk_stream
from rtmprelay.streams.frames import LiveFrame
from rtmprelay.wire.chunks import RawMessage, standalone_chunks


class RtmpFrameEncoder:
    """Encodes for everybody who has the same message stream id and chunk size."""

    def __init__(self, chunk_size: int, stream_id: int) -> None:
        self._chunk_size = chunk_size
        self._stream_id = stream_id

    def encode(self, frames: Sequence[LiveFrame]) -> bytes:
        """The frames as standalone messages: the same bytes for every peer."""
        pieces: list[bytes] = []
        for live in frames:
            frame = live.frame
            message = RawMessage(frame.kind, frame.timestamp_ms, self._stream_id, frame.payload)
            pieces += standalone_chunks(message, media_chunk_stream(frame.kind), self._chunk_size)
        return b"".join(pieces)


@lru_cache(maxsize=256)
def shared_encoder(chunk_size: int, stream_id: int) -> RtmpFrameEncoder:
    """The one encoder for these figures; peers with the same one share the encoded bytes."""
    return RtmpFrameEncoder(chunk_size, stream_id)
