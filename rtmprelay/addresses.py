"""What limits count as one address, and which proxies may name the address of a client."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache

import attrs

from rtmprelay.errors import ConfigError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Addresses in X-Forwarded-For that are looked at. Nobody has as many proxies in a row.
_MOST_HOPS = 20

#: What the peer of a unix socket is called.
_LOCAL = "local socket"

#: Providers give every customer at least a network of this size, and any address in it is free to use.
_CUSTOMER_BITS = 64


@lru_cache(maxsize=10_000)
def address_group(host: str) -> str:
    """What an address is counted as: one IPv4 address, or one IPv6 network of 64 bits.

    Text that is not an address, such as that of a unix socket, is counted as it is.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _CUSTOMER_BITS), strict=False))


@attrs.frozen
class TrustedProxies:
    """The networks whose X-Forwarded-For counts. Everybody else could write anything there."""

    networks: tuple[Network, ...] = ()
    #: Whether proxies on unix sockets are trusted.
    unix: bool = False

    def __bool__(self) -> bool:
        return bool(self.networks) or self.unix

    def __contains__(self, host: str) -> bool:
        if host == _LOCAL:
            return self.unix
        address = _address(host)
        return address is not None and any(address in network for network in self.networks)

    def client(self, host: str, forwarded: Sequence[str]) -> str:
        """The client's address: the last one in the headers that is not a trusted proxy's own."""
        if host not in self:
            return host
        named = [part.strip() for line in forwarded for part in line.split(",")]
        for text in reversed(named[-_MOST_HOPS:]):
            address = _address(text)
            if address is None:
                break
            host = str(address)
            if host not in self:
                break
        return host


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    # Some proxies add a port, and put IPv6 into brackets then.
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return address if mapped is None else mapped


def read_proxies(texts: Sequence[str]) -> TrustedProxies:
    """The values of `--trusted-proxy`: networks such as `10.0.0.0/8`, addresses, and `unix`.

    Raises:
        ConfigError: A text is none of these.
    """
    networks = []
    for text in texts:
        if text == "unix":
            continue
        try:
            networks.append(ipaddress.ip_network(text, strict=False))
        except ValueError:
            raise ConfigError(
                f"{text[:60]!r} is not a network such as 10.0.0.0/8, an address, or unix"
            ) from None
    return TrustedProxies(tuple(networks), "unix" in texts)
