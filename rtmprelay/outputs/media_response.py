"""The body of an HTTP answer that goes on for as long as a stream is live."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer, ITCPTransport

from rtmprelay.rtmp.transport_buffers import DirectWriter, Writable
from rtmprelay.web.server.request import RelayRequest
from rtmprelay.web.server.responses import HttpError


def chunk(*parts: bytes | memoryview) -> bytes:
    """Some bytes as one chunk of HTTP/1.1."""
    return b"".join((b"%x\r\n" % sum(map(len, parts)), *parts, b"\r\n"))


class MediaResponse:
    """Writes media to a client, past the request's own buffering: frames are handed to the kernel at once.

    With HTTP/1.1 the body comes in chunks, and ends without closing the connection; an older client is told the end
    by closing.
    """

    def __init__(self, request: RelayRequest) -> None:
        self._request = request
        self._transport: Any = request.channel.transport
        self.is_chunked: bool = request.clientproto == b"HTTP/1.1"
        #: Counts what was written of the body, with what HTTP puts around it.
        self.writer = DirectWriter(cast(Writable, self._transport))
        self._is_over = False

    def when_over(self) -> Deferred[None]:
        """Fires when the answer has been sent, and fails when the client went before."""
        over: Deferred[None] = self._request.notifyFinish()
        return over

    def register(self, producer: IPushProducer) -> None:
        """Tell this one when the client takes no more, and when it does again."""
        if ITCPTransport.providedBy(self._transport):
            with suppress(OSError):
                # A frame must not wait for Nagle's algorithm.
                self._transport.setTcpNoDelay(True)
        self._request.registerProducer(producer, True)

    def begin(self, content_type: bytes) -> None:
        """Send the headers."""
        write_headers(self._request, content_type)

    def write_parts(self, *parts: bytes | memoryview) -> None:
        """Send bytes."""
        self.writer.write(chunk(*parts) if self.is_chunked else b"".join(parts))

    def refuse(self, error: HttpError) -> None:
        """Answer that there will be no media; for an answer that has not begun."""
        if self._end():
            self._request.send(error.response())

    def finish(self) -> None:
        """The media is over."""
        if self._end():
            self._request.finish()

    def abort(self) -> None:
        """Cut the client off."""
        if self._end():
            self._transport.abortConnection()

    def _end(self) -> bool:
        """Whether the answer was still open until now."""
        if self._is_over or self._request.finished or self._request._disconnected:
            return False
        self._is_over = True
        self._request.unregisterProducer()
        return True


def write_headers(request: RelayRequest, content_type: bytes) -> None:
    """Send the headers of live media."""
    request.setHeader(b"Content-Type", content_type)
    request.setHeader(b"Cache-Control", b"no-store")
    # There is no way back in a live stream, so players need not try.
    request.setHeader(b"Accept-Ranges", b"none")
    # Else nginx would collect media before it passes it on.
    request.setHeader(b"X-Accel-Buffering", b"no")
    request.site.cors.allow_reading(request)
    request.write(b"")
