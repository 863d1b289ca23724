"""Byte counts that the peers tell each other."""

from __future__ import annotations

import itertools

import pytest

from rtmprelay.session.acknowledgement import SMALLEST_WINDOW, AcknowledgementAccount
from rtmprelay.wire.messages import (
    Acknowledgement,
    BandwidthLimit,
    SetPeerBandwidth,
    WindowAcknowledgementSize,
)
from tests.session.helpers import AUDIO, connected_client, media


def test_an_acknowledgement_is_due_after_each_window() -> None:
    account = AcknowledgementAccount()
    account.set_window(10_000)
    due = [account.received(4_000) for _ in range(6)]
    assert due == [None, None, 12_000, None, None, 24_000]


def test_a_read_of_many_windows_is_acknowledged_once() -> None:
    account = AcknowledgementAccount()
    account.set_window(5_000)
    assert account.received(1_000_000) == 1_000_000
    assert account.received(4_999) is None


def test_what_we_acknowledge_wraps_at_32_bits() -> None:
    account = AcknowledgementAccount(2**32 - 1, 0, 5_000, 2**32 - 1)
    account.set_window(5_000)
    assert account.received(5_000) == 4_999


@pytest.mark.parametrize("size", [0, 1, SMALLEST_WINDOW - 1])
def test_a_tiny_window_does_not_make_us_answer_every_byte(size: int) -> None:
    account = AcknowledgementAccount()
    account.set_window(size)
    assert [account.received(1) for _ in range(SMALLEST_WINDOW - 1)] == [None] * (SMALLEST_WINDOW - 1)
    assert account.received(1) == SMALLEST_WINDOW


def test_the_peers_count_goes_on_over_2_to_the_32() -> None:
    account = AcknowledgementAccount()
    for sequence_number in (2_000_000_000, 4_000_000_000, 1_000_000):
        account.peer_acknowledged(sequence_number)
    assert account.bytes_acknowledged_by_peer == 2**32 + 1_000_000


def test_an_old_number_that_comes_late_changes_nothing() -> None:
    account = AcknowledgementAccount()
    account.peer_acknowledged(5_000)
    account.peer_acknowledged(4_000)
    assert account.bytes_acknowledged_by_peer == 5_000


def test_a_session_acknowledges_what_the_client_sends() -> None:
    client = connected_client()
    client.send(WindowAcknowledgementSize(1))
    for _ in range(400):
        client.send(media(AUDIO))
    numbers = [message.sequence_number for message in client.heard() if isinstance(message, Acknowledgement)]
    received = client.session.channel.account.bytes_received
    assert numbers
    assert all(later - earlier >= SMALLEST_WINDOW for earlier, later in itertools.pairwise(numbers))
    assert received - numbers[-1] < SMALLEST_WINDOW


def test_a_session_keeps_what_the_client_acknowledges() -> None:
    client = connected_client()
    client.send(Acknowledgement(12_345))
    assert client.session.channel.account.bytes_acknowledged_by_peer == 12_345


def test_set_peer_bandwidth_is_answered_with_a_window_when_it_changes() -> None:
    client = connected_client()
    for size in (2_500_000, 1_000_000, 1_000_000, 2_500_000):
        client.send(SetPeerBandwidth(size, BandwidthLimit.HARD))
    assert client.heard() == [WindowAcknowledgementSize(1_000_000), WindowAcknowledgementSize(2_500_000)]
