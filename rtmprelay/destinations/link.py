"""What joins an outlet with Twisted's client service, which keeps it connected."""

from __future__ import annotations

from typing import Protocol as TypingProtocol
from typing import cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer

from rtmprelay.rtmp.client import RtmpPublisherProtocol


class LinkUser(TypingProtocol):
    """Who wants to be connected."""

    def attempt(self, factory: IProtocolFactory) -> Deferred[IProtocol]:
        """Make one attempt to reach the server."""

    def accepted(self, link: RtmpPublisherProtocol) -> None:
        """The server accepted the publish."""

    def unlinked(self, reason: Failure) -> None:
        """The connection has gone."""


class Link(Protocol):
    """The upper end of an accepted publish, for the client service to watch."""

    def __init__(self, outlet: LinkUser) -> None:
        self._outlet = outlet

    @override
    def connectionMade(self) -> None:
        self._outlet.accepted(cast(RtmpPublisherProtocol, self.transport))

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._outlet.unlinked(reason)


@implementer(IStreamClientEndpoint)
class CurrentAddress:
    """An endpoint that goes wherever the outlet wants to go at that moment."""

    def __init__(self, outlet: LinkUser) -> None:
        self._outlet = outlet

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:  # noqa: N803
        """Called by the client service for each attempt."""
        return self._outlet.attempt(protocolFactory)
