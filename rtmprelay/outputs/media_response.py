"""The body of an HTTP response that goes on for as long as a stream is live."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer, ITCPTransport

from rtmprelay.rtmp.transport_buffers import DirectWriter, Writable
from rtmprelay.web.server.request import RelayRequest
from rtmprelay.web.server.responses import HttpError

#: Parts are joined up to this size: one write costs more than the copy.
_LARGE = 65536


def chunk(*parts: bytes | memoryview) -> bytes:
    """The parts as one chunk of HTTP/1.1."""
    return b"".join((b"%x\r\n" % sum(map(len, parts)), *parts, b"\r\n"))


class MediaResponse:
    """Writes media to a client, past the request's own buffer, so that frames reach the kernel at once.

    With HTTP/1.1 the body is sent in chunks, and the connection stays open after it; for an older client, closing the
    connection ends the body.
    """

    def __init__(self, request: RelayRequest) -> None:
        self._request = request
        self._transport: Any = request.channel.transport
        self.is_chunked: bool = request.clientproto == b"HTTP/1.1"
        self.peer: str = request.peer
        #: Counts the bytes of the body, with the chunk sizes around them.
        self.writer = DirectWriter(cast(Writable, self._transport))
        self._is_over = False

    def when_over(self) -> Deferred[None]:
        """Fires when the response has been sent, and fails if the client closes the connection first."""
        over: Deferred[None] = self._request.notifyFinish()
        return over

    def register(self, producer: IPushProducer) -> None:
        """Pause and resume this producer as the transport fills and empties."""
        if ITCPTransport.providedBy(self._transport):
            # A frame must not wait for Nagle's algorithm.
            with suppress(OSError):
                self._transport.setTcpNoDelay(True)
        self._request.registerProducer(producer, True)

    def begin(self, content_type: bytes) -> None:
        write_headers(self._request, content_type)

    def write_parts(self, *parts: bytes | memoryview) -> None:
        size = sum(map(len, parts))
        if size <= _LARGE:
            self.writer.write(chunk(*parts) if self.is_chunked else b"".join(parts))
            return
        # Joined, a large fragment would be copied for each viewer.
        if self.is_chunked:
            parts = (b"%x\r\n" % size, *parts, b"\r\n")
        for part in parts:
            self.writer.write(part)

    def refuse(self, error: HttpError) -> None:
        """Send an error instead of media. The headers must not have been sent."""
        if self._end():
            self._request.send(error.response())

    def finish(self) -> None:
        if self._end():
            self.writer.finish()
            self._request.finish()

    def abort(self) -> None:
        """Close the connection without a proper end, so that the client sees that something is missing."""
        if self._end():
            self._transport.abortConnection()

    def _end(self) -> bool:
        """Whether the response was open until this call."""
        if self._is_over or self._request.finished or self._request._disconnected:
            return False
        self._is_over = True
        self._request.unregisterProducer()
        return True


def write_headers(request: RelayRequest, content_type: bytes) -> None:
    request.setHeader(b"Content-Type", content_type)
    request.setHeader(b"Cache-Control", b"no-store")
    # A live stream cannot be sought in, so players need not try.
    request.setHeader(b"Accept-Ranges", b"none")
    # Without this nginx collects media before it passes it on.
    request.setHeader(b"X-Accel-Buffering", b"no")
    request.site.cors.allow_reading(request)
    request.write(b"")
