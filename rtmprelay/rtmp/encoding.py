"""Encoders of live frames as RTMP messages, shared by all peers that receive the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from typing_extensions import override

from rtmprelay.flv.script import is_metadata, with_set_data_frame
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.wire.chunk_writer import StandaloneEncoder
from rtmprelay.wire.limits import LARGEST_MESSAGE_LENGTH


class _EncoderForServers(StandaloneEncoder):
    """Puts `@setDataFrame` before metadata, as servers expect it from publishers; players do not."""

    @override
    def encode(self, frames: Sequence[MediaFrame]) -> bytes:
        return super().encode([_with_envelope(frame) for frame in frames])


def _with_envelope(frame: MediaFrame) -> MediaFrame:
    if frame.kind is not MediaKind.DATA or not is_metadata(frame.payload):
        return frame
    wrapped = with_set_data_frame(frame.payload)
    # The envelope would make the message longer than 16 MiB; no real encoder sends such metadata.
    if len(wrapped) > LARGEST_MESSAGE_LENGTH:
        return frame
    return MediaFrame(frame.kind, frame.timestamp_ms, wrapped)


@lru_cache(maxsize=256)
def shared_encoder(chunk_size: int, stream_id: int, for_server: bool = False) -> StandaloneEncoder:
    """The encoder for this chunk size and message stream id. Peers with the same encoder share the encoded bytes."""
    return (_EncoderForServers if for_server else StandaloneEncoder)(chunk_size, stream_id)
