"""Acknowledgements of received bytes, and the windows that ask for them."""

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
from tests.session.helpers import AUDIO, ScriptedClient, connected_client, media


def send_bytes(client: ScriptedClient, count: int) -> list[int]:
    """A message that takes exactly so many bytes arrives; the sequence numbers that were acknowledged."""
    client.feed(encode_standalone(RawMessage(AUDIO.kind, 0, 1, bytes(count - 12)), 4, 65536))
    return [message.sequence_number for message in client.received() if isinstance(message, Acknowledgement)]


def client_with_window(size: int) -> ScriptedClient:
    client = connected_client()
    client.feed(encode_standalone(to_raw(SetChunkSize(65536)), 2, 128))
    client.send(WindowAcknowledgementSize(1))
    # The first acknowledgement is due at once, so the next one is due after a whole window.
    assert send_bytes(client, 5_000)
    client.send(WindowAcknowledgementSize(size))
    return client


def test_received_bytes_are_acknowledged_once_per_window() -> None:
    client = client_with_window(10_000)
    sent = [send_bytes(client, 4_000) for _ in range(6)]
    received = client.session.channel.bytes_received
    assert sent == [[], [], [received - 12_000], [], [], [received]]


def test_read_of_many_windows_is_acknowledged_once() -> None:
    client = client_with_window(5_000)
    assert send_bytes(client, 60_000) == [client.session.channel.bytes_received]
    assert send_bytes(client, 4_999) == []
    assert send_bytes(client, 12) == [client.session.channel.bytes_received]


def test_acknowledged_sequence_number_wraps_at_32_bits() -> None:
    client = client_with_window(5_000)
    client.session.channel.bytes_received = 2**32 - 1
    assert send_bytes(client, 5_000) == [4_999]


@pytest.mark.parametrize("size", [0, 1, SMALLEST_WINDOW - 1, SMALLEST_WINDOW])
def test_tiny_window_does_not_cause_an_acknowledgement_per_read(size: int) -> None:
    client = client_with_window(SMALLEST_WINDOW)
    assert send_bytes(client, SMALLEST_WINDOW)
    client.session.receive_data(client.encode(WindowAcknowledgementSize(size)), 0.0)
    acknowledged = client.session.channel.bytes_received
    assert send_bytes(client, SMALLEST_WINDOW - 17) == []
    assert send_bytes(client, 17) == [acknowledged + SMALLEST_WINDOW]


def test_session_acknowledges_all_bytes_but_the_last_window() -> None:
    client = connected_client()
    client.send(WindowAcknowledgementSize(1))
    for _ in range(400):
        client.send(media(AUDIO))
    numbers = [
        message.sequence_number for message in client.received() if isinstance(message, Acknowledgement)
    ]
    received = client.session.channel.bytes_received
    assert numbers
    assert all(later - earlier >= SMALLEST_WINDOW for earlier, later in itertools.pairwise(numbers))
    assert received - numbers[-1] < SMALLEST_WINDOW


def test_acknowledgements_of_the_client_change_nothing() -> None:
    client = connected_client()
    assert client.send(Acknowledgement(5_000), Acknowledgement(4_000), Acknowledgement(2**32 - 1)) == []
    assert client.received() == []


def test_set_peer_bandwidth_is_answered_only_when_it_changes() -> None:
    client = connected_client()
    for size in (2_500_000, 1_000_000, 1_000_000, 2_500_000):
        client.send(SetPeerBandwidth(size, BandwidthLimit.HARD))
    assert client.received() == [WindowAcknowledgementSize(1_000_000), WindowAcknowledgementSize(2_500_000)]


def test_set_peer_bandwidth_of_zero_is_no_window() -> None:
    client = connected_client()
    client.send(SetPeerBandwidth(0, BandwidthLimit.HARD))
    assert client.received() == []
    client.send(SetPeerBandwidth(1, BandwidthLimit.HARD))
    assert client.received() == [WindowAcknowledgementSize(1)]
