"""Counting and comparing frames, whatever way they arrive."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from rtmprelay.bench import stream
from rtmprelay.bench.connections import LoadConnection
from rtmprelay.bench.receiving import Account, Comparing, Counting, Receivers
from rtmprelay.bench.tasks import Histogram, add_up, percentile_ms
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.session.reports import MediaReceived, SessionReport


class Silent:
    """A session that has nothing to say."""

    def receive_data(self, data: bytes, now: float) -> list[SessionReport]:
        return []

    def bytes_to_send(self) -> bytes:
        return b""


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of one line."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    yield ours, theirs
    ours.close()
    theirs.close()


def frames(numbers: list[int]) -> bytes:
    """Sound with these numbers."""
    frame = stream.OutgoingFrame(stream.AUDIO_PLACE, 4096)
    return b"".join(bytes(frame.fill(0, 0, number, measured=True)) for number in numbers)


def test_any_split_gives_the_same_count(sockets: tuple[socket.socket, socket.socket]) -> None:
    """Stamps and markers may be cut anywhere by a read."""
    ours, theirs = sockets
    data = frames([1, 2, 3])
    for cut in range(0, len(data), 7):
        account = Account({})
        counting = Counting(LoadConnection(ours, Silent()), account)
        for part in (data[:cut], data[cut:]):
            if part:
                theirs.sendall(part)
                counting.readable()
        assert (account.frames, account.disordered) == (3, 0), cut
        assert account.bytes == 3 * stream.AUDIO_SIZE


def test_bytes_one_at_a_time_give_the_same_count(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    account = Account({})
    counting = Counting(LoadConnection(ours, Silent()), account)
    for byte in frames([1, 2]):
        theirs.sendall(bytes([byte]))
        counting.readable()
    assert account.frames == 2


def test_repeated_frame_counts_as_disordered(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    account = Account({})
    theirs.sendall(frames([1, 2, 2, 1, 3]))
    Counting(LoadConnection(ours, Silent()), account).readable()
    assert (account.frames, account.disordered) == (3, 2)


def test_read_without_data_keeps_the_connection_open(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    connection = LoadConnection(ours, Silent())
    counting = Counting(connection, Account({}))
    counting.readable()
    assert connection.is_open
    theirs.close()
    counting.readable()
    assert not connection.is_open


def test_changed_byte_counts_as_corrupt(sockets: tuple[socket.socket, socket.socket]) -> None:
    account = Account({})
    comparing = Comparing(LoadConnection(sockets[0], Silent()), account)
    good = bytes(stream.OutgoingFrame(stream.AUDIO_PLACE, 65536).fill(0, 0, 1, measured=True))[8:]
    bad = bytes(stream.OutgoingFrame(stream.AUDIO_PLACE, 65536).fill(0, 0, 2, measured=True))[8:-1] + b"\0"
    outside = stream.PAYLOADS[0]
    sound = [MediaFrame(MediaKind.AUDIO, 0, payload) for payload in (good, bad, outside)]
    comparing.take([MediaReceived(1, sound)], 5_000_000)
    assert (account.frames, account.corrupt) == (2, 1)
    assert percentile_ms(account.latency, 0.5) == pytest.approx(5.0, abs=0.02)


def test_closed_receiver_is_not_waited_for(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    receivers = Receivers()
    receiver = receivers.add(ours.fileno(), LoadConnection(ours, Silent()), verify=False)
    assert not receivers.have_all(1)
    theirs.close()
    receiver.readable()
    assert receivers.have_all(1)
    assert receivers.report().lost_connections == 1


@pytest.mark.parametrize(
    ("histogram", "share", "expected"),
    [
        ({}, 0.5, None),
        ({0: 1}, 0.99, 0.01),
        ({99: 99, 999: 1}, 0.99, 1.0),
        ({99: 98, 999: 2}, 0.99, 10.0),
    ],
)
def test_percentile_of_a_histogram(histogram: Histogram, share: float, expected: float | None) -> None:
    assert percentile_ms(histogram, share) == (None if expected is None else pytest.approx(expected))


def test_histograms_are_added_step_by_step() -> None:
    assert add_up([{1: 2}, {1: 3, 4: 1}]) == {1: 5, 4: 1}
