"""One HTTP connection, with bounds on what a client may send and on the time it may take.

Twisted's own channel bounds the headers and the time between two reads. This one also bounds the time of a whole
request and the size of its body, answers in JSON what is refused, and takes pipelined requests one at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import RESPONSES, HTTPChannel
from typing_extensions import override

from rtmprelay.web.server.answers import error_json

if TYPE_CHECKING:
    from rtmprelay.web.server.site import RelaySite

#: Seconds for which a client that was refused may go on sending, so that it gets to read why.
LINGER = 1.0


def raw_answer(status: int, message: str) -> bytes:
    """A whole answer for a client whose request was not understood; the connection closes behind it."""
    body = error_json(status, message)
    reason = RESPONSES.get(status, b"Error")
    return (
        b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        b"Cache-Control: no-store\r\nConnection: close\r\n\r\n" % (status, reason, len(body))
    ) + body


class BoundedChannel(HTTPChannel):
    """An HTTP connection that cannot cost much."""

    maxHeaders = 100  # noqa: N815
    totalHeadersSize = 16_384  # noqa: N815
    abortTimeout = 5  # noqa: N815

    site: RelaySite

    def __init__(self) -> None:
        super().__init__()
        self._deadline: IDelayedCall | None = None
        self._refused = False
        self._gone = False
        # Whether the next line is a header, and not the first line of a request.
        self._in_headers = False
        # What has arrived and waits for its turn.
        self._arrived: list[bytes] = []
        # An answer that waits until the client has read the one before.
        self._waiting: Callable[[], None] | None = None

    @property
    def _wire(self) -> Any:
        return self.transport

    @override
    def connectionMade(self) -> None:
        super().connectionMade()
        self.site.channel_opened(self)

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._gone = True
        self._stop_clock()
        self._waiting = None
        super().connectionLost(reason)
        self.site.channel_closed(self)

    # -- what comes in ---------------------------------------------------------------------------------------

    @override
    def dataReceived(self, data: bytes) -> None:
        if self._refused:
            return
        if self._deadline is None and not self._handlingRequest:
            # The time runs from the first byte to the last: who sends one byte now and then gains nothing.
            self._deadline = self.callLater(self.site.settings.request_timeout, self._took_too_long)
        self._arrived.append(data)
        if len(self._arrived) == 1:
            self.site.turns.run(self._take_arrived)

    def _take_arrived(self) -> None:
        data = b"".join(self._arrived)
        self._arrived.clear()
        if not self._gone and not self._refused:
            super().dataReceived(data)

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
        self._stop_clock()
        if not self._refused:
            super().allContentReceived()

    def _stop_clock(self) -> None:
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None

    def _took_too_long(self) -> None:
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
            self.refuse(400, "this is no HTTP/1.1 request: check its first line, its headers and its chunks")

    def refuse(self, status: int, message: str) -> None:
        """Say no at once, whatever of the request has come, and close."""
        if self._refused:
            return
        self._refused = True
        self._stop_clock()
        self.setTimeout(None)
        self.site.responses[status] += 1
        self._wire.write(raw_answer(status, message))
        # Closed with bytes unread, the kernel would reset the connection and the client never read the answer.
        self._deadline = self.callLater(LINGER, self._close)

    def _close(self) -> None:
        self._deadline = self.callLater(LINGER, self._wire.abortConnection)
        self.loseConnection()

    # -- one at a time ---------------------------------------------------------------------------------------

    def in_turn(self, answer: Callable[[], None]) -> None:
        """Answer when it is time: not before the client has read what it got, and when live streams allow it."""
        if self._waitingForTransport:
            self._waiting = answer
            self._deadline = self.callLater(self.site.settings.unread_timeout, self.abort)
        else:
            self.site.turns.run(lambda: self._answer_unless_gone(answer))

    def _answer_unless_gone(self, answer: Callable[[], None]) -> None:
        if not self._gone:
            answer()

    @override
    def resumeProducing(self) -> None:
        super().resumeProducing()
        answer, self._waiting = self._waiting, None
        if answer is not None:
            self._stop_clock()
            self.in_turn(answer)

    # -- the end ---------------------------------------------------------------------------------------------

    @override
    def timeoutConnection(self) -> None:
        # Without Twisted's line in the log: a browser that goes to sleep is no news.
        self.close_soon()

    def abort(self) -> None:
        """Cut it off."""
        self._wire.abortConnection()

    def close_soon(self) -> None:
        """Close when what was written has been taken, or after a while."""
        self._stop_clock()
        self._deadline = self.callLater(LINGER, self._wire.abortConnection)
        self.loseConnection()
