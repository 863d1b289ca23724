"""What counts as one address."""

from __future__ import annotations

import pytest

from rtmprelay.addresses import address_group


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
