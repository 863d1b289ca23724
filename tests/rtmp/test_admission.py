"""Who is taken as one more connection."""

from __future__ import annotations

import pytest

from rtmprelay.errors import LimitExceededError
from rtmprelay.rtmp import admission
from rtmprelay.rtmp.admission import Admission, AdmissionLimits


def refusal(gate: Admission, host: str, now: float = 0.0) -> str | None:
    """The limit that one more connection from there would be over."""
    try:
        gate.check(host, now)
    except LimitExceededError as error:
        return error.limit
    return None


def come(gate: Admission, host: str, now: float = 0.0) -> bool:
    if refusal(gate, host, now) is not None:
        return False
    gate.opened(host)
    return True


def test_address_over_its_limit_is_refused_until_a_connection_closes() -> None:
    gate = Admission(AdmissionLimits(max_connections_per_address=2))
    assert [come(gate, "a"), come(gate, "a"), come(gate, "a"), come(gate, "b")] == [True, True, False, True]
    assert refusal(gate, "a") == "max_connections_per_address"
    gate.connected("a")
    assert refusal(gate, "a") == "max_connections_per_address"
    gate.closed("a")
    assert refusal(gate, "a") is None


def test_connection_above_the_limit_of_all_is_refused() -> None:
    gate = Admission(AdmissionLimits(max_connections=2))
    assert [come(gate, "a"), come(gate, "b")] == [True, True]
    assert refusal(gate, "c") == "max_connections"


def test_address_over_its_limit_of_unconnected_clients_is_refused_until_one_connects() -> None:
    gate = Admission(AdmissionLimits(max_unconnected_per_address=1))
    assert come(gate, "a")
    assert refusal(gate, "a") == "max_unconnected_per_address"
    gate.connected("a")
    assert come(gate, "a")


def test_a_burst_is_fine_and_a_flood_is_not() -> None:
    gate = Admission(AdmissionLimits(connection_rate_per_address=5))
    assert [come(gate, "a") for _ in range(100)] == [True] * 100
    assert refusal(gate, "a") == "connection_rate_per_address"
    assert refusal(gate, "b") is None
    assert refusal(gate, "a", 30.0) is None


def test_connections_through_a_proxy_do_not_count_against_its_address() -> None:
    gate = Admission(AdmissionLimits(max_connections_per_address=1, connection_rate_per_address=1))
    for number in range(100):
        assert come(gate, "proxy")
        gate.moved("proxy", f"client {number}", 0.0)


def test_connections_behind_a_proxy_are_counted_by_the_address_that_it_names() -> None:
    gate = Admission(AdmissionLimits(max_connections_per_address=2, max_unconnected_per_address=2))
    for _ in range(2):
        assert come(gate, "proxy")
        gate.moved("proxy", "192.0.2.7", 0.0)
    assert come(gate, "proxy")
    with pytest.raises(LimitExceededError) as raised:
        gate.moved("proxy", "192.0.2.7", 0.0)
    assert raised.value.limit == "max_connections_per_address"
    for _ in range(3):
        gate.connected("192.0.2.7")
        gate.closed("192.0.2.7")
    assert not gate._open
    assert not gate._unconnected


def test_customer_of_ipv6_is_one_address() -> None:
    gate = Admission(AdmissionLimits(max_connections_per_address=2))
    assert [come(gate, f"2001:db8::{number}") for number in range(3)] == [True, True, False]
    assert come(gate, "2001:db8:0:1::1")
    assert come(gate, "192.0.2.1")
    assert come(gate, "::ffff:192.0.2.1")
    assert refusal(gate, "192.0.2.1") == "max_connections_per_address"


def test_office_of_three_thousand_behind_one_address_may_join_at_once() -> None:
    """At 600 a second, as fast as they are taken, with the default limits."""
    gate = Admission(AdmissionLimits())
    for number in range(3_000):
        now = number / 600
        assert come(gate, "office", now)
        gate.connected("office")


def test_flood_of_a_minute_is_forgiven_within_thirty_seconds() -> None:
    gate = Admission(AdmissionLimits())
    refused = [refusal(gate, "shared", number / 1_000) is not None for number in range(60_000)]
    assert sum(refused) > 40_000
    assert refusal(gate, "shared", 60 + 30.0) is None


def test_tcp_proxy_without_proxy_protocol_leaves_room_for_others() -> None:
    gate = Admission(AdmissionLimits(connection_rate_per_address=None))
    taken = 0
    while come(gate, "proxy"):
        gate.connected("proxy")
        taken += 1
    assert taken == 8_000
    assert refusal(gate, "elsewhere") is None


def test_none_means_no_bound() -> None:
    gate = Admission(AdmissionLimits(connection_rate_per_address=None))
    assert all(come(gate, "a") for _ in range(2_000))


def test_connections_that_left_are_forgotten() -> None:
    gate = Admission(AdmissionLimits())
    for number in range(100):
        host = f"192.0.2.{number}"
        assert come(gate, host)
        gate.connected(host)
        gate.closed(host)
    assert not gate._open
    assert not gate._unconnected


def test_the_memory_of_rates_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_MOST_RATES", 10)
    gate = Admission(AdmissionLimits(connection_rate_per_address=1))
    for number in range(1_000):
        refusal(gate, f"host {number}")
        refusal(gate, "regular", float(number))
    assert len(gate._rates) == 10
    assert "regular" in gate._rates
