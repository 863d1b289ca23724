"""The beginning of a server's connection: the login, if one is wanted, and the answer to `connect`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from rtmprelay import events
from rtmprelay.session.adobe import LoginAccepted, LoginRefused
from rtmprelay.session.reports import ConnectRequested
from rtmprelay.wire.commands import StatusCode

if TYPE_CHECKING:
    from rtmprelay.rtmp.server import RtmpServerProtocol


class Connecting:
    """Answers the `connect` of one client.

    Attributes:
        user: The user whose password the `connect` has proved.
    """

    def __init__(self, connection: RtmpServerProtocol) -> None:
        self.user: str | None = None
        self._connection = connection
        self._check: Deferred[None] | None = None

    def requested(self, request: ConnectRequested, now: float) -> None:
        """Check the login, and answer at once or later: nothing else of the client is read meanwhile."""
        connection = self._connection
        logins = connection.factory.logins
        check = logins.check(connection.client_host, request.app, request.credentials, now)
        self._check = check.addCallback(self._checked, request).addErrback(connection.handling_failed)
        connection.unread.leave(request.request_id)

    def cancel(self) -> None:
        """The client is gone."""
        if self._check is not None:
            self._check.cancel()

    def _checked(self, login: LoginAccepted | LoginRefused | None, request: ConnectRequested) -> None:
        connection = self._connection
        if connection.is_closing:
            return
        if isinstance(login, LoginRefused):
            self._refuse(request, login)
        else:
            self._accept(request, login)
        connection.flush()
        connection.unread.read_again()

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

    def _refuse(self, request: ConnectRequested, login: LoginRefused) -> None:
        connection = self._connection
        connection.session.reject(request.request_id, StatusCode.CONNECT_REJECTED, login.description)
        reason = "the user or the password is wrong" if login.wrong else "it was asked for a user"
        if login.wrong:
            connection.report_refusal(
                events.ConnectRefused(
                    connection=connection.connection_id,
                    peer=connection.peer,
                    app=request.app,
                    reason=reason,
                )
            )
        connection.close_soon(reason)
