"""Writing the chunk stream: with the shortest headers for one peer, or with full headers for any number of them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rtmprelay.errors import LocalProtocolError
from rtmprelay.media import TIMESTAMP_MODULUS, MediaFrame, MediaKind
from rtmprelay.wire.chunks import EXTENDED_TIMESTAMP, RawMessage
from rtmprelay.wire.limits import DEFAULT_CHUNK_SIZE, LARGEST_MESSAGE_LENGTH

#: The chunk streams on which media is sent. Nothing else is sent on them, so every header there can be a full one.
MEDIA_CHUNK_STREAMS = {MediaKind.AUDIO: 4, MediaKind.VIDEO: 6, MediaKind.DATA: 7}


def _basic_header(chunk_format: int, chunk_stream_id: int) -> bytes:
    top = chunk_format << 6
    if 2 <= chunk_stream_id < 64:
        return bytes([top | chunk_stream_id])
    if 64 <= chunk_stream_id < 320:
        return bytes([top, chunk_stream_id - 64])
    if 320 <= chunk_stream_id < 65600:
        rest = chunk_stream_id - 64
        return bytes([top | 1, rest & 0xFF, rest >> 8])
    raise LocalProtocolError(f"chunk stream id {chunk_stream_id} is outside 2 to 65599")


def _cut(first_header: bytes, continuation: bytes, payload: bytes, chunk_size: int) -> list[bytes]:
    """The headers and payload parts of a message whose first chunk has this header."""
    if len(payload) <= chunk_size:
        return [first_header, payload]
    pieces = [first_header, payload[:chunk_size]]
    for start in range(chunk_size, len(payload), chunk_size):
        pieces.append(continuation)
        pieces.append(payload[start : start + chunk_size])
    return pieces


def _checked_length(message: RawMessage) -> int:
    length = len(message.payload)
    if length > LARGEST_MESSAGE_LENGTH:
        raise LocalProtocolError(
            f"a message of {length} bytes is too long: the largest has {LARGEST_MESSAGE_LENGTH}"
        )
    return length


def standalone_chunks(message: RawMessage, chunk_stream_id: int, chunk_size: int) -> list[bytes]:
    """The message as chunks that depend on no earlier ones: any number of peers can get the same bytes."""
    timestamp = message.timestamp % TIMESTAMP_MODULUS
    length = _checked_length(message)
    extended = b"" if timestamp < EXTENDED_TIMESTAMP else timestamp.to_bytes(4)
    header = b"".join(
        (
            _basic_header(0, chunk_stream_id),
            min(timestamp, EXTENDED_TIMESTAMP).to_bytes(3),
            length.to_bytes(3),
            bytes([message.type_id]),
            message.stream_id.to_bytes(4, "little"),
            extended,
        )
    )
    return _cut(header, _basic_header(3, chunk_stream_id) + extended, message.payload, chunk_size)


def encode_standalone(message: RawMessage, chunk_stream_id: int, chunk_size: int) -> bytes:
    """The same as `standalone_chunks`, joined."""
    return b"".join(standalone_chunks(message, chunk_stream_id, chunk_size))


class StandaloneEncoder:
    """Media frames as standalone chunks, for every peer with this message stream id and chunk size.

    It is on the frame path: what is the same for all frames of a kind is made once, and a frame that fits in one chunk
    takes no call.
    """

    def __init__(self, chunk_size: int, stream_id: int) -> None:
        self._chunk_size = chunk_size
        self._stream_id = stream_id
        stream = stream_id.to_bytes(4, "little")
        # What comes before the timestamp and after the length.
        self._header_parts = {
            kind: (_basic_header(0, chunk_stream_id), bytes([kind]) + stream)
            for kind, chunk_stream_id in MEDIA_CHUNK_STREAMS.items()
        }

    def encode(self, frames: Sequence[MediaFrame]) -> bytes:
        """The frames, one after the other."""
        pieces: list[bytes] = []
        for frame in frames:
            payload = frame.payload
            length = len(payload)
            if length <= self._chunk_size:
                before, after = self._header_parts[frame.kind]
                timestamp = frame.timestamp_ms % TIMESTAMP_MODULUS
                if timestamp < EXTENDED_TIMESTAMP:
                    pieces += (before, timestamp.to_bytes(3), length.to_bytes(3), after, payload)
                else:
                    pieces += (
                        before,
                        b"\xff\xff\xff",
                        length.to_bytes(3),
                        after,
                        timestamp.to_bytes(4),
                        payload,
                    )
            else:
                message = RawMessage(frame.kind, frame.timestamp_ms, self._stream_id, payload)
                pieces += standalone_chunks(message, MEDIA_CHUNK_STREAMS[frame.kind], self._chunk_size)
        return b"".join(pieces)


@attrs.define(eq=False)
class _OutgoingChunkStream:
    """The last message header sent on a chunk stream."""

    timestamp: int
    delta: int | None
    length: int
    type_id: int
    stream_id: int


class ChunkWriter:
    """Encodes messages for one peer, with the shortest header that the previous message allows.

    Everything that it returns must be sent in this order, because later headers depend on earlier ones. Media that
    several peers get is encoded by `standalone_chunks`, on chunk streams that this writer does not use.
    """

    def __init__(self) -> None:
        self.chunk_size = DEFAULT_CHUNK_SIZE
        self._streams: dict[int, _OutgoingChunkStream] = {}

    def encode(self, message: RawMessage, chunk_stream_id: int) -> bytes:
        last = self._streams.get(chunk_stream_id)
        if last is None or last.stream_id != message.stream_id or message.timestamp < last.timestamp:
            return self._encode_full(message, chunk_stream_id)
        delta = message.timestamp - last.timestamp
        if delta >= EXTENDED_TIMESTAMP:
            return self._encode_full(message, chunk_stream_id)
        length = _checked_length(message)
        same_shape = last.length == length and last.type_id == message.type_id
        if not same_shape:
            chunk_format = 1
            body = delta.to_bytes(3) + length.to_bytes(3) + bytes([message.type_id])
        elif delta != last.delta:
            chunk_format, body = 2, delta.to_bytes(3)
        else:
            chunk_format, body = 3, b""
        self._remember(message, chunk_stream_id, delta)
        header = _basic_header(chunk_format, chunk_stream_id) + body
        return b"".join(_cut(header, _basic_header(3, chunk_stream_id), message.payload, self.chunk_size))

    def _encode_full(self, message: RawMessage, chunk_stream_id: int) -> bytes:
        encoded = encode_standalone(message, chunk_stream_id, self.chunk_size)
        # No delta is remembered: peers differ in what a format 3 chunk directly after a format 0 chunk means.
        self._remember(message, chunk_stream_id, None)
        return encoded

    def _remember(self, message: RawMessage, chunk_stream_id: int, delta: int | None) -> None:
        self._streams[chunk_stream_id] = _OutgoingChunkStream(
            message.timestamp, delta, len(message.payload), message.type_id, message.stream_id
        )
