"""Addresses that exceed a limit for one address. The operator decides whether that is an attack or an office.

Refused connections are reported as events once a second. This keeps, for /health and the page, which addresses they came
from, which limit it was, and what to set if many clients share the address.
"""

from __future__ import annotations

from collections import OrderedDict

import attrs
from twisted.internet.interfaces import IReactorTime

from rtmprelay.addresses import address_group

#: Seconds for which an address is shown after its last refusal.
_SHOWN_FOR = 600.0

#: Addresses that are shown: those that were refused last.
_MOST_SHOWN = 20


@attrs.frozen
class RefusedAddress:
    """An address that exceeded a limit in the last minutes."""

    address: str
    #: The name of the limit.
    limit: str
    #: How often it was refused.
    refused: int
    #: Seconds since the last time.
    ago: float

    @property
    def advice(self) -> str:
        return advice_for(self.limit)


def advice_for(limit: str) -> str:
    """What to set if many clients share an address that exceeds a limit."""
    if limit.endswith("per_address"):
        proxy = (
            "--trusted-proxy if it is a proxy"
            if "http" in limit or "readers" in limit
            else "listen with haproxy: if it is a proxy"
        )
        return f"if many clients share this address: --limit {limit}=NUMBER or none, or {proxy}"
    return ""


@attrs.define(eq=False)
class _Refusals:
    count: int
    last: float


class RefusedAddresses:
    """Remembers the latest addresses that exceeded a limit for one address."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._refusals: OrderedDict[tuple[str, str], _Refusals] = OrderedDict()

    def note(self, host: str, limit: str) -> None:
        """Count a refusal to a client at this address."""
        if not limit.endswith("per_address"):
            return
        key = (address_group(host), limit)
        found = self._refusals.setdefault(key, _Refusals(0, 0.0))
        found.count += 1
        found.last = self._clock.seconds()
        self._refusals.move_to_end(key)
        if len(self._refusals) > _MOST_SHOWN:
            self._refusals.popitem(last=False)

    def recent(self) -> list[RefusedAddress]:
        """The addresses of the last ten minutes, the latest first."""
        now = self._clock.seconds()
        return [
            RefusedAddress(address, limit, found.count, now - found.last)
            for (address, limit), found in reversed(self._refusals.items())
            if now - found.last < _SHOWN_FOR
        ]
