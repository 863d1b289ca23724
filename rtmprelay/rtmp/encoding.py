"""Live frames as RTMP messages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rtmprelay.flv.script import is_metadata, with_set_data_frame
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.session.channel import media_chunk_stream
from rtmprelay.wire.chunk_writer import standalone_chunks
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.limits import LARGEST_MESSAGE_LENGTH


class RtmpFrameEncoder:
    """Encodes for everybody who has the same message stream id and chunk size."""

    def __init__(self, chunk_size: int, stream_id: int, for_server: bool = False) -> None:
        self._chunk_size = chunk_size
        self._stream_id = stream_id
        self._for_server = for_server

    def encode(self, frames: Sequence[MediaFrame]) -> bytes:
        """The frames as standalone messages: the same bytes for every peer."""
        pieces: list[bytes] = []
        for frame in frames:
            payload = frame.payload
            if self._for_server and frame.kind is MediaKind.DATA and is_metadata(payload):
                wrapped = with_set_data_frame(payload)
                # Metadata of nearly 16 MiB has no room for the envelope; nobody sends that in earnest.
                payload = wrapped if len(wrapped) <= LARGEST_MESSAGE_LENGTH else payload
            message = RawMessage(frame.kind, frame.timestamp_ms, self._stream_id, payload)
            pieces += standalone_chunks(message, media_chunk_stream(frame.kind), self._chunk_size)
        return b"".join(pieces)


@lru_cache(maxsize=256)
def shared_encoder(chunk_size: int, stream_id: int, for_server: bool = False) -> RtmpFrameEncoder:
    """The one encoder for these figures; peers with the same one share the encoded bytes.

    Args:
        for_server: Servers want metadata in the envelope that publishers put around it; players do not.
    """
    return RtmpFrameEncoder(chunk_size, stream_id, for_server)
