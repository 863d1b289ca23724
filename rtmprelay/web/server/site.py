"""All HTTP connections of a relay: how many there are, and how they end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, cast

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress, IDelayedCall, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.http import Request
from twisted.web.server import Site
from typing_extensions import override

from rtmprelay.web.server.answers import Answer
from rtmprelay.web.server.channel import LINGER, BoundedChannel, raw_answer
from rtmprelay.web.server.request import RelayRequest
from rtmprelay.web.server.sharing import Sharing
from rtmprelay.web.server.turns import Turns
from rtmprelay.web.settings import HttpSettings

if TYPE_CHECKING:
    from rtmprelay.web.api.routes import Routes

#: Connections over the limit that are told so; more than these are just cut.
_MOST_TURNED_AWAY = 64


class TurnedAway(Protocol):
    """A connection too many: its request is answered with a no, whatever it is."""

    def __init__(self, site: RelaySite) -> None:
        self._site = site
        self._timer: IDelayedCall | None = None
        self._received = b""

    @property
    def _wire(self) -> Any:
        return self.transport

    @override
    def connectionMade(self) -> None:
        self._site.turned_away += 1
        if self._site.turned_away > _MOST_TURNED_AWAY:
            self._wire.abortConnection()
        else:
            self._timer = self._site.clock.callLater(LINGER, self._wire.abortConnection)

    @override
    def dataReceived(self, data: bytes) -> None:
        # Who is answered before it has sent its request may not read the answer.
        self._received = (self._received + data)[-4096:]
        if b"\r\n\r\n" in self._received and not self._wire.disconnecting:
            most = self._site.settings.max_http_connections
            self._site.responses[503] += 1
            self._wire.write(raw_answer(503, f"there are {most} HTTP connections already: try again later"))
            self._wire.loseConnection()

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._site.turned_away -= 1
        if self._timer is not None and self._timer.active():
            self._timer.cancel()


class RelaySite(Site):
    """Makes a channel for each connection, within bounds; gives requests to the routes."""

    noisy = False
    requestFactory = RelayRequest  # type: ignore[assignment] # noqa: N815
    protocol = BoundedChannel  # type: ignore[assignment]

    def __init__(self, settings: HttpSettings, routes: Routes, turns: Turns, clock: IReactorTime) -> None:
        super().__init__(None, timeout=cast(Any, settings.keep_alive), reactor=clock)
        self.settings = settings
        self.clock = clock
        self.sharing = Sharing(settings.cors)
        self.turns = turns
        #: Connections that are being turned away.
        self.turned_away = 0
        #: Answers so far, by status.
        self.responses: Counter[int] = Counter()
        self._routes = routes
        self._channels: set[BoundedChannel] = set()
        self._stopping = False
        self._waiting_for_drain: list[Deferred[None]] = []

    @property
    def connections(self) -> int:
        """How many connections there are."""
        return len(self._channels)

    def answer(self, request: RelayRequest) -> Answer | Deferred[Answer] | Deferred[None] | None:
        """The answer to a request; None if somebody writes it bit by bit."""
        return self._routes.answer(request)

    @override
    def buildProtocol(self, addr: IAddress | None) -> Any:
        if self._stopping or len(self._channels) >= self.settings.max_http_connections:
            return TurnedAway(self)
        return super().buildProtocol(addr)

    @override
    def acceptableProtocols(self) -> list[bytes]:
        # HTTP/2 would bring its own channels, without our bounds.
        return [b"http/1.1"]

    # -- no access log: whoever polls once a second would fill it, and query strings may hold keys ---------------

    @override
    def startFactory(self) -> None:
        self._stopping = False

    @override
    def stopFactory(self) -> None:
        """Connections may still be open: nothing ends here."""

    @override
    def log(self, request: Request) -> None:
        self.responses[request.code] += 1

    # -- the end ---------------------------------------------------------------------------------------------

    def channel_opened(self, channel: BoundedChannel) -> None:
        """A connection is there."""
        self._channels.add(channel)

    def channel_closed(self, channel: BoundedChannel) -> None:
        """A connection has gone."""
        self._channels.discard(channel)
        if not self._channels:
            waiting, self._waiting_for_drain = self._waiting_for_drain, []
            for drained in waiting:
                drained.callback(None)

    def shut_down(self) -> Deferred[None]:
        """Close all connections; fires when the last one has gone."""
        self._stopping = True
        self.turns.stop()
        if not self._channels:
            return succeed(None)
        drained: Deferred[None] = Deferred()
        self._waiting_for_drain.append(drained)
        for channel in list(self._channels):
            channel.close_soon()
        return drained
