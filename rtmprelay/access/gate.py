"""The gate asks every authorizer. One that fails or does not answer in time refuses the request."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

from twisted.internet.defer import CancelledError, Deferred, TimeoutError, maybeDeferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from rtmprelay.access.guessing import GuessGuard
from rtmprelay.access.request import ALLOWED, CANNOT_TELL, TOO_MANY_WRONG, AccessRequest, Verdict
from rtmprelay.interfaces import IStreamAuthorizer, IUserDirectory

#: Seconds that an authorizer has to answer: encoders give up after 10 to 30.
ANSWER_TIMEOUT = 8.0


class Gate:
    """Decides about requests to publish and play: all authorizers must allow a request. Without authorizers everything
    is allowed.
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
        #: The authorizers that know users and their passwords.
        self.directories = tuple(one for one in authorizers if IUserDirectory.providedBy(one))
        self._clock = clock
        self._timeout = timeout
        #: Also checks the credentials that are no matter of the authorizers, such as the login.
        self.guard = guard

    @property
    def is_open(self) -> bool:
        """Whether everything is allowed because there are no authorizers."""
        return not self._authorizers

    def ask(self, request: AccessRequest) -> Deferred[Verdict]:
        """Fires with the verdict and never fails. Cancelling it cancels the authorizer that is being asked."""
        if self.is_open:
            return succeed(ALLOWED)
        if self.guard is None:
            return Deferred.fromCoroutine(self._ask_all(request))
        return Deferred.fromCoroutine(
            self.guard.check(
                request.host,
                lambda: self._ask_all(request),
                lambda verdict: _is_wrong(request, verdict),
                TOO_MANY_WRONG,
            )
        ).addErrback(self._failed, "guard")

    def ask_again(self, request: AccessRequest) -> Deferred[Verdict]:
        """Like `ask`, about somebody who was allowed before: that is no guess."""
        if self.is_open:
            return succeed(ALLOWED)
        return Deferred.fromCoroutine(self._ask_all(request))

    async def _ask_all(self, request: AccessRequest) -> Verdict:
        for authorizer in self._authorizers:
            verdict = await self._ask_one(authorizer, request)
            if not verdict.allowed:
                return verdict
        return ALLOWED

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


def _is_wrong(request: AccessRequest, verdict: Verdict) -> bool:
    """Whether a client brought something, and it was not the right thing."""
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
