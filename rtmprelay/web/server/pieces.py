"""A response whose body is made piece by piece, as fast as the client reads it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IPushProducer
from zope.interface import implementer

from rtmprelay.web.server.request import RelayRequest
from rtmprelay.web.server.responses import Headers

#: Makes the next piece; None after the last one.
NextPiece = Callable[[], Awaitable[bytes | None]]


@implementer(IPushProducer)
class PieceSender:
    """Sends pieces until there are no more. No piece is made while the client has not read those before.

    A client that reads nothing for `unread_timeout` seconds is disconnected, and so is one whose response cannot be
    completed: it must not take a part for the whole.
    """

    def __init__(self, request: RelayRequest, next_piece: NextPiece) -> None:
        self._request = request
        self._next_piece = next_piece
        self._unread: Callable[[], None] | None = None
        self._size = 0
        self._ready: Deferred[None] | None = None
        self._timer: IDelayedCall | None = None
        self._is_over = False

    async def send(self, content_type: bytes, headers: Headers = ()) -> None:
        """Send the headers and all pieces.

        Raises:
            HttpError: Too much waits to be read already.
            Exception: What `next_piece` raised for the first piece; nothing was sent then.
        """
        request = self._request
        request.site.unread.check(request.client_host)
        request.notifyFinish().addBoth(lambda _: self._stop())
        piece = await self._next_piece()
        if self._is_over:
            return
        # While the piece was made, others may have stopped reading.
        request.site.unread.check(request.client_host, len(piece or b""))
        for name, value in ((b"Content-Type", content_type), *headers):
            request.setHeader(name, value)
        request.site.cors.allow_reading(request)
        if request.method == b"HEAD":
            request.write(b"")
            request.finish()
            return
        request.registerProducer(self, True)
        try:
            while piece is not None and not self._is_over:
                self._size = len(piece)
                request.write(piece)
                # The transport has it.
                piece = None
                if self._ready is not None:
                    await self._ready
                piece = None if self._is_over else await self._next_piece()
        except Exception:
            request.channel.abort()
            return
        if not self._is_over:
            request.unregisterProducer()
            request.finish()

    # -- the transport ---------------------------------------------------------------------------------------

    def pauseProducing(self) -> None:
        """The client has not read what was sent."""
        if self._ready is None:
            self._ready = Deferred()
            site = self._request.site
            self._unread = site.unread.add(self._request.client_host, self._size)
            self._timer = site.clock.callLater(site.settings.unread_timeout, self._request.channel.abort)

    def resumeProducing(self) -> None:
        """The client has read it."""
        ready, self._ready = self._ready, None
        unread, self._unread = self._unread, None
        if unread is not None:
            unread()
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        if ready is not None:
            ready.callback(None)

    def stopProducing(self) -> None:
        """The connection is gone."""
        self._stop()

    def _stop(self) -> None:
        self._is_over = True
        self.resumeProducing()
