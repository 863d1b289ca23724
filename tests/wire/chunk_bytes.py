"""Chunks made by hand, and a simple reader to compare the real one with."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from rtmprelay.wire.chunks import ChunkReader, RawMessage

AUDIO = 8
VIDEO = 9


def basic_header(chunk_format: int, chunk_stream_id: int, size: int | None = None) -> bytes:
    """The basic header; `size` selects a longer form than the id needs."""
    size = size or (1 if chunk_stream_id < 64 else 2 if chunk_stream_id < 320 else 3)
    top = chunk_format * 64
    if size == 1:
        return bytes([top + chunk_stream_id])
    low, high = (chunk_stream_id - 64) % 256, (chunk_stream_id - 64) // 256
    return bytes([top, low]) if size == 2 else bytes([top + 1, low, high])


def _time_field(time: int) -> tuple[bytes, bytes]:
    if time < 0xFFFFFF:
        return time.to_bytes(3, "big"), b""
    return b"\xff\xff\xff", time.to_bytes(4, "big")


def full(csid: int, time: int, length: int, type_id: int = VIDEO, stream_id: int = 1) -> bytes:
    """A format 0 header."""
    field, extended = _time_field(time)
    fixed = length.to_bytes(3, "big") + bytes([type_id]) + stream_id.to_bytes(4, "little")
    return basic_header(0, csid) + field + fixed + extended


def medium(csid: int, delta: int, length: int, type_id: int = VIDEO) -> bytes:
    """A format 1 header."""
    field, extended = _time_field(delta)
    return basic_header(1, csid) + field + length.to_bytes(3, "big") + bytes([type_id]) + extended


def short(csid: int, delta: int) -> bytes:
    """A format 2 header."""
    field, extended = _time_field(delta)
    return basic_header(2, csid) + field + extended


def bare(csid: int, extended: int | None = None) -> bytes:
    """A format 3 header; `extended` is the repeated extended timestamp."""
    return basic_header(3, csid) + (b"" if extended is None else extended.to_bytes(4, "big"))


def control(type_id: int, value: int) -> bytes:
    """A protocol control message of four bytes on chunk stream 2."""
    return full(2, 0, 4, type_id, 0) + value.to_bytes(4, "big")


def set_chunk_size(size: int) -> bytes:
    return control(1, size)


def abort(chunk_stream_id: int) -> bytes:
    return control(2, chunk_stream_id)


def pattern(length: int, start: int = 0) -> bytes:
    """Bytes that differ from their neighbours, so that a lost or repeated one shows."""
    return bytes((start + index * 7 + index // 256) % 256 for index in range(length))


def feed_all(reader: ChunkReader, pieces: Iterable[bytes]) -> list[RawMessage]:
    return [message for piece in pieces for message in reader.feed(piece)]


def cut_at(data: bytes, places: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted(places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def every_way_to_split(data: bytes) -> Iterator[list[bytes]]:
    """Whole, cut once at each place, and byte by byte."""
    for cut in range(len(data) + 1):
        yield [data[:cut], data[cut:]]
    yield [data[index : index + 1] for index in range(len(data))]


def chunks_of(message: RawMessage, csid: int, chunk_size: int) -> list[bytes]:
    """The chunks of a message, each with its header, beginning with a full one."""
    payload = message.payload
    extended = message.timestamp if message.timestamp >= 0xFFFFFF else None
    pieces = [payload[start : start + chunk_size] for start in range(0, len(payload), chunk_size)] or [b""]
    first = full(csid, message.timestamp, len(payload), message.type_id, message.stream_id)
    return [first + pieces[0], *(bare(csid, extended) + piece for piece in pieces[1:])]


def interleave(lanes: Sequence[Sequence[bytes]], choose: Callable[[int], int]) -> list[tuple[int, bytes]]:
    """The chunks of all lanes in one order; `choose(n)` picks one of the n lanes that have chunks left."""
    waiting = {lane: list(chunks) for lane, chunks in enumerate(lanes) if chunks}
    order: list[tuple[int, bytes]] = []
    while waiting:
        lane = list(waiting)[choose(len(waiting))]
        order.append((lane, waiting[lane].pop(0)))
        if not waiting[lane]:
            del waiting[lane]
    return order


@attrs.define
class _NaiveStream:
    time: int = 0
    delta: int = 0
    length: int = 0
    type_id: int = 0
    stream_id: int = 0
    extended: bool = False
    unfinished: bytes | None = None


@attrs.define
class NaiveReader:
    """Reads whole chunks, one after the other, of a peer that repeats extended timestamps."""

    chunk_size: int = 128
    streams: dict[int, _NaiveStream] = attrs.field(factory=dict)

    @property
    def held(self) -> int:
        return sum(len(stream.unfinished or b"") for stream in self.streams.values())

    def read_chunk(self, chunk: bytes) -> list[RawMessage]:
        """The message that this chunk completes, if any."""
        chunk_format, csid, rest = self._basic_header(chunk)
        stream = self.streams.setdefault(csid, _NaiveStream())
        rest = self._message_header(stream, chunk_format, rest)
        unfinished = stream.unfinished or b""
        expected = min(self.chunk_size, stream.length - len(unfinished))
        assert len(rest) == expected, "the test made a chunk of the wrong size"
        stream.unfinished = unfinished + rest
        if len(stream.unfinished) < stream.length:
            return []
        payload, stream.unfinished = stream.unfinished, None
        return self._apply(RawMessage(stream.type_id, stream.time, stream.stream_id, payload))

    @staticmethod
    def _basic_header(chunk: bytes) -> tuple[int, int, bytes]:
        low = chunk[0] % 64
        if low == 0:
            return chunk[0] // 64, chunk[1] + 64, chunk[2:]
        if low == 1:
            return chunk[0] // 64, chunk[1] + 64 + chunk[2] * 256, chunk[3:]
        return chunk[0] // 64, low, chunk[1:]

    def _message_header(self, stream: _NaiveStream, chunk_format: int, rest: bytes) -> bytes:
        size = (11, 7, 3, 0)[chunk_format]
        header, rest = rest[:size], rest[size:]
        if size:
            stream.unfinished = None
            stream.extended = header[:3] == b"\xff\xff\xff"
            stream.delta = int.from_bytes(header[:3], "big")
        if stream.extended:
            if size:
                stream.delta = int.from_bytes(rest[:4], "big")
            rest = rest[4:]
        if size >= 7:
            stream.length = int.from_bytes(header[3:6], "big")
            stream.type_id = header[6]
        if size == 11:
            stream.stream_id = int.from_bytes(header[7:], "little")
            stream.time = stream.delta
        elif stream.unfinished is None:
            stream.time = (stream.time + stream.delta) % 2**32
        return rest

    def _apply(self, message: RawMessage) -> list[RawMessage]:
        value = int.from_bytes(message.payload[:4], "big")
        if message.type_id == 1:
            self.chunk_size = value
        elif message.type_id == 2:
            if value in self.streams:
                self.streams[value].unfinished = None
        else:
            return [message]
        return []
