"""Asks all authorizers; whoever does not answer in time, or fails, has said no."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import cast

from twisted.internet.defer import CancelledError, Deferred, TimeoutError, maybeDeferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from rtmprelay.access.request import ALLOWED, CANNOT_TELL, AccessRequest, Verdict
from rtmprelay.interfaces import IStreamAuthorizer, IUserDirectory

#: Seconds for which an answer is waited for: encoders give up after 10 to 30.
ANSWER_TIMEOUT = 8.0


class Gate:
    """What stands between a wish and its fulfilment. All authorizers must allow it; without any, everything is."""

    _log = Logger()

    def __init__(
        self, authorizers: Sequence[IStreamAuthorizer], clock: IReactorTime, timeout: float = ANSWER_TIMEOUT
    ) -> None:
        self._authorizers = tuple(authorizers)
        #: Those of them that know users and their passwords.
        self.directories = tuple(one for one in authorizers if IUserDirectory.providedBy(one))
        self._clock = clock
        self._timeout = timeout

    @property
    def is_open(self) -> bool:
        """Whether everybody is let through unasked."""
        return not self._authorizers

    def ask(self, request: AccessRequest) -> Deferred[Verdict]:
        """Whether this is allowed. Never fails; cancelling it stops the asking."""
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
        # It may answer at once or later; the types of Twisted know only one or the other.
        authorize = cast(Callable[[AccessRequest], Verdict], authorizer.authorize)
        answer = maybeDeferred(authorize, request)
        answer.addTimeout(self._timeout, self._clock)
        who = type(authorizer).__name__
        return answer.addCallback(self._checked).addErrback(self._failed, who)

    @staticmethod
    def _checked(verdict: Verdict) -> Verdict:
        if not isinstance(verdict, Verdict):
            raise TypeError(f"an authorizer answered with {type(verdict).__name__} instead of a Verdict")
        return verdict

    def _failed(self, failure: Failure, who: str) -> Verdict:
        """An authorizer that cannot tell lets nobody in."""
        if failure.check(TimeoutError):
            self._log.error(
                "The authorizer {who} did not answer within {seconds:g} s", who=who, seconds=self._timeout
            )
        elif not failure.check(CancelledError):
            # Not the text of the error, nor what else the failure knows: whatever it was given may be in there.
            self._log.error(
                "The authorizer {who} failed: {error} in {place}",
                who=who,
                error=failure.type.__name__ if failure.type is not None else "an error",
                place=_place(failure),
            )
        return CANNOT_TELL


def _place(failure: Failure) -> str:
    """Where in the code it happened."""
    frames = traceback.extract_tb(failure.getTracebackObject())
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else "an unknown place"
