"""Whose address it is: what limits count is one IPv4 address, or one IPv6 network of 64 bits."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

#: A customer of any provider has at least so much to choose addresses from.
_CUSTOMER_BITS = 64


@lru_cache(maxsize=10_000)
def address_group(host: str) -> str:
    """What an address is counted as; text that is no address, as of a unix socket, is counted as it is."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _CUSTOMER_BITS), strict=False))
