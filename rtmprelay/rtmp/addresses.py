"""Addresses of peers, as text."""

from __future__ import annotations

from twisted.internet.interfaces import IAddress


def host_of(address: IAddress | None) -> str:
    """The host of an address; the same text for all local sockets."""
    return str(getattr(address, "host", "local socket"))


def describe_address(address: IAddress | None) -> str:
    """`host:port`, or `[host]:port` for IPv6."""
    host = host_of(address)
    port = getattr(address, "port", None)
    if port is None:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
