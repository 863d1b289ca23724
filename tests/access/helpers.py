"""Access requests and authorizers for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from zope.interface import implementer

from rtmprelay.access.request import ALLOWED, AccessRequest, Action, Credentials, Verdict
from rtmprelay.interfaces import IStreamAuthorizer, IUserDirectory
from rtmprelay.secret import Secret


def access_request(
    action: Action = Action.PUBLISH,
    stream: str = "live/test",
    query: str = "",
    user: str | None = None,
    host: str = "192.0.2.1",
    protocol: str = "rtmp",
) -> AccessRequest:
    """A request with defaults for what a test does not care about."""
    return AccessRequest(
        action=action,
        stream=stream,
        host=host,
        connection="c000001",
        protocol=protocol,
        credentials=Credentials(Secret(query), user),
    )


@implementer(IStreamAuthorizer)
class Answering:
    """An authorizer that answers at once, with a verdict or with what a function returns."""

    def __init__(self, answer: Any = ALLOWED) -> None:
        self.answer = answer
        self.asked: list[AccessRequest] = []

    def authorize(self, request: AccessRequest) -> Any:
        self.asked.append(request)
        return self.answer() if callable(self.answer) else self.answer


@implementer(IStreamAuthorizer)
class Hesitating:
    """An authorizer that answers when a test calls `say`."""

    def __init__(self) -> None:
        self.asked: list[AccessRequest] = []
        self.answers: list[Deferred[Verdict]] = []
        self.cancelled = 0

    def authorize(self, request: AccessRequest) -> Deferred[Verdict]:
        self.asked.append(request)

        def cancel(_: Deferred[Verdict]) -> None:
            self.cancelled += 1

        self.answers.append(Deferred(cancel))
        return self.answers[-1]

    def say(self, verdict: Verdict) -> None:
        """Answer the oldest request."""
        self.answers.pop(0).callback(verdict)


@implementer(IStreamAuthorizer, IUserDirectory)
class Users:
    """An authorizer that allows its users everything. Some applications ask for a login."""

    def __init__(self, apps: tuple[str, ...] = ("studio",), **passwords: str) -> None:
        self._apps = apps
        self._passwords = passwords
        self.asked: list[AccessRequest] = []

    def wants_user(self, app: str) -> bool:
        return app in self._apps

    def password_of(self, user: str) -> Secret | None:
        return Secret(self._passwords[user]) if user in self._passwords else None

    def authorize(self, request: AccessRequest) -> Verdict:
        self.asked.append(request)
        return Verdict(request.credentials.user is not None, "no user")


def fired(deferred: Deferred[Any]) -> list[Any]:
    """A list that gets the result, at once or later."""
    results: list[Any] = []
    deferred.addCallback(results.append)
    return results


def raising(error: Exception) -> Callable[[], Any]:
    """A function that raises an error."""

    def fail() -> Any:
        raise error

    return fail
