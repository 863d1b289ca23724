"""`allow-from`: who may publish and play by where they come from."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import attrs
from zope.interface import implementer

from rtmprelay.access.request import ALLOWED, AccessRequest, Action, Verdict, refused
from rtmprelay.errors import ConfigError
from rtmprelay.interfaces import IStreamAuthorizer

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: What can be said instead of a network.
_ANY, _NONE, _UNIX = "any", "none", "unix"

_ACTIONS = {action.value: action for action in Action}

#: Where the IPv4 addresses lie among those of IPv6, and how many bits come before them.
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")

_REFUSED = refused("it is not allowed from this address")


@attrs.frozen
class Origins:
    """Where somebody may come from. A unix socket is no network: it must be named."""

    networks: tuple[Network, ...] = ()
    unix: bool = False
    everywhere: bool = False

    def have(self, host: str) -> bool:
        """Whether a host is among them; an empty one is a unix socket's."""
        if self.everywhere:
            return True
        if not host:
            return self.unix
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        # A server that listens for both sees IPv4 clients as addresses of IPv6.
        mapped = getattr(address, "ipv4_mapped", None) or address
        return any(mapped in network for network in self.networks)


@implementer(IStreamAuthorizer)
@attrs.frozen
class AllowFrom:
    """Allows by address."""

    origins: dict[Action, Origins]

    def authorize(self, request: AccessRequest) -> Verdict:
        """Whether it comes from the right place."""
        return ALLOWED if self.origins[request.action].have(request.host) else _REFUSED


def make_allow_from(argument: str, reactor: object = None) -> AllowFrom:
    """The authorizer for `CIDR[,CIDR...]`, or `publish=CIDR[,CIDR...],play=CIDR[,CIDR...]`."""
    written: dict[Action, list[str]] = {}
    actions: Sequence[Action] = tuple(Action)
    for part in argument.split(","):
        name, equals, value = part.partition("=")
        if equals:
            if name not in _ACTIONS:
                raise ConfigError(f"{name!r} is no action: publish or play is expected before the =")
            actions, part = (_ACTIONS[name],), value
        for action in actions:
            written.setdefault(action, []).append(part.strip())
    for action in Action:
        if action not in written:
            name = action.value
            raise ConfigError(f"it says nothing about {name}: add {name}=any, {name}=none, or networks")
    return AllowFrom({action: _origins(parts) for action, parts in written.items()})


def _origins(parts: Sequence[str]) -> Origins:
    words = {part.lower() for part in parts} & {_ANY, _NONE, _UNIX}
    if _NONE in words and len(parts) > 1:
        raise ConfigError("none cannot stand beside others")
    networks = [_network(part) for part in parts if part.lower() not in (_ANY, _NONE, _UNIX)]
    return Origins(tuple(networks), _UNIX in words, _ANY in words)


def _network(text: str) -> Network:
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ConfigError(
            f"{text!r} is no network: 192.0.2.0/24, 192.0.2.7, 2001:db8::/32, unix, any or none is expected"
        ) from None
    if "/" in text and network.network_address != ipaddress.ip_address(text.partition("/")[0]):
        host = text.partition("/")[0]
        raise ConfigError(f"{text!r} is both a host and a network: write {network}, or {host} alone")
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
        address = network.network_address.ipv4_mapped
        return ipaddress.IPv4Network((int(address or 0), network.prefixlen - _MAPPED.prefixlen))
    return network
