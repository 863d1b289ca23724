"""Makes the protocols of an RTMP server, and holds what they share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import Factory, Protocol
from typing_extensions import override

from rtmprelay.access.gate import Gate
from rtmprelay.errors import LimitExceededError
from rtmprelay.event_bus import EventBus
from rtmprelay.rtmp.addresses import describe_address, host_of
from rtmprelay.rtmp.admission import Admission, AdmissionLimits, RefusalLog
from rtmprelay.rtmp.permission import LoginDesk
from rtmprelay.rtmp.reading_pace import ReadingPace
from rtmprelay.rtmp.server import RtmpServerProtocol
from rtmprelay.streams.limits import QueueLimits
from rtmprelay.streams.registry import StreamRegistry
from rtmprelay.wire.limits import LARGEST_OUTGOING_CHUNK_SIZE, ConnectionLimits


@attrs.frozen
class ServerSettings:
    """How a server treats its connections."""

    chunk_size: int = LARGEST_OUTGOING_CHUNK_SIZE
    limits: ConnectionLimits = attrs.field(factory=ConnectionLimits)
    queue: QueueLimits = attrs.field(factory=QueueLimits)
    admission: AdmissionLimits = attrs.field(factory=AdmissionLimits)
    #: Kilobits a second of one publisher, on average over ten seconds; None for no bound.
    max_publisher_kbps: int | None = None
    #: Seconds between two reports on what goes through a connection.
    statistics_interval: float = 30.0


class RefusedConnection(Protocol):
    """A connection that is not wanted: it is cut as soon as it is there."""

    @override
    def connectionMade(self) -> None:
        cast(Any, self.transport).abortConnection()


if TYPE_CHECKING:
    _ServerFactory = Factory["RtmpServerProtocol"]
else:
    # Older Twisted knows no type arguments here.
    _ServerFactory = Factory


class RtmpServerFactory(_ServerFactory):
    """Makes a protocol for each connection, and bounds how many there are."""

    def __init__(
        self,
        clock: IReactorTime,
        registry: StreamRegistry | None = None,
        event_bus: EventBus | None = None,
        settings: ServerSettings | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.clock = clock
        #: Says who may publish and play.
        self.gate = gate or Gate((), clock)
        self.login_desk = LoginDesk(self.gate)
        self.registry = registry if registry is not None else StreamRegistry()
        self.events = event_bus or EventBus()
        self.settings = settings or ServerSettings()
        self.reading_pace = ReadingPace(clock)
        self.noisy = False
        self._connections: dict[str, RtmpServerProtocol] = {}
        self._admission = Admission(self.settings.admission)
        self._last_number = 0
        self._stopping = False
        self._refusals = RefusalLog(self.events, clock)
        self._waiting_for_drain: list[Deferred[None]] = []

    @property
    def connections(self) -> tuple[RtmpServerProtocol, ...]:
        """Everybody who is connected."""
        return tuple(self._connections.values())

    @property
    def connection_count(self) -> int:
        """How many there are."""
        return len(self._connections)

    @property
    def connections_refused(self) -> int:
        """How many connections were not wanted so far."""
        return self._refusals.by_limit.total()

    @property
    def refused_by_limit(self) -> Mapping[str, int]:
        """How many, by the limit that they would have been over."""
        return self._refusals.by_limit

    def reopen(self) -> None:
        """Take connections again after a shut-down."""
        self._stopping = False

    @override
    def startFactory(self) -> None:
        self.reopen()

    @override
    def buildProtocol(self, addr: IAddress | None) -> Protocol:  # type: ignore[override]
        peer = describe_address(addr)
        # Not None for those: behind TLS and the PROXY protocol, Twisted leaves a connection open that nobody wants.
        if self._stopping:
            self._refusals.refused(peer, "stopping", "the server stops")
            return RefusedConnection()
        try:
            self._admission.check(host_of(addr), self.clock.seconds())
        except LimitExceededError as error:
            self._refusals.refused(peer, error.limit, str(error))
            return RefusedConnection()
        self._last_number += 1
        protocol = RtmpServerProtocol(self, f"c{self._last_number:06d}", addr)
        self._connections[protocol.connection_id] = protocol
        self._admission.opened(protocol.host)
        return protocol

    def came_through(self, proxy: str) -> None:
        """Connections from this address come from elsewhere: they do not count as one peer's."""
        self._admission.came_through(proxy)

    def has_connected(self, protocol: RtmpServerProtocol) -> None:
        """A client has sent `connect`."""
        if protocol.counts_as_unconnected:
            protocol.counts_as_unconnected = False
            self._admission.connected(protocol.host)

    def forget(self, protocol: RtmpServerProtocol) -> None:
        """A connection has gone."""
        self.has_connected(protocol)
        if self._connections.pop(protocol.connection_id, None) is not None:
            self._admission.closed(protocol.host)
        if not self._connections:
            waiting, self._waiting_for_drain = self._waiting_for_drain, []
            for drained in waiting:
                drained.callback(None)

    def shut_down(self) -> Deferred[None]:
        """Tell everybody that the server stops; fires when the last connection has gone."""
        self._stopping = True
        if not self._connections:
            return succeed(None)
        drained: Deferred[None] = Deferred()
        self._waiting_for_drain.append(drained)
        for protocol in self.connections:
            protocol.shut_down()
        return drained
