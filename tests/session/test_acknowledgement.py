"""Byte counts that the peers tell each other."""

from __future__ import annotations

import itertools

import pytest

from rtmprelay.session.channel import SMALLEST_WINDOW
from rtmprelay.wire.chunk_writer import encode_standalone
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.messages import (
    Acknowledgement,
    BandwidthLimit,
    SetChunkSize,
    SetPeerBandwidth,
    WindowAcknowledgementSize,
    to_raw,
)
from tests.session.helpers import AUDIO, HandMadeClient, connected_client, media


def send_bytes(client: HandMadeClient, count: int) -> list[int]:
    """A message that takes exactly so many bytes arrives; the sequence numbers that were acknowledged."""
    client.feed(encode_standalone(RawMessage(AUDIO.kind, 0, 1, bytes(count - 12)), 4, 65536))
    return [message.sequence_number for message in client.heard() if isinstance(message, Acknowledgement)]


def client_with_window(size: int) -> HandMadeClient:
    client = connected_client()
    client.feed(encode_standalone(to_raw(SetChunkSize(65536)), 2, 128))
    client.send(WindowAcknowledgementSize(1))
    # From here on the first acknowledgement is behind us.
    assert send_bytes(client, 5_000)
    client.send(WindowAcknowledgementSize(size))
    return client


def test_bytes_are_acknowledged_once_a_window() -> None:
    client = client_with_window(10_000)
    sent = [send_bytes(client, 4_000) for _ in range(6)]
    received = client.session.channel.bytes_received
    assert sent == [[], [], [received - 12_000], [], [], [received]]


def test_a_read_of_many_windows_is_acknowledged_once() -> None:
    client = client_with_window(5_000)
    assert send_bytes(client, 60_000) == [client.session.channel.bytes_received]
    assert send_bytes(client, 4_999) == []
    assert send_bytes(client, 12) == [client.session.channel.bytes_received]


def test_the_sequence_number_wraps_at_32_bits() -> None:
    client = client_with_window(5_000)
    client.session.channel.bytes_received = 2**32 - 1
    assert send_bytes(client, 5_000) == [4_999]


@pytest.mark.parametrize("size", [0, 1, SMALLEST_WINDOW - 1, SMALLEST_WINDOW])
def test_a_tiny_window_does_not_make_us_acknowledge_every_read(size: int) -> None:
    client = client_with_window(SMALLEST_WINDOW)
    assert send_bytes(client, SMALLEST_WINDOW)
    client.session.receive_data(client.encode(WindowAcknowledgementSize(size)), 0.0)
    acknowledged = client.session.channel.bytes_received
    assert send_bytes(client, SMALLEST_WINDOW - 17) == []
    assert send_bytes(client, 17) == [acknowledged + SMALLEST_WINDOW]


def test_the_count_of_the_peer_goes_on_over_2_to_the_32() -> None:
    client = connected_client()
    client.send(*(Acknowledgement(number) for number in (2_000_000_000, 4_000_000_000, 1_000_000)))
    assert client.session.channel.bytes_acknowledged_by_peer == 2**32 + 1_000_000


def test_an_old_sequence_number_that_comes_late_changes_nothing() -> None:
    client = connected_client()
    client.send(Acknowledgement(5_000), Acknowledgement(4_000))
    assert client.session.channel.bytes_acknowledged_by_peer == 5_000


def test_a_session_acknowledges_what_the_client_sends() -> None:
    client = connected_client()
    client.send(WindowAcknowledgementSize(1))
    for _ in range(400):
        client.send(media(AUDIO))
    numbers = [message.sequence_number for message in client.heard() if isinstance(message, Acknowledgement)]
    received = client.session.channel.bytes_received
    assert numbers
    assert all(later - earlier >= SMALLEST_WINDOW for earlier, later in itertools.pairwise(numbers))
    assert received - numbers[-1] < SMALLEST_WINDOW


def test_a_session_keeps_what_the_client_acknowledges() -> None:
    client = connected_client()
    client.send(Acknowledgement(12_345))
    assert client.session.channel.bytes_acknowledged_by_peer == 12_345


def test_set_peer_bandwidth_is_answered_with_a_window_when_it_changes() -> None:
    client = connected_client()
    for size in (2_500_000, 1_000_000, 1_000_000, 2_500_000):
        client.send(SetPeerBandwidth(size, BandwidthLimit.HARD))
    assert client.heard() == [WindowAcknowledgementSize(1_000_000), WindowAcknowledgementSize(2_500_000)]
