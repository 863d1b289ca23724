"""What counts as one address."""

from __future__ import annotations

import pytest

from rtmprelay.addresses import address_group, read_proxies
from rtmprelay.errors import ConfigError


@pytest.mark.parametrize(
    ("host", "group"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("local socket", "local socket"),
        ("", ""),
    ],
)
def test_address_is_counted_as_one_ipv4_address_or_a_network_of_64_bits(host: str, group: str) -> None:
    assert address_group(host) == group


PROXIES = read_proxies(["10.0.0.0/8", "2001:db8:1::/48", "192.0.2.9"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("198.51.100.1", ["203.0.113.5"], "198.51.100.1"),
        ("10.1.2.3", [], "10.1.2.3"),
        ("10.1.2.3", ["203.0.113.5"], "203.0.113.5"),
        ("10.1.2.3", ["1.1.1.1, 203.0.113.5"], "203.0.113.5"),
        ("10.1.2.3", ["1.1.1.1", "203.0.113.5, 10.9.9.9"], "203.0.113.5"),
        ("10.1.2.3", ["203.0.113.5:4711"], "203.0.113.5"),
        ("192.0.2.9", ["[2001:db8:7::1]:80"], "2001:db8:7::1"),
        ("2001:db8:1::1", ["::ffff:203.0.113.5"], "203.0.113.5"),
        ("10.1.2.3", ["203.0.113.5, unknown"], "10.1.2.3"),
        ("10.1.2.3", ["x" * 10_000], "10.1.2.3"),
        ("10.1.2.3", ["10.0.0.1"] * 1_000, "10.0.0.1"),
        ("local socket", ["203.0.113.5"], "local socket"),
    ],
)
def test_client_is_the_last_address_that_no_trusted_proxy_has(
    peer: str, forwarded: list[str], client: str
) -> None:
    assert PROXIES.client(peer, forwarded) == client


def test_proxy_on_a_unix_socket_is_trusted_if_the_operator_says_so() -> None:
    assert read_proxies(["unix"]).client("local socket", ["203.0.113.5"]) == "203.0.113.5"


@pytest.mark.parametrize("text", ["", "10.0.0.0/99", "example.org", "10.0.0.0/8,192.0.2.0/24"])
def test_wrong_network_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a network"):
        read_proxies([text])
