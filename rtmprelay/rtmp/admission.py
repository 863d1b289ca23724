"""Whether a new connection is accepted: limits on the number and the rate of connections, in all and per address."""

from __future__ import annotations

from collections import Counter, OrderedDict

import attrs

from rtmprelay.addresses import address_group
from rtmprelay.errors import LimitExceededError
from rtmprelay.session.timeouts import RateLimit

#: Addresses that are remembered as proxies. A deployment has one or two.
_MOST_PROXIES = 64

#: Seconds' worth of new connections that may come at once: all of an office at the beginning of a stream.
_BURST_SECONDS = 20

#: Addresses whose rate is remembered. A peer with more addresses escapes this limit, but not the others.
_MOST_RATES = 10_000


@attrs.frozen
class AdmissionLimits:
    """Limits on connections; None means no limit. A refusal names the field in the log.

    An address is one IPv4 address, or one IPv6 network of 64 bits.
    """

    #: Connections at the same time; each one costs a file descriptor and some memory.
    max_connections: int = 10_000
    #: Connections from one address that have not sent `connect` yet. They are cheap to open, so few are allowed.
    max_unconnected_per_address: int = 4_000
    #: Connections from one address at the same time. All clients of a TCP proxy without the PROXY protocol have its
    #: address: this leaves room for others.
    max_connections_per_address: int | None = 8_000
    #: New connections a second from one address, on average over twenty seconds.
    connection_rate_per_address: int | None = 200


class Admission:
    """Counts connections by address, and refuses those over a limit."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits
        self._open: Counter[str] = Counter()
        self._unconnected: Counter[str] = Counter()
        self._rates: OrderedDict[str, RateLimit] = OrderedDict()
        self._proxies: set[str] = set()

    def check(self, host: str, now: float) -> None:
        """Raise `LimitExceededError` if one more connection from this host is over a limit."""
        limits = self._limits
        host = address_group(host)
        self._check("max_connections", self._open.total(), limits.max_connections, "connections")
        if host in self._proxies:
            # Connections through a proxy are not counted against the proxy's address.
            return
        if limits.connection_rate_per_address is not None:
            self._rate(host, limits.connection_rate_per_address, now).spend(1, now)
        self._check(
            "max_connections_per_address",
            self._open[host],
            limits.max_connections_per_address,
            "connections from there",
        )
        self._check(
            "max_unconnected_per_address",
            self._unconnected[host],
            limits.max_unconnected_per_address,
            "connections from there that have not sent connect",
        )

    @staticmethod
    def _check(limit: str, count: int, most: int | None, what: str) -> None:
        if most is not None and count >= most:
            raise LimitExceededError(limit, f"there are {count} {what} already")

    def _rate(self, host: str, per_second: int, now: float) -> RateLimit:
        rate = self._rates.get(host)
        if rate is None:
            rate = RateLimit("connection_rate_per_address", per_second, now, _BURST_SECONDS)
            self._rates[host] = rate
            if len(self._rates) > _MOST_RATES:
                self._rates.popitem(last=False)
        else:
            self._rates.move_to_end(host)
        return rate

    def opened(self, host: str) -> None:
        self._open[address_group(host)] += 1
        self._unconnected[address_group(host)] += 1

    def connected(self, host: str) -> None:
        _decrease(self._unconnected, address_group(host))

    def closed(self, host: str) -> None:
        _decrease(self._open, address_group(host))

    def moved(self, proxy: str, host: str, now: float) -> None:
        """Count a connection from a proxy as one of the client's host, and raise if that host has too many.

        From now on, connections from the proxy are not counted as those of one peer.
        """
        if len(self._proxies) < _MOST_PROXIES:
            self._proxies.add(address_group(proxy))
        self.connected(proxy)
        self.closed(proxy)
        try:
            self.check(host, now)
        finally:
            self.opened(host)


def _decrease(counter: Counter[str], host: str) -> None:
    counter[host] -= 1
    if counter[host] <= 0:
        del counter[host]
