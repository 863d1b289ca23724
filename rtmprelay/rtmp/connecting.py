"""The beginning of a server's connection: the login, if one is required, and the answer to `connect`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from rtmprelay import events
from rtmprelay.rtmp.node_pass import NodePass, NodeRefusedError, OwnStreamError
from rtmprelay.session.adobe import LoginAccepted, LoginRefused
from rtmprelay.session.reports import ConnectRequested
from rtmprelay.wire.commands import StatusCode

if TYPE_CHECKING:
    from rtmprelay.rtmp.server import RtmpServerProtocol


class Connecting:
    """Answers the `connect` of one client.

    Attributes:
        user: The user whose password the `connect` has proved.
        can_reconnect: Whether the client understands a request to connect anew.
    """

    __slots__ = ("_check", "_connection", "_node", "can_reconnect", "user")

    def __init__(self, connection: RtmpServerProtocol) -> None:
        self.user: str | None = None
        self.can_reconnect = False
        self._node: NodePass | None = None
        self._connection = connection
        self._check: Deferred[None] | None = None

    def requested(self, request: ConnectRequested, now: float) -> None:
        """Check the login, and answer at once or later. Until then nothing else that the client sends is read."""
        connection = self._connection
        self.can_reconnect = request.can_reconnect
        if request.node_pass:
            try:
                self._node = connection.factory.node.check(request.node_pass)
            except NodeRefusedError as refused:
                # The destination that tried it says so, in one line.
                is_told = not isinstance(refused, OwnStreamError)
                self._refuse(request, str(refused), str(refused), is_told)
                return
        if self._node is not None and self._node.notice:
            self._take_notice(request, self._node)
            return
        if self.is_cluster_node:
            self._accept(request, None)
            return
        logins = connection.factory.logins
        check = logins.check(connection.client_host, request.app, request.credentials, now)
        self._check = check.addCallback(self._checked, request).addErrback(connection.handling_failed)
        connection.unread.pause_for(request.request_id)

    @property
    def is_cluster_node(self) -> bool:
        return self._node is not None and self._node.is_proved

    @property
    def chain(self) -> tuple[str, ...]:
        """The nodes that a request of the client has come through."""
        return () if self._node is None else self._node.chain

    def _take_notice(self, request: ConnectRequested, node: NodePass) -> None:
        """Another node sends a notice or a question: accepting its `connect` means yes."""
        connection = self._connection

        def answered(refusal: str | None) -> None:
            if connection.is_closing:
                return
            if refusal is None:
                connection.session.accept(request.request_id)
            else:
                connection.session.reject(request.request_id, StatusCode.CONNECT_REJECTED, refusal)
            connection.goodbye.close_soon("a notice of another node")
            connection.flush()

        connection.factory.take_notice(node).addCallback(answered).addErrback(connection.handling_failed)

    def cancel(self) -> None:
        """The client is gone."""
        if self._check is not None:
            self._check.cancel()

    def _checked(self, login: LoginAccepted | LoginRefused | None, request: ConnectRequested) -> None:
        connection = self._connection
        if connection.is_closing:
            return
        if isinstance(login, LoginRefused):
            reason = "the user or the password is wrong" if login.wrong else "it was asked for a user"
            self._refuse(request, login.description, reason, is_reported=login.wrong)
        else:
            self._accept(request, login)
        connection.flush()
        connection.unread.resume()

    def _accept(self, request: ConnectRequested, login: LoginAccepted | None) -> None:
        connection = self._connection
        if login is not None:
            self.user = login.user
        connection.session.accept(request.request_id)
        connection.factory.has_connected(connection)
        connection.emit(
            events.ClientConnected(
                connection=connection.connection_id,
                peer=connection.peer,
                app=request.app,
                client=request.client,
            )
        )

    def _refuse(
        self, request: ConnectRequested, description: str, reason: str, is_reported: bool = True
    ) -> None:
        connection = self._connection
        connection.session.reject(request.request_id, StatusCode.CONNECT_REJECTED, description)
        if is_reported:
            connection.report_refusal(
                events.ConnectRefused(
                    connection=connection.connection_id,
                    peer=connection.peer,
                    app=request.app,
                    reason=reason,
                )
            )
        connection.goodbye.close_soon(reason)
