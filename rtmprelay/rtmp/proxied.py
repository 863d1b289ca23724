"""Listeners behind a TCP proxy: the header of the PROXY protocol says who the client is."""

from __future__ import annotations

import ipaddress
import struct
from typing import Any, cast

from twisted.protocols.haproxy._wrapper import HAProxyProtocolWrapper, HAProxyWrappingFactory
from typing_extensions import override

#: What an endpoint's description begins with.
PREFIX = "haproxy:"

#: What Twisted's parsers raise for headers that no proxy sends, beside their own error.
_UNREADABLE = (ValueError, IndexError, struct.error)


class ProxiedConnection(HAProxyProtocolWrapper):
    """Closes a connection whose header cannot be read. Twisted would log some of them as errors of the server."""

    _proxyInfo: Any  # noqa: N815

    @override
    def dataReceived(self, data: bytes) -> None:
        if self._proxyInfo is not None:
            self.wrappedProtocol.dataReceived(data)
            return
        try:
            super().dataReceived(data)
        except _UNREADABLE:
            if self._proxyInfo is not None:
                raise
            cast(Any, self).loseConnection()

    @override
    def getPeer(self) -> Any:
        """The client; the proxy itself, if what it says is no address."""
        peer = super().getPeer()
        host = getattr(peer, "host", None)
        if self._proxyInfo is not None and host is not None and not _is_address(host):
            return cast(Any, self.transport).getPeer()
        return peer


def _is_address(host: object) -> bool:
    try:
        ipaddress.ip_address(str(host))
    except ValueError:
        return False
    return True


class ProxiedFactory(HAProxyWrappingFactory):
    """Makes connections whose address is that of the client."""

    protocol = ProxiedConnection  # type: ignore[assignment]
