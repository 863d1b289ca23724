"""Properties of the chunk reader and writer, and the reader compared with a naive one."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rtmprelay.errors import RemoteProtocolError
from rtmprelay.wire.chunk_writer import ChunkWriter, encode_standalone
from rtmprelay.wire.chunks import ChunkReader, RawMessage
from rtmprelay.wire.limits import ConnectionLimits
from tests.rounds import rounds
from tests.wire.chunk_bytes import (
    NaiveReader,
    abort,
    bare,
    chunks_of,
    cut_at,
    feed_all,
    full,
    interleave,
    medium,
    pattern,
    set_chunk_size,
    short,
)

CHUNK_STREAM_IDS = st.sampled_from([3, 4, 63, 64, 319, 320, 65599])
TIMESTAMPS = st.one_of(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0, 1, 0xFFFFFE, 0xFFFFFF, 0x1000000, 2**32 - 1]),
)
#: Around the default chunk size, and long enough for runs of small chunks.
LENGTHS = st.one_of(st.integers(0, 40), st.sampled_from([127, 128, 129, 255, 256, 257, 1500]))
#: Without Set Chunk Size and Abort, which the reader does not return.
TYPE_IDS = st.integers(3, 255)


@st.composite
def messages(draw: st.DrawFn) -> RawMessage:
    payload = pattern(draw(LENGTHS), start=draw(st.integers(0, 255)))
    return RawMessage(draw(TYPE_IDS), draw(TIMESTAMPS), draw(st.integers(0, 2**32 - 1)), payload)


CHUNK_SIZES = st.sampled_from([1, 2, 3, 7, 127, 128, 129, 4096])


@st.composite
def splits(draw: st.DrawFn, data: bytes) -> list[bytes]:
    return cut_at(data, draw(st.lists(st.integers(0, len(data)), max_size=12)))


# -- hostile bytes -----------------------------------------------------------------------------------------------

#: Bytes that are more often headers than random ones: small lengths, known types, extended timestamps.
HEADER_LIKE = st.lists(
    st.sampled_from(
        [b"\x02", b"\x03", b"\x43", b"\x83", b"\xc3", b"\x00", b"\x01", b"\xff\xff\xff", b"\x00\x00\x04"]
    ),
    max_size=60,
).map(b"".join)
SMALL_LIMITS = ConnectionLimits(message_size=2000, assembly_size=600, chunk_streams=4)


@given(st.data(), st.one_of(st.binary(max_size=400), HEADER_LIKE))
def test_arbitrary_bytes_stay_within_the_limits_or_raise_remote_protocol_errors(
    data: st.DataObject, incoming: bytes
) -> None:
    reader = ChunkReader(SMALL_LIMITS)
    with contextlib.suppress(RemoteProtocolError):
        found = feed_all(reader, data.draw(splits(incoming)))
        assert all(len(message.payload) <= SMALL_LIMITS.message_size for message in found)
        assert 0 <= reader.unfinished <= SMALL_LIMITS.assembly_size


@given(st.data(), HEADER_LIKE)
def test_arbitrary_bytes_are_read_alike_however_they_are_split(data: st.DataObject, incoming: bytes) -> None:
    def outcome(pieces: list[bytes]) -> list[RawMessage] | str:
        try:
            return feed_all(ChunkReader(), pieces)
        except RemoteProtocolError as error:
            return str(error)

    assert outcome(data.draw(splits(incoming))) == outcome([incoming])


# -- written and read ----------------------------------------------------------------------------------------------


@given(st.data(), st.lists(st.tuples(CHUNK_STREAM_IDS, messages()), max_size=8), CHUNK_SIZES)
def test_messages_survive_the_writer_and_the_reader(
    data: st.DataObject, sent: list[tuple[int, RawMessage]], chunk_size: int
) -> None:
    writer = ChunkWriter()
    writer.chunk_size = chunk_size
    encoded = b"".join(writer.encode(message, csid) for csid, message in sent)
    pieces = data.draw(splits(set_chunk_size(chunk_size) + encoded))
    assert feed_all(ChunkReader(), pieces) == [message for _, message in sent]


@given(st.data(), CHUNK_STREAM_IDS, TIMESTAMPS, CHUNK_SIZES)
def test_steady_stream_survives_the_writer_and_the_reader(
    data: st.DataObject, csid: int, start: int, chunk_size: int
) -> None:
    # With equal lengths and steady deltas the writer uses its shortest headers.
    steps = data.draw(st.lists(st.sampled_from([0, 20, 20, 20, 0xFFFFFE, 0xFFFFFF, -5]), max_size=10))
    times = [start]
    for step in steps:
        times.append((times[-1] + step) % 2**32)
    sent = [RawMessage(8, time, 1, pattern(10, start=index)) for index, time in enumerate(times)]
    writer = ChunkWriter()
    writer.chunk_size = chunk_size
    encoded = b"".join(writer.encode(message, csid) for message in sent)
    assert feed_all(ChunkReader(), data.draw(splits(set_chunk_size(chunk_size) + encoded))) == sent


@given(st.lists(st.tuples(CHUNK_STREAM_IDS, messages()), max_size=6), CHUNK_SIZES)
def test_standalone_messages_survive_after_any_others(
    sent: list[tuple[int, RawMessage]], chunk_size: int
) -> None:
    encoded = b"".join(encode_standalone(message, csid, chunk_size) for csid, message in sent)
    assert ChunkReader().feed(set_chunk_size(chunk_size) + encoded) == [message for _, message in sent]


@given(st.data(), st.lists(st.lists(messages(), max_size=3), min_size=2, max_size=4), CHUNK_SIZES)
def test_interleaved_chunk_streams_are_read_as_by_the_naive_reader(
    data: st.DataObject, lanes: list[list[RawMessage]], chunk_size: int
) -> None:
    ids = data.draw(st.lists(CHUNK_STREAM_IDS, min_size=len(lanes), max_size=len(lanes), unique=True))
    chunk_lanes = [
        [chunk for message in lane for chunk in chunks_of(message, csid, chunk_size)]
        for csid, lane in zip(ids, lanes, strict=True)
    ]
    order = interleave(chunk_lanes, lambda count: data.draw(st.integers(0, count - 1)))
    naive = NaiveReader(chunk_size)
    expected = [message for _, chunk in order for message in naive.read_chunk(chunk)]
    assert sorted(map(repr, expected)) == sorted(repr(message) for lane in lanes for message in lane)
    incoming = set_chunk_size(chunk_size) + b"".join(chunk for _, chunk in order)
    assert feed_all(ChunkReader(), data.draw(splits(incoming))) == expected


# -- step by step against the naive reader -----------------------------------------------------------------------


class ChunkReaderMachine(RuleBasedStateMachine):
    """A peer that sends anything that chunks allow; reads end anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.reader = ChunkReader()
        self.naive = NaiveReader()
        self.unread = b""
        self.read: list[RawMessage] = []
        self.expected: list[RawMessage] = []

    def send(self, header: bytes, payload: bytes) -> None:
        chunk = header + payload
        self.expected += self.naive.read_chunk(chunk)
        self.unread += chunk

    def begin(self, header: bytes, length: int, fill: int) -> None:
        self.send(header, pattern(min(length, self.naive.chunk_size), start=fill))

    @rule(csid=CHUNK_STREAM_IDS, time=TIMESTAMPS, length=LENGTHS, fill=st.integers(0, 255))
    def begin_with_full_header(self, csid: int, time: int, length: int, fill: int) -> None:
        self.begin(full(csid, time, length), length, fill)

    @rule(csid=CHUNK_STREAM_IDS, delta=TIMESTAMPS, length=LENGTHS, fill=st.integers(0, 255))
    def begin_with_medium_header(self, csid: int, delta: int, length: int, fill: int) -> None:
        self.begin(medium(csid, delta, length), length, fill)

    @precondition(lambda self: self.media_chunk_streams)
    @rule(data=st.data(), delta=TIMESTAMPS, fill=st.integers(0, 255))
    def begin_with_short_header(self, data: st.DataObject, delta: int, fill: int) -> None:
        csid = data.draw(st.sampled_from(self.media_chunk_streams))
        self.begin(short(csid, delta), self.naive.streams[csid].length, fill)

    @precondition(lambda self: self.media_chunk_streams)
    @rule(data=st.data(), count=st.integers(1, 40), fill=st.integers(0, 255))
    def continue_with_bare_headers(self, data: st.DataObject, count: int, fill: int) -> None:
        csid = data.draw(st.sampled_from(self.media_chunk_streams))
        stream = self.naive.streams[csid]
        for index in range(count):
            missing = stream.length - len(stream.unfinished or b"")
            payload = pattern(min(missing, self.naive.chunk_size), start=fill + index)
            self.send(bare(csid, stream.delta if stream.extended else None), payload)

    @rule(size=CHUNK_SIZES)
    def announce_chunk_size(self, size: int) -> None:
        self.control(set_chunk_size(size))

    @rule(csid=CHUNK_STREAM_IDS)
    def abandon(self, csid: int) -> None:
        self.control(abort(csid))

    def control(self, message: bytes) -> None:
        header, payload = message[:12], message[12:]
        size = self.naive.chunk_size
        self.send(header, payload[:size])
        for start in range(size, len(payload), size):
            self.send(bare(2), payload[start : start + size])

    @property
    def media_chunk_streams(self) -> list[int]:
        return sorted(self.naive.streams.keys() - {2})

    @precondition(lambda self: self.unread)
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        cut = data.draw(st.integers(1, len(self.unread)))
        self.read += self.reader.feed(self.unread[:cut])
        self.unread = self.unread[cut:]

    @invariant()
    def messages_are_as_expected(self) -> None:
        assert self.read == self.expected[: len(self.read)]

    def teardown(self) -> None:
        self.read += self.reader.feed(self.unread)
        assert self.read == self.expected
        assert self.reader._assembled == self.naive.held
        assert self.reader.chunk_size == self.naive.chunk_size


ChunkReaderMachine.TestCase.settings = settings(
    max_examples=rounds(16, full=80), stateful_step_count=30, deadline=None
)
TestChunkReaderMachine = ChunkReaderMachine.TestCase
