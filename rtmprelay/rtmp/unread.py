"""Leaves the socket of a client unread while the answer to its `connect` or `publish` is awaited.

The client may send media at once. It waits in the kernel then, costs nothing here, and is all there if the answer is yes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rtmprelay.rtmp.publishing import Publishing
    from rtmprelay.rtmp.server import RtmpServerProtocol


class UnreadSocket:
    """What comes nevertheless is held by the session, within its bounds."""

    __slots__ = ("_connection", "_publishing", "_transport")

    def __init__(self, connection: RtmpServerProtocol, publishing: Publishing) -> None:
        self._connection = connection
        self._publishing = publishing
        # The transport, while it is not read.
        self._transport: Any = None

    def leave(self, request_id: int) -> None:
        """Do not read while this request is awaited. A connection that publishes already is read on."""
        connection = self._connection
        awaited = connection.session.requests.awaited == request_id
        if awaited and not self._publishing.publications and self._transport is None:
            self._transport = connection.transport
            self._transport.pauseProducing()

    def read_again(self) -> None:
        """A request has been answered. What is held is read now, unless `dataReceived` is about to do that."""
        connection = self._connection
        transport, self._transport = self._transport, None
        if transport is None or connection.is_closing:
            return
        if connection.session.has_held_data:
            connection.dataReceived(b"")
        if not connection.is_closing:
            transport.resumeProducing()
