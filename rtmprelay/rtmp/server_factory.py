"""The factory of an RTMP server: makes the protocols, and has what they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import Factory, Protocol
from typing_extensions import override

from rtmprelay.access.gate import Gate
from rtmprelay.access.refusals import RefusalReports
from rtmprelay.access.refused_addresses import RefusedAddresses, advice_for
from rtmprelay.errors import LimitExceededError
from rtmprelay.event_bus import EventBus
from rtmprelay.events import ConnectionRefused
from rtmprelay.machine import OpenFiles
from rtmprelay.memory import MemoryPool
from rtmprelay.rtmp.addresses import describe_address, host_of
from rtmprelay.rtmp.admission import Admission, AdmissionLimits
from rtmprelay.rtmp.node_pass import NodeIdentity, NodePass
from rtmprelay.rtmp.permission import Logins
from rtmprelay.rtmp.reading_pace import ReadingPace
from rtmprelay.rtmp.recheck import Granted
from rtmprelay.rtmp.server import RtmpServerProtocol
from rtmprelay.streams.limits import QueueLimits
from rtmprelay.streams.memory_budget import MemoryBudget
from rtmprelay.streams.registry import StreamRegistry
from rtmprelay.wire.limits import FAIR_SHARE, LARGEST_OUTGOING_CHUNK_SIZE, ConnectionLimits


@attrs.frozen
class ServerSettings:
    """Settings of a server that apply to each connection."""

    chunk_size: int = LARGEST_OUTGOING_CHUNK_SIZE
    limits: ConnectionLimits = attrs.field(factory=ConnectionLimits)
    queue: QueueLimits = attrs.field(factory=QueueLimits)
    admission: AdmissionLimits = attrs.field(factory=AdmissionLimits)
    #: Kilobits a second of one publisher, on average over ten seconds; None means no limit.
    max_publisher_kbps: int | None = None
    #: Seconds between two events with the statistics of a connection.
    statistics_interval: float = 30.0
    #: Whether what clients brought along is kept, to ask the authorizers again.
    keeps_requests: bool = True


def _refuse_notice(node: NodePass) -> Deferred[str | None]:
    return succeed("this relay is in no cluster")


class RefusedRtmpConnection(Protocol):
    """Aborts a refused connection as soon as it is made.

    If `buildProtocol` returned None instead, Twisted would keep the connection open under TLS and the PROXY protocol.
    """

    @override
    def connectionMade(self) -> None:
        cast(Any, self.transport).abortConnection()


if TYPE_CHECKING:
    _ServerFactory = Factory["RtmpServerProtocol"]
else:
    # Older Twisted knows no type arguments here.
    _ServerFactory = Factory


class RtmpServerFactory(_ServerFactory):
    """Makes a protocol for each connection that the admission limits allow."""

    def __init__(
        self,
        clock: IReactorTime,
        registry: StreamRegistry | None = None,
        event_bus: EventBus | None = None,
        settings: ServerSettings | None = None,
        gate: Gate | None = None,
        refusals: RefusalReports | None = None,
    ) -> None:
        self.clock = clock
        #: Decides who may publish and play.
        self.gate = gate or Gate((), clock)
        self.logins = Logins(self.gate)
        #: The name of this relay among others; checks what they show when they fetch a stream from here.
        self.node = NodeIdentity("")
        #: Called with a notice of another node; fires with the reason why it is refused, or with None.
        self.take_notice: Callable[[NodePass], Deferred[str | None]] = _refuse_notice
        self.registry = registry if registry is not None else StreamRegistry()
        self.events = event_bus or EventBus()
        self.settings = settings or ServerSettings()
        self.reading_pace = ReadingPace(clock)
        #: What all connections together have in unfinished messages, before and after a publish is accepted.
        self.strangers_memory = MemoryPool(
            "memory_before_publish", self.settings.limits.memory_before_publish, FAIR_SHARE
        )
        self.publishers_memory = MemoryPool("memory_budget")
        #: Says whether there is memory for one more publisher; None for no check.
        self.memory: MemoryBudget | None = None
        #: Says whether there are files for one more connection; None for no check.
        self.open_files: OpenFiles | None = None
        self.noisy = False
        self._connections: dict[str, RtmpServerProtocol] = {}
        self._admission = Admission(self.settings.admission)
        self._last_number = 0
        self._stopping = False
        #: Connections that were refused, by limit.
        self.refused_by_limit: Counter[str] = Counter()
        #: Addresses that exceeded a limit for one address.
        self.refused_addresses = RefusedAddresses(clock)
        #: Reports what is refused to clients.
        self.refusals = refusals or RefusalReports(self.events, clock)
        self._waiting_for_drain: list[Deferred[None]] = []

    @property
    def connections(self) -> tuple[RtmpServerProtocol, ...]:
        return tuple(self._connections.values())

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def connections_refused(self) -> int:
        return self.refused_by_limit.total()

    def reopen(self) -> None:
        """Accept connections again after a shut-down."""
        self._stopping = False

    @override
    def startFactory(self) -> None:
        self.reopen()

    @override
    def buildProtocol(self, addr: IAddress | None) -> Protocol:  # type: ignore[override]
        if self._stopping:
            self._refuse(addr, "stopping", "the server stops")
            return RefusedRtmpConnection()
        try:
            self._refuse_banned(host_of(addr))
            if self.open_files is not None:
                self.open_files.check()
            self._admission.check(host_of(addr), self.clock.seconds())
        except LimitExceededError as error:
            self._refuse(addr, error.limit, str(error))
            return RefusedRtmpConnection()
        self._last_number += 1
        protocol = RtmpServerProtocol(self, f"c{self._last_number:06d}", addr)
        self._connections[protocol.connection_id] = protocol
        self._admission.opened(protocol.host)
        return protocol

    def _refuse(self, address: IAddress | None, limit: str, reason: str) -> None:
        host = host_of(address)
        self.refused_by_limit[limit] += 1
        self.refused_addresses.note(host, limit)
        refusal = ConnectionRefused(peer=describe_address(address), reason=reason, advice=advice_for(limit))
        self.refusals.report(host, refusal)

    def moved(self, protocol: RtmpServerProtocol, proxy: str) -> None:
        """Count a connection from a proxy at its real address. Raises if there are too many from there."""
        try:
            self._refuse_banned(protocol.host)
            self._admission.moved(proxy, protocol.host, self.clock.seconds())
        except LimitExceededError as error:
            self.refused_by_limit[error.limit] += 1
            self.refused_addresses.note(protocol.host, error.limit)
            raise

    def _refuse_banned(self, host: str) -> None:
        if self.gate.guard is not None and self.gate.guard.is_banned(host):
            raise LimitExceededError("ban", "too many wrong keys came from there, see --ban")

    def has_connected(self, protocol: RtmpServerProtocol) -> None:
        """Called when a client has sent `connect`."""
        if protocol.counts_as_unconnected:
            protocol.counts_as_unconnected = False
            self._admission.connected(protocol.host)

    def forget(self, protocol: RtmpServerProtocol) -> None:
        """Called when a connection has ended."""
        self.has_connected(protocol)
        if self._connections.pop(protocol.connection_id, None) is not None:
            self._admission.closed(protocol.host)
        if not self._connections:
            waiting, self._waiting_for_drain = self._waiting_for_drain, []
            for drained in waiting:
                drained.callback(None)

    def granted(self) -> list[Granted]:
        """What clients were allowed and still do, each with the function that ends it for a reason."""
        return [one for connection in self.connections for one in connection.granted()]

    def end_play(self, connection_id: str, reason: str) -> bool:
        """End all plays of a connection. Returns whether there were any."""
        connection = self._connections.get(connection_id)
        return connection is not None and connection.end_plays(reason)

    def shut_down(self) -> Deferred[None]:
        """Tell all clients that the server stops. Fires when the last connection has ended."""
        self._stopping = True
        if not self._connections:
            return succeed(None)
        drained: Deferred[None] = Deferred()
        self._waiting_for_drain.append(drained)
        for protocol in self.connections:
            protocol.shut_down()
        return drained
