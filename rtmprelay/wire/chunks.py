"""Reading the chunk stream: messages are joined again from their chunks.

The reader is on the frame path. It copies a payload once when a message arrives in one chunk, and it removes the
headers of many small chunks in one step, so that 128-byte chunks cost little more than large ones.
"""

from __future__ import annotations

import struct

import attrs

from rtmprelay.errors import LimitExceededError, RemoteProtocolError
from rtmprelay.media import TIMESTAMP_MODULUS
from rtmprelay.memory import MemoryPool
from rtmprelay.wire.limits import DEFAULT_CHUNK_SIZE, LARGEST_MESSAGE_LENGTH, ConnectionLimits

#: A 24-bit timestamp of this value says that 32 bits follow the header.
EXTENDED_TIMESTAMP = 0xFFFFFF

_SET_CHUNK_SIZE = 1
_ABORT = 2

#: The types of commands, in AMF3 and AMF0.
_COMMANDS = (17, 20)

#: Length of the message header by chunk format.
_HEADER_LENGTHS = (11, 7, 3, 0)

#: Chunks whose headers are removed in one step; looking ahead without a bound would cost the square of a read's length.
_LONGEST_RUN = 256

_unpack_uint32 = struct.Struct(">I").unpack_from


# Not frozen: that would make each one three times as expensive to create, and there is one for each frame.
@attrs.define
class RawMessage:
    """A complete RTMP message whose payload is not parsed."""

    type_id: int
    timestamp: int
    stream_id: int
    payload: bytes


@attrs.define(eq=False)
class _IncomingChunkStream:
    """The header fields that the next chunk of this chunk stream may omit, and the message in assembly."""

    #: The basic header of a chunk that continues a message.
    continuation: bytes
    timestamp: int = 0
    delta: int = 0
    length: int = 0
    type_id: int = 0
    stream_id: int = 0
    #: The 32-bit timestamp after the last message header, or None if that header had a short timestamp.
    extended: int | None = None
    assembly: bytearray | None = None


class ChunkReader:
    """Turns bytes that arrive in any pieces into messages.

    Set Chunk Size and Abort take effect here, because they change how the very next byte is read. All other messages
    are returned.

    Attributes:
        stops_at_commands: Whether `feed` stops after each command: the command may change the limits for the bytes
            after it.
        held: How many bytes wait after a command; the next `feed` begins with them.
    """

    def __init__(self, limits: ConnectionLimits | None = None) -> None:
        limits = limits or ConnectionLimits()
        self.chunk_size = DEFAULT_CHUNK_SIZE
        #: How many chunk headers were read one by one: this is what chunks cost.
        self.chunks_read = 0
        self.stops_at_commands = False
        self.held = 0
        self._kept = 0
        self.limit_messages(limits.message_size)
        self._max_assembly = limits.assembly_size
        self._assembly_limit = "assembly_size"
        self._pool = MemoryPool("")
        self._max_streams = limits.chunk_streams
        self._streams: dict[int, _IncomingChunkStream] = {}
        self._assembled = 0
        self._header_part = b""
        # The chunk in which the last read ended, and how many of its bytes are missing.
        self._open: _IncomingChunkStream | None = None
        self._open_remaining = 0

    def limit_messages(self, size: int, limit: str = "message_size") -> None:
        """Set the largest message from now on, and the name of the limit that a larger one exceeds."""
        self._max_message = min(size, LARGEST_MESSAGE_LENGTH)
        self._message_limit = limit

    def limit_assembly(self, size: int, limit: str, pool: MemoryPool) -> None:
        """Set how many bytes may be unfinished from now on, with the limit's name; `pool` counts them."""
        self._max_assembly = size
        self._assembly_limit = limit
        own = self._assembled + self.held + self._kept
        self._pool.used -= own
        self._pool = pool
        pool.used += own

    @property
    def unfinished(self) -> int:
        """The bytes of unfinished messages."""
        return self._assembled

    def keep(self, size: int) -> None:
        """Count what the connection keeps of messages that are complete."""
        self._pool.used += size - self._kept
        self._kept = size
        self._check_memory()

    def hold(self, data: bytes) -> None:
        """Keep bytes for the next `feed`: what they mean is not known yet."""
        self._header_part += data
        self.held += len(data)
        self._pool.used += len(data)
        self._check_memory()

    def forget(self) -> None:
        """Free the memory of unfinished messages: nothing more will arrive."""
        self._pool.used -= self._assembled + self.held + self._kept
        self.held = self._kept = 0
        self._streams.clear()
        self._assembled = 0
        self._header_part = b""
        self._open = None

    def feed(self, data: bytes) -> list[RawMessage]:
        """Take the bytes of one read and return the messages that they complete.

        A chunk that holds a whole message is read in this one function: calls would cost more than the reading itself.
        """
        messages: list[RawMessage] = []
        if self._header_part:
            data = self._header_part + data
            self._header_part = b""
            if self.held:
                self._pool.used -= self.held
                self.held = 0
        position = 0
        end = len(data)
        if self._open is not None:
            position = self._continue_open_chunk(self._open, data, messages)
        streams = self._streams
        stops = self.stops_at_commands
        while position < end:
            if stops and messages and messages[-1].type_id in _COMMANDS:
                self.hold(data[position:])
                return messages
            # The basic header: chunk format and chunk stream id.
            first = data[position]
            chunk_format = first >> 6
            chunk_stream_id = first & 0x3F
            body = position + 1
            if chunk_stream_id < 2:
                body += 1 + chunk_stream_id
                if body > end:
                    break
                # One more byte, or two of them in little-endian order.
                chunk_stream_id = 64 + int.from_bytes(data[position + 1 : body], "little")
            after = body + _HEADER_LENGTHS[chunk_format]
            if after > end:
                break
            stream = streams.get(chunk_stream_id)
            if stream is None:
                stream = self._new_stream(chunk_stream_id, data[position:body])

            # The message header, and the extended timestamp after it.
            if chunk_format == 3:
                if stream.extended is not None:
                    repeated = self._extended_is_repeated(stream, data, after)
                    if repeated is None:
                        break
                    if repeated:
                        after += 4
                if stream.assembly is None:
                    stream.timestamp = (stream.timestamp + stream.delta) % TIMESTAMP_MODULUS
            else:
                field = int.from_bytes(data[body : body + 3])
                extended = None
                if field == EXTENDED_TIMESTAMP:
                    if after + 4 > end:
                        break
                    extended = field = _unpack_uint32(data, after)[0]
                    after += 4
                if stream.assembly is not None:
                    self._discard_unfinished(stream)
                if chunk_format < 2:
                    length = int.from_bytes(data[body + 3 : body + 6])
                    if length > self._max_message:
                        raise LimitExceededError(
                            self._message_limit, f"a message of {length} bytes is over {self._max_message}"
                        )
                    stream.length = length
                    stream.type_id = data[body + 6]
                stream.extended = extended
                # A format 3 chunk that begins the next message repeats the timestamp of a format 0 chunk as its delta
                # (specification 5.3.1.2.4).
                stream.delta = field
                if chunk_format == 0:
                    stream.stream_id = int.from_bytes(data[body + 7 : body + 11], "little")
                    stream.timestamp = field
                else:
                    stream.timestamp = (stream.timestamp + field) % TIMESTAMP_MODULUS
            self.chunks_read += 1

            # The payload.
            payload = None
            if stream.assembly is None:
                if stream.length > self.chunk_size:
                    payload, position = self._cut_out(stream, data, after)
                elif (position := after + stream.length) <= end:
                    payload = data[after:position]
            if payload is None:
                position = self._read_part(stream, data, after, messages)
            elif stream.type_id > _ABORT:
                messages.append(RawMessage(stream.type_id, stream.timestamp, stream.stream_id, payload))
            else:
                self._deliver(stream, payload, messages)
        if position < end:
            # The rest is an incomplete header.
            self._header_part = data[position:]
        return messages

    def _continue_open_chunk(
        self, stream: _IncomingChunkStream, data: bytes, messages: list[RawMessage]
    ) -> int:
        taken = min(self._open_remaining, len(data))
        self._append(stream, memoryview(data)[:taken])
        self._open_remaining -= taken
        if self._open_remaining == 0:
            self._open = None
            self._finish_if_complete(stream, messages)
        return taken

    # -- headers ---------------------------------------------------------------------------------------------

    def _new_stream(self, chunk_stream_id: int, basic_header: bytes) -> _IncomingChunkStream:
        """Open a chunk stream. Some encoders begin one with a short header: then the missing fields are zero."""
        if len(self._streams) >= self._max_streams:
            raise LimitExceededError(
                "chunk_streams", f"the peer uses more than {self._max_streams} chunk streams"
            )
        stream = _IncomingChunkStream(bytes([basic_header[0] | 0xC0]) + basic_header[1:])
        self._streams[chunk_stream_id] = stream
        return stream

    @staticmethod
    def _extended_is_repeated(stream: _IncomingChunkStream, data: bytes, position: int) -> bool | None:
        """Whether the next four bytes repeat the extended timestamp; None while too few bytes are there to decide.

        The specification wants it repeated in each chunk; older versions of librtmp leave it out.
        """
        found = data[position : position + 4]
        candidates = {stream.extended or 0, stream.timestamp}
        if len(found) == 4:
            return int.from_bytes(found) in candidates
        if any(candidate.to_bytes(4).startswith(found) for candidate in candidates):
            return None
        return False

    # -- payloads --------------------------------------------------------------------------------------------

    def _cut_out(self, stream: _IncomingChunkStream, data: bytes, position: int) -> tuple[bytes | None, int]:
        """The payload of a message of several chunks that directly follow each other, and where they end.

        None unless all of them have come with this read: then nothing needs to be kept. It saves two thirds of the
        calls for 4096-byte chunks, and a third of the time.
        """
        size = self.chunk_size
        further = (stream.length - 1) // size
        end = position + stream.length + further
        header = stream.continuation
        if (
            end > len(data)
            or further > _LONGEST_RUN
            or stream.extended is not None
            # All headers at once, if each is one byte.
            or data[position + size : end : size + 1] != header * further
        ):
            return None, position
        if further == 1:
            return data[position : position + size] + data[position + size + 1 : end], end
        payload = bytearray(data[position:end])
        del payload[size :: size + 1]
        return bytes(payload), end

    def _read_part(
        self, stream: _IncomingChunkStream, data: bytes, position: int, messages: list[RawMessage]
    ) -> int:
        """Take the part of a message that is in this chunk, and directly following chunks that continue it."""
        assembly = stream.assembly
        end = len(data)
        if assembly is None:
            assembly = stream.assembly = bytearray()
        wanted = min(self.chunk_size, stream.length - len(assembly))
        after = position + wanted
        if after > end:
            self._append(stream, memoryview(data)[position:end])
            self._open = stream
            self._open_remaining = after - end
            return end
        self._append(stream, memoryview(data)[position:after])
        if stream.extended is None:
            after = self._take_run(stream, data, after)
        self._finish_if_complete(stream, messages)
        return after

    def _take_run(self, stream: _IncomingChunkStream, data: bytes, position: int) -> int:
        """Take the full chunks that directly continue this message, and remove all their headers in one step."""
        assembly = stream.assembly
        assert assembly is not None
        header = stream.continuation
        stride = len(header) + self.chunk_size
        count = min(
            (len(data) - position) // stride,
            (stream.length - len(assembly)) // self.chunk_size,
            _LONGEST_RUN,
        )
        if count < 2:
            return position
        for index, byte in enumerate(header):
            column = data[position + index : position + count * stride : stride]
            same = len(column) - len(column.lstrip(bytes([byte])))
            count = min(count, same)
        if count < 2:
            return position
        after = position + count * stride
        run = bytearray(memoryview(data)[position:after])
        for shift in range(len(header)):
            # Each pass removes one column of header bytes, so the rows get one byte shorter.
            del run[:: stride - shift]
        self._append(stream, run)
        return after

    def _append(self, stream: _IncomingChunkStream, part: memoryview | bytearray) -> None:
        assembly = stream.assembly
        assert assembly is not None
        pool = self._pool
        self._assembled += len(part)
        pool.used += len(part)
        if self._assembled > self._max_assembly or (pool.most is not None and pool.used > pool.most):
            self._check_memory()
        assembly += part

    def _check_memory(self) -> None:
        """Raise if this connection has more than it may have, or than it should have while others need memory too."""
        own, pool = self._assembled + self.held + self._kept, self._pool
        if own > self._max_assembly:
            raise LimitExceededError(
                self._assembly_limit, f"over {self._max_assembly} bytes of unfinished messages"
            )
        if pool.most is not None and pool.used > pool.most and own > pool.fair_share:
            raise LimitExceededError(
                pool.limit, f"all connections together have over {pool.most} bytes of unfinished messages"
            )

    def _finish_if_complete(self, stream: _IncomingChunkStream, messages: list[RawMessage]) -> None:
        assembly = stream.assembly
        if assembly is not None and len(assembly) >= stream.length:
            self._discard_unfinished(stream)
            self._deliver(stream, bytes(assembly), messages)

    def _discard_unfinished(self, stream: _IncomingChunkStream) -> None:
        if stream.assembly is not None:
            self._assembled -= len(stream.assembly)
            self._pool.used -= len(stream.assembly)
            stream.assembly = None

    def _deliver(self, stream: _IncomingChunkStream, payload: bytes, messages: list[RawMessage]) -> None:
        type_id = stream.type_id
        if type_id == _SET_CHUNK_SIZE:
            self._set_chunk_size(payload)
        elif type_id == _ABORT:
            self._abort(payload)
        else:
            messages.append(RawMessage(type_id, stream.timestamp, stream.stream_id, payload))

    def _set_chunk_size(self, payload: bytes) -> None:
        if len(payload) < 4:
            raise RemoteProtocolError(f"Set Chunk Size has {len(payload)} bytes instead of 4")
        size = _unpack_uint32(payload)[0]
        if not 1 <= size <= 0x7FFFFFFF:
            raise RemoteProtocolError(f"a chunk size of {size} is outside 1 to {0x7FFFFFFF}")
        self.chunk_size = min(size, LARGEST_MESSAGE_LENGTH)

    def _abort(self, payload: bytes) -> None:
        if len(payload) < 4:
            raise RemoteProtocolError(f"Abort has {len(payload)} bytes instead of 4")
        stream = self._streams.get(_unpack_uint32(payload)[0])
        if stream is not None:
            self._discard_unfinished(stream)
