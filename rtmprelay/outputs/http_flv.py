"""HTTP-FLV: live frames as FLV tags, with the timestamps of the stream."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from typing_extensions import override

from rtmprelay.flv.container import encode_tags, file_header
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.mp4.tracks import promised_kinds
from rtmprelay.outputs.http_viewer import HttpViewer
from rtmprelay.outputs.media_response import chunk
from rtmprelay.streams.live_stream import LiveStream

FLV_TYPE = b"video/x-flv"


@attrs.define(eq=False)
class FlvFrameEncoder:
    """Frames as FLV tags, as one chunk of HTTP/1.1 or as they are: all viewers of the same HTTP version share the bytes."""

    in_chunks: bool

    def encode(self, frames: Sequence[MediaFrame]) -> bytes:
        tags = encode_tags(frames)
        return chunk(tags) if self.in_chunks else tags


_FLV_ENCODERS = {in_chunks: FlvFrameEncoder(in_chunks) for in_chunks in (False, True)}


class FlvViewer(HttpViewer):
    """Gets each frame as a tag, whatever its codec."""

    audience = "flv"

    @override
    def open(self) -> None:
        self.attach(self._response.writer.write, _FLV_ENCODERS[self._response.is_chunked])
        self._response.begin(FLV_TYPE)
        self._response.write_parts(_flv_header(self.stream))


def _flv_header(stream: LiveStream) -> bytes:
    """Players wait for the tracks that the header announces: it names those that have come or were promised in metadata."""
    kinds = set(promised_kinds(stream.metadata)) if stream.metadata else set()
    if stream.audio_codec is not None:
        kinds.add(MediaKind.AUDIO)
    if stream.video_codec is not None:
        kinds.add(MediaKind.VIDEO)
    return file_header(MediaKind.AUDIO in kinds or not kinds, MediaKind.VIDEO in kinds or not kinds)
