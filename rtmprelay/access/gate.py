"""The gate asks every authorizer. One that fails or does not answer in time refuses the request."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

from twisted.internet.defer import CancelledError, Deferred, TimeoutError, maybeDeferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from rtmprelay.access.guessing import GuessGuard
from rtmprelay.access.request import (
    ALLOWED,
    CANNOT_TELL,
    TOO_MANY_WRONG,
    AccessRequest,
    Action,
    Verdict,
    refused,
)
from rtmprelay.interfaces import IStreamAuthorizer, IStreamPlacement, IUserDirectory

#: Seconds that an authorizer has to answer: encoders give up after 10 to 30.
ANSWER_TIMEOUT = 8.0


class Gate:
    """Decides about requests to publish and play: all authorizers must allow a request. Without authorizers everything
    is allowed.

    Attributes:
        placement: Asked last: it fetches a stream that is not here.
    """

    _log = Logger()

    def __init__(
        self,
        authorizers: Sequence[IStreamAuthorizer],
        clock: IReactorTime,
        timeout: float = ANSWER_TIMEOUT,
        guard: GuessGuard | None = None,
    ) -> None:
        """Args:
        guard: Makes guessing slow; None for no delay.
        """
        self._authorizers = tuple(authorizers)
        self.placement: IStreamPlacement | None = None
        #: Why nobody may begin to publish or play, except for other nodes; None while the relay is open.
        self.closed_because: str | None = None
        #: The authorizers that know users and their passwords.
        self.directories = tuple(one for one in authorizers if IUserDirectory.providedBy(one))
        self._clock = clock
        self._timeout = timeout
        #: Also used for credentials that no authorizer sees, such as those of RTMP's login.
        self.guard = guard

    @property
    def is_open(self) -> bool:
        """Whether everything is allowed at once: there are no authorizers, and no stream is fetched."""
        return (
            not self._authorizers
            and self.closed_because is None
            and (self.placement is None or not self.placement.is_active)
        )

    def ask(self, request: AccessRequest) -> Deferred[Verdict]:
        """Fires with the verdict and never fails. Cancelling it cancels the authorizer that is being asked."""
        if self.is_open:
            return succeed(ALLOWED)
        return Deferred.fromCoroutine(self._ask_all(request)).addErrback(self._failed, "gate")

    def ask_again(self, request: AccessRequest) -> Deferred[Verdict]:
        """Ask the authorizers about a client that is already in: nothing is delayed, and no stream is fetched."""
        if _is_vouched_for(request):
            return succeed(ALLOWED)
        return Deferred.fromCoroutine(self._authorize(request))

    async def _ask_all(self, request: AccessRequest) -> Verdict:
        if not _is_vouched_for(request):
            if self.closed_because is not None:
                return refused(self.closed_because)
            verdict = await self._check_credentials(request)
            if not verdict.allowed:
                return verdict
        if self.placement is not None and self.placement.is_active:
            return await self._placed(self.placement, request)
        return ALLOWED

    async def _check_credentials(self, request: AccessRequest) -> Verdict:
        """Ask the authorizers; wrong credentials are refused late."""
        if self.guard is None or not self._authorizers:
            return await self._authorize(request)
        return await self.guard.check(
            request.host,
            lambda: self._authorize(request),
            lambda verdict: _is_wrong(request, verdict),
            TOO_MANY_WRONG,
        )

    async def _authorize(self, request: AccessRequest) -> Verdict:
        for authorizer in self._authorizers:
            verdict = await self._ask_one(authorizer, request)
            if not verdict.allowed:
                return verdict
        return ALLOWED

    async def _placed(self, placement: IStreamPlacement, request: AccessRequest) -> Verdict:
        try:
            return await placement.place(request)
        except CancelledError:
            return CANNOT_TELL
        except Exception:
            self._log.failure("A bug in finding {stream}", stream=request.stream)
            return CANNOT_TELL

    def _ask_one(self, authorizer: IStreamAuthorizer, request: AccessRequest) -> Deferred[Verdict]:
        answer = maybeDeferred(authorizer.authorize, request)
        answer.addTimeout(self._timeout, self._clock)
        return answer.addCallback(_checked).addErrback(self._failed, type(authorizer).__name__)

    def _failed(self, failure: Failure, authorizer: str) -> Verdict:
        """Log why there is no verdict, and refuse."""
        if failure.check(TimeoutError):
            self._log.error(
                "The authorizer {who} did not answer within {seconds:g} s",
                who=authorizer,
                seconds=self._timeout,
            )
        elif not failure.check(CancelledError):
            # Neither the error's text nor its variables: they may contain the client's credentials.
            self._log.error(
                "The authorizer {who} failed: {error} in {place}",
                who=authorizer,
                error=failure.type.__name__ if failure.type is not None else "an error",
                place=_place(failure),
            )
        return CANNOT_TELL


def _is_vouched_for(request: AccessRequest) -> bool:
    """A node that plays has asked its own authorizers; nodes do not publish to each other."""
    return request.is_cluster_node and request.action is Action.PLAY


def _is_wrong(request: AccessRequest, verdict: Verdict) -> bool:
    """Whether the client sent credentials, and they were wrong."""
    return not verdict.allowed and verdict != CANNOT_TELL and not request.credentials.are_missing


def _checked(answer: object) -> Verdict:
    """Plugins are not type-checked: a truthy answer that is no verdict must not let anybody in."""
    if not isinstance(answer, Verdict):
        raise TypeError(f"an authorizer answered with {type(answer).__name__} instead of a Verdict")
    return answer


def _place(failure: Failure) -> str:
    """The file and line that raised the error."""
    frames = traceback.extract_tb(failure.getTracebackObject())
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else "an unknown place"
