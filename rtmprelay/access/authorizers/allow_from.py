"""The `allow-from` authorizer: clients may publish and play by their IP address."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import attrs
from zope.interface import implementer

from rtmprelay.access.request import ALLOWED, AccessRequest, Action, Verdict, refused
from rtmprelay.errors import ConfigError
from rtmprelay.interfaces import IStreamAuthorizer

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Words that may stand in place of a network.
_ANY, _NONE, _UNIX = "any", "none", "unix"

_ACTIONS = {action.value: action for action in Action}

#: The IPv6 addresses that stand for IPv4 addresses.
_IPV4_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")

_REFUSED = refused("it is not allowed from this address")


@attrs.frozen
class Origins:
    """Where clients may come from. A unix socket belongs to no network, so it has a word of its own."""

    networks: tuple[Network, ...] = ()
    unix: bool = False
    everywhere: bool = False

    def include(self, host: str) -> bool:
        """Whether a client from this address is allowed; an empty address is a unix socket."""
        if self.everywhere:
            return True
        if not host:
            return self.unix
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        # A socket that listens for both sees IPv4 clients as ::ffff:192.0.2.7.
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self.networks)


@implementer(IStreamAuthorizer)
@attrs.frozen
class AllowFrom:
    """Allows clients by their address."""

    origins: dict[Action, Origins]

    def authorize(self, request: AccessRequest) -> Verdict:
        return ALLOWED if self.origins[request.action].include(request.host) else _REFUSED


def make_allow_from(argument: str, reactor: object = None) -> AllowFrom:
    """The authorizer for `CIDR[,CIDR...]`, or `publish=CIDR[,CIDR...],play=CIDR[,CIDR...]`."""
    written: dict[Action, list[str]] = {}
    # A network without an action in front of it belongs to the action before; at first that is both of them.
    actions: Sequence[Action] = tuple(Action)
    for part in argument.split(","):
        name, equals, value = part.partition("=")
        if equals:
            if name not in _ACTIONS:
                raise ConfigError(f"{name!r} is not an action: write publish or play before the =")
            actions, part = (_ACTIONS[name],), value
        for action in actions:
            written.setdefault(action, []).append(part.strip())
    for action in Action:
        if action not in written:
            name = action.value
            raise ConfigError(f"nothing is said about {name}: add {name}=any, {name}=none, or networks")
    return AllowFrom({action: _origins(parts) for action, parts in written.items()})


def _origins(parts: Sequence[str]) -> Origins:
    words = {part.lower() for part in parts} & {_ANY, _NONE, _UNIX}
    if _NONE in words and len(parts) > 1:
        raise ConfigError("none must stand alone")
    networks = [_network(part) for part in parts if part.lower() not in (_ANY, _NONE, _UNIX)]
    return Origins(tuple(networks), _UNIX in words, _ANY in words)


def _network(text: str) -> Network:
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ConfigError(
            f"{text!r} is not a network: 192.0.2.0/24, 192.0.2.7, 2001:db8::/32, unix, any or none is expected"
        ) from None
    host, slash, _ = text.partition("/")
    if slash and network.network_address != ipaddress.ip_address(host):
        raise ConfigError(f"{text!r} is both a host and a network: write {network}, or {host} alone")
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_IPV4_MAPPED):
        address = network.network_address.ipv4_mapped
        return ipaddress.IPv4Network((int(address or 0), network.prefixlen - _IPV4_MAPPED.prefixlen))
    return network
