"""The load generator's receivers: they account for every frame of the measured time."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence

from rtmprelay.bench import stream
from rtmprelay.bench.connections import LoadConnection
from rtmprelay.bench.stream import MARKED_SIZE, MEASURED, SIZES, STAMP_SIZE
from rtmprelay.bench.tasks import STEP_NS, Histogram, Received
from rtmprelay.session.reports import MediaReceived, SessionReport

_RECEIVE_SIZE = 262144
#: The one receive buffer of this process. The first MARKED_SIZE bytes hold the end of the previous read.
_buffer = bytearray(MARKED_SIZE + _RECEIVE_SIZE)
_room = memoryview(_buffer)[MARKED_SIZE:]
_find = _buffer.find
_unpack = struct.Struct(">QIH").unpack_from

_ACKNOWLEDGE_EVERY = 2_000_000


class Account:
    """The frames of the measured time that one receiver got."""

    __slots__ = ("bytes", "corrupt", "disordered", "frames", "last", "latency")

    def __init__(self, latency: Histogram) -> None:
        self.frames = self.bytes = self.corrupt = self.disordered = 0
        self.last = -1
        #: Shared by all receivers of this process.
        self.latency = latency

    def count(self, now: int, sent: int, number: int, place: int) -> None:
        if number <= self.last or place >= len(SIZES):
            self.disordered += 1
            return
        self.last = number
        self.frames += 1
        self.bytes += SIZES[place]
        step = (now - sent) // STEP_NS
        self.latency[step] = self.latency.get(step, 0) + 1


class Counting:
    """Finds frames by their markers alone, which is quick."""

    def __init__(self, connection: LoadConnection, account: Account) -> None:
        self._connection = connection
        self._receive_into = connection.sock.recv_into
        self._account = account
        self._kept = b""
        self._received = self._acknowledged = 0

    def readable(self) -> None:
        try:
            size = self._receive_into(_room)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if not size:
            self._connection.close()
            return
        now = time.monotonic_ns()
        kept = self._kept
        start = MARKED_SIZE - len(kept)
        _buffer[start:MARKED_SIZE] = kept
        self._kept = self._scan(start, MARKED_SIZE + size, now)
        self._received += size
        if self._received - self._acknowledged >= _ACKNOWLEDGE_EVERY:
            self._acknowledge()

    def _scan(self, start: int, end: int, now: int) -> bytes:
        """Count the marked frames; return the tail, which may hold the beginning of the next marker or stamp."""
        count = self._account.count
        position = _find(MEASURED, start, end)
        while position >= 0 and position + MARKED_SIZE <= end:
            count(now, *_unpack(_buffer, position + len(MEASURED)))
            start = position + MARKED_SIZE
            position = _find(MEASURED, start, end)
        return bytes(_buffer[max(start, end - MARKED_SIZE + 1) : end])

    def _acknowledge(self) -> None:
        self._acknowledged = self._received
        header = b"\x02\0\0\0\0\0\x04\x03\0\0\0\0"
        self._connection.outgoing += header + (self._received % (1 << 32)).to_bytes(4)
        self._connection.flush()


class Comparing:
    """Parses the stream as a player does, and compares every byte with what was sent."""

    def __init__(self, connection: LoadConnection, account: Account) -> None:
        self._connection = connection
        self._account = account
        self._unread: list[tuple[int, bytes]] = []

    def readable(self) -> None:
        """Read, and note the time. Parsing waits until the other sockets have been read."""
        data = self._connection.receive()
        if data:
            self._unread.append((time.monotonic_ns(), data))

    def look(self) -> None:
        """Parse and compare what was read."""
        unread, self._unread = self._unread, []
        for now, data in unread:
            self.take(self._connection.events(data), now)

    def take(self, events: Sequence[SessionReport], now: int) -> None:
        for event in events:
            if isinstance(event, MediaReceived):
                for frame in event.frames:
                    self._compare(frame.payload, now)

    def _compare(self, payload: bytes, now: int) -> None:
        marker = payload.find(MEASURED)
        if marker < 0:
            return
        start = marker + len(MEASURED)
        if len(payload) < start + STAMP_SIZE:
            self._account.corrupt += 1
            return
        stamp = stream.read_stamp(payload, start)
        self._account.count(now, stamp.sent_ns, stamp.number, stamp.place)
        if not stream.is_intact(payload, start, stamp):
            self._account.corrupt += 1


class Receivers:
    """The live receivers of one process."""

    def __init__(self) -> None:
        self.latency: Histogram = {}
        self.by_descriptor: dict[int, Counting | Comparing] = {}
        self._accounts: list[tuple[LoadConnection, Account]] = []

    def add(self, descriptor: int, connection: LoadConnection, verify: bool) -> Counting | Comparing:
        account = Account(self.latency)
        self._accounts.append((connection, account))
        receiver = Comparing(connection, account) if verify else Counting(connection, account)
        self.by_descriptor[descriptor] = receiver
        return receiver

    def __len__(self) -> int:
        return len(self._accounts)

    def have_all(self, frames: int) -> bool:
        """Whether every receiver that is still connected has this many frames."""
        return all(
            account.frames >= frames or not connection.is_open for connection, account in self._accounts
        )

    def report(self) -> Received:
        accounts = [account for _, account in self._accounts]
        return Received(
            receivers=len(accounts),
            frames=sum(account.frames for account in accounts),
            bytes=sum(account.bytes for account in accounts),
            corrupt=sum(account.corrupt for account in accounts),
            disordered=sum(account.disordered for account in accounts),
            lost_connections=sum(not connection.is_open for connection, _ in self._accounts),
            latency=self.latency,
        )
