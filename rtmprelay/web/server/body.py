"""A large body that many clients get at the same time: each one's connection holds only a small piece of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.interfaces import IDelayedCall, IPushProducer
from zope.interface import implementer

if TYPE_CHECKING:
    from rtmprelay.web.server.request import RelayRequest

#: Bodies up to this size are written at once.
LARGE = 128 * 1024

#: Bytes that are written at a time; a transport is full at this size.
_PIECE = 65_536


@implementer(IPushProducer)
class BodySender:
    """Sends a body as fast as its client reads, and gives up on a client that does not read."""

    def __init__(self, request: RelayRequest, body: bytes) -> None:
        self._request = request
        self._body = memoryview(body)
        self._at = 0
        self._is_paused = False
        self._timer: IDelayedCall | None = None

    def start(self) -> None:
        self._request.registerProducer(self, True)
        self.resumeProducing()

    def resumeProducing(self) -> None:
        """The client has read what was sent."""
        self._is_paused = False
        self._cancel_timer()
        while not self._is_paused and self._at < len(self._body):
            piece = bytes(self._body[self._at : self._at + _PIECE])
            self._at += len(piece)
            self._request.write(piece)
        if self._at >= len(self._body) and len(self._body):
            self._body = self._body[:0]
            self._at = 0
            self._cancel_timer()
            self._request.unregisterProducer()
            self._request.finish()

    def pauseProducing(self) -> None:
        """The transport is full."""
        self._is_paused = True
        if self._timer is None:
            channel = self._request.channel
            self._timer = channel.callLater(channel.site.settings.unread_timeout, self._give_up)

    def stopProducing(self) -> None:
        """The connection is gone."""
        self._is_paused = True
        self._cancel_timer()

    def _give_up(self) -> None:
        self._timer = None
        self._request.channel.abort()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
