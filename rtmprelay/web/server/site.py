"""All HTTP connections: what each may send and how long it may take, how many there may be, and how they end.

Twisted's own channel bounds the headers and the time between two reads. This one also bounds the time of a whole
request and the size of its body, refuses in JSON, and answers pipelined requests one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IAddress, IDelayedCall, IReactorTime
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel, Request
from twisted.web.server import Site
from typing_extensions import override

from rtmprelay.access.guessing import GuessGuard
from rtmprelay.access.refusals import RefusalReports
from rtmprelay.access.refused_addresses import RefusedAddresses
from rtmprelay.events import ConnectionRefused
from rtmprelay.machine import OpenFiles
from rtmprelay.rtmp.addresses import describe_address, host_of
from rtmprelay.web.server.access import CorsPolicy
from rtmprelay.web.server.quota import AddressQuota
from rtmprelay.web.server.refused import LINGER, CutConnection, RefusedHttpConnection, raw_response
from rtmprelay.web.server.request import RelayRequest, Result
from rtmprelay.web.server.scheduling import HttpScheduler
from rtmprelay.web.server.unread import UnreadResponses
from rtmprelay.web.settings import HttpSettings

#: Bytes that the bodies of all requests together may have: nobody knows yet who may send one.
MOST_IN_BODIES = 8 * 1024 * 1024

#: The first bytes of clients that speak something else: no request begins with them.
_OTHER_PROTOCOLS = {0x03: "RTMP", 0x06: "RTMP", 0x16: "TLS"}
_ADVICE = {
    "RTMP": ": publish to and play from the port of --listen",
    "TLS": " without TLS: write http:// in place of https://",
}


class BoundedChannel(HTTPChannel):
    """An HTTP connection whose client can use only a bounded amount of memory and time."""

    maxHeaders = 100  # noqa: N815
    totalHeadersSize = 16_384  # noqa: N815
    abortTimeout = 5  # noqa: N815

    site: RelaySite

    def __init__(self) -> None:
        super().__init__()
        self._deadline: IDelayedCall | None = None
        self._refused = False
        self._lost = False
        self._is_silent = False
        #: Gives back the place in the quota of the client's address.
        self.leave_quota: Callable[[], None] | None = None
        # Whether the next line is a header, and not the first line of a request.
        self._in_headers = False
        # Data that has arrived and that the scheduler has not taken yet.
        self._received: list[bytes] = []
        self._in_body = 0
        # A response that waits until the client has read the previous one.
        self._blocked_response: Callable[[], None] | None = None

    @property
    def _wire(self) -> Any:
        return self.transport

    @override
    def connectionMade(self) -> None:
        super().connectionMade()
        # A connection that has sent nothing is closed sooner than an idle one that has made a request.
        self._deadline = self.callLater(self.site.settings.request_timeout, self.close_soon)
        self._is_silent = True
        self.site.channel_opened(self)

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._lost = True
        self._cancel_deadline()
        self.forget_body()
        self._blocked_response = None
        super().connectionLost(reason)
        if self.leave_quota is not None:
            self.leave_quota()
        self.site.channel_closed(self)

    # -- receiving -------------------------------------------------------------------------------------------

    @override
    def dataReceived(self, data: bytes) -> None:
        if self._refused:
            return
        if self._is_silent:
            self._is_silent = False
            self._cancel_deadline()
            if data[0] in _OTHER_PROTOCOLS:
                self._refuse_protocol(_OTHER_PROTOCOLS[data[0]])
                return
        if self._deadline is None and not self._handlingRequest:
            # The deadline is for the whole request: a client that sends a byte now and then cannot extend it.
            self._deadline = self.callLater(self.site.settings.request_timeout, self._request_timed_out)
        self._received.append(data)
        if len(self._received) == 1:
            self.site.scheduler.run(self._parse_received)

    def _refuse_protocol(self, protocol: str) -> None:
        """Say at once what would end as a timeout on both sides."""
        peer = self.transport.getPeer() if self.transport is not None else None
        reason = f"this is {protocol} on a port for HTTP{_ADVICE[protocol]}"
        self.site.tell_refusal(peer, reason)
        self.refuse(400, reason)

    def _parse_received(self) -> None:
        data = b"".join(self._received)
        self._received.clear()
        if not self._lost and not self._refused:
            super().dataReceived(data)

    def take_for_body(self, size: int) -> bool:
        """Count bytes of a request's body; whether there is room for them."""
        if self.site.in_bodies + size > self.site.most_in_bodies:
            return False
        self._in_body += size
        self.site.in_bodies += size
        return True

    def forget_body(self) -> None:
        """The body of the request is needed no more."""
        self.site.in_bodies -= self._in_body
        self._in_body = 0

    @override
    def requestDone(self, request: Request) -> None:
        self.forget_body()
        super().requestDone(request)

    @override
    def lineReceived(self, line: bytes) -> None:
        if not self._refused:
            self._in_headers = bool(line)
            super().lineReceived(line)

    @override
    def rawDataReceived(self, data: bytes) -> None:
        if not self._refused:
            super().rawDataReceived(data)

    @override
    def allContentReceived(self) -> None:
        self._cancel_deadline()
        if not self._refused:
            super().allContentReceived()

    def _cancel_deadline(self) -> None:
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None

    def _request_timed_out(self) -> None:
        self._deadline = None
        seconds = self.site.settings.request_timeout
        self.refuse(408, f"the request did not arrive within {seconds:g} s: send it faster")

    @override
    def lineLengthExceeded(self, line: bytes) -> None:
        if self._in_headers:
            self.refuse(431, f"a line of the headers is too long: {self.MAX_LENGTH} bytes is the most")
        else:
            self.refuse(414, f"the path is too long: {self.MAX_LENGTH} bytes is the most")

    @override
    def _respondToBadRequestAndDisconnect(self) -> None:
        if self._receivedHeaderSize > self.totalHeadersSize:
            self.refuse(431, f"the headers are too large: {self.totalHeadersSize} bytes is the most")
        elif self._receivedHeaderCount > self.maxHeaders:
            self.refuse(431, f"there are too many headers: {self.maxHeaders} is the most")
        else:
            self.refuse(
                400, "this is not a valid HTTP/1.1 request: check its first line, its headers and its chunks"
            )

    def refuse(self, status: int, message: str) -> None:
        """Send an error at once, even if the request is incomplete, and close the connection."""
        if self._refused:
            return
        self._refused = True
        # What has come behind it is not read.
        self.clearLineBuffer()
        self._cancel_deadline()
        self.setTimeout(None)
        self.site.responses[status] += 1
        self._wire.write(raw_response(status, message))
        # If the socket were closed with bytes unread, the kernel would reset the connection, and the client could
        # not read the response.
        self._deadline = self.callLater(LINGER, self._close)

    def _close(self) -> None:
        self._deadline = self.callLater(LINGER, self._wire.abortConnection)
        self.loseConnection()

    # -- responding, one request at a time -------------------------------------------------------------------

    def respond_in_order(self, respond: Callable[[], None]) -> None:
        """Respond once the client has read the previous response and live streams leave time for it."""
        if self._waitingForTransport:
            self._blocked_response = respond
            self._deadline = self.callLater(self.site.settings.unread_timeout, self.abort)
        else:
            self.site.scheduler.run(lambda: self._respond_unless_lost(respond))

    def _respond_unless_lost(self, respond: Callable[[], None]) -> None:
        if not self._lost:
            respond()

    @override
    def resumeProducing(self) -> None:
        super().resumeProducing()
        respond, self._blocked_response = self._blocked_response, None
        if respond is not None:
            self._cancel_deadline()
            self.respond_in_order(respond)

    # -- closing ---------------------------------------------------------------------------------------------

    @override
    def timeoutConnection(self) -> None:
        # Twisted would log this, but an idle browser closing its connection is not worth a line.
        self.close_soon()

    def abort(self) -> None:
        """Close the connection at once, and drop what has not been sent."""
        self._wire.abortConnection()

    def close_soon(self) -> None:
        """Close the connection when the client has read everything, or after a second."""
        self._cancel_deadline()
        self._deadline = self.callLater(LINGER, self._wire.abortConnection)
        self.loseConnection()


class RelaySite(Site):
    """Makes a channel for each connection, up to a limit.

    Args:
        respond: Answers a request.
        unread: Counts what clients have not read yet.
        most_in_bodies: Bytes that the bodies of all requests together may have; 0 if no request needs one.
    """

    noisy = False
    requestFactory = RelayRequest  # type: ignore[assignment] # noqa: N815
    protocol = BoundedChannel  # type: ignore[assignment]

    def __init__(
        self,
        settings: HttpSettings,
        respond: Callable[[RelayRequest], Result],
        scheduler: HttpScheduler,
        clock: IReactorTime,
        refused_addresses: RefusedAddresses | None = None,
        guard: GuessGuard | None = None,
        unread: UnreadResponses | None = None,
        most_in_bodies: int = MOST_IN_BODIES,
    ) -> None:
        super().__init__(None, timeout=cast(Any, settings.keep_alive), reactor=clock)
        self.settings = settings
        self.respond = respond
        self.scheduler = scheduler
        self.clock = clock
        self.cors = CorsPolicy(settings.cors)
        #: Addresses that exceeded a limit for one address.
        self.refused_addresses = refused_addresses or RefusedAddresses(clock)
        self._guard = guard
        self.unread = unread or UnreadResponses()
        self.most_in_bodies = most_in_bodies
        #: Bytes of the bodies of all requests that are not answered yet.
        self.in_bodies = 0
        #: Says whether there are files for one more connection; None for no check.
        self.open_files: OpenFiles | None = None
        self._connections_by_address = AddressQuota(
            "max_http_connections_per_address",
            settings.max_http_connections_per_address,
            self.refused_addresses.note,
        )
        #: Tells the operator who was refused; None if nobody wants to know.
        self.refusals: RefusalReports | None = None
        #: Connections over the limit that are open.
        self.refused_connections = 0
        #: Responses so far, by status.
        self.responses: Counter[int] = Counter()
        self._channels: set[BoundedChannel] = set()
        self._stopping = False
        self._waiting_for_drain: list[Deferred[None]] = []

    @property
    def connections(self) -> int:
        return len(self._channels)

    @override
    def buildProtocol(self, addr: IAddress | None) -> Any:
        if self._stopping or len(self._channels) >= self.settings.max_http_connections:
            return RefusedHttpConnection(self)
        if self.open_files is not None and not self.open_files.has_room_for_http:
            return CutConnection()
        host = host_of(addr)
        if self._guard is not None and self._guard.is_banned(host):
            return CutConnection()
        if host in self.settings.trusted_proxies:
            return super().buildProtocol(addr)
        if self._connections_by_address.is_used_up(host):
            return RefusedHttpConnection(self)
        channel = super().buildProtocol(addr)
        if isinstance(channel, BoundedChannel):
            channel.leave_quota = self._connections_by_address.take(host)
        return channel

    @override
    def acceptableProtocols(self) -> list[bytes]:
        # Twisted's HTTP/2 would use channels of its own, without the limits of `BoundedChannel`.
        return [b"http/1.1"]

    # -- no access log: a client that polls every second would fill it, and query strings may contain keys -------

    @override
    def startFactory(self) -> None:
        self._stopping = False

    @override
    def stopFactory(self) -> None:
        """Does nothing: connections may still be open."""

    @override
    def log(self, request: Request) -> None:
        self.responses[request.code] += 1

    # -- open connections ------------------------------------------------------------------------------------

    def tell_refusal(self, peer: IAddress | None, reason: str) -> None:
        """Tell the operator that a client was refused before it asked for anything."""
        if self.refusals is not None:
            refusal = ConnectionRefused(peer=describe_address(peer), reason=reason, advice="")
            self.refusals.report(host_of(peer), refusal)

    def channel_opened(self, channel: BoundedChannel) -> None:
        self._channels.add(channel)

    def channel_closed(self, channel: BoundedChannel) -> None:
        self._channels.discard(channel)
        if not self._channels:
            waiting, self._waiting_for_drain = self._waiting_for_drain, []
            for drained in waiting:
                drained.callback(None)

    def shut_down(self) -> Deferred[None]:
        """Close all connections; fires when the last one is closed."""
        self._stopping = True
        self.scheduler.stop()
        if not self._channels:
            return succeed(None)
        drained: Deferred[None] = Deferred()
        self._waiting_for_drain.append(drained)
        for channel in list(self._channels):
            channel.close_soon()
        return drained
