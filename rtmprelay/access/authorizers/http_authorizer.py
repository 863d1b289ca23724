"""`http`: another server says who may publish and play."""

from __future__ import annotations

import json
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.client import ResponseNeverReceived
from typing_extensions import override
from zope.interface import implementer

from rtmprelay.access.authorizers.slow_checks import AnswerCache, ConcurrencyLimiter, TooBusyError
from rtmprelay.access.gate import ANSWER_TIMEOUT
from rtmprelay.access.request import ALLOWED, CANNOT_TELL, AccessRequest, Verdict, refused
from rtmprelay.http_client.poster import HttpPoster, describe_failure, read_address
from rtmprelay.interfaces import IStreamAuthorizer
from rtmprelay.throttle import Throttle

#: Seconds for which an answer is waited for, and for which it is remembered, unless options say otherwise.
DEFAULT_TIMEOUT = 3.0
DEFAULT_CACHE = 10.0

#: Behind this the gate has given up.
_LONGEST_TIMEOUT = ANSWER_TIMEOUT - 1
_LONGEST_CACHE = 3600.0

#: Questions at the same time; those that wait, in all and of one host.
_AT_ONCE = 16
_MOST_WAITING = 512
_MOST_FOR_HOST = 256

#: Answers that are remembered.
_MOST_ANSWERS = 10_000

#: Seconds between two lines about a server that does not answer.
_REPORT_INTERVAL = 10.0

#: Of all 4xx, these two say nothing about who asks.
_NOT_NOW = (408, 429)

_REFUSED = refused("the server that was asked does not allow it")


@implementer(IStreamAuthorizer)
class HttpAuthorizer(Service):
    """Asks another server: 2xx allows, 4xx refuses, and whatever else comes lets nobody in."""

    _log = Logger()

    def __init__(self, poster: HttpPoster, clock: IReactorTime, timeout: float, cache: float) -> None:
        self._poster = poster
        self._clock = clock
        self._timeout = timeout
        self._turns = ConcurrencyLimiter(_AT_ONCE, _MOST_WAITING, _MOST_FOR_HOST)
        self._answers: AnswerCache[Verdict] = AnswerCache(_MOST_ANSWERS, cache, clock.seconds)
        self._throttle = Throttle(clock, _REPORT_INTERVAL)

    @override
    def stopService(self) -> Deferred[None]:
        super().stopService()
        return self._poster.close()

    def authorize(self, request: AccessRequest) -> Verdict | Deferred[Verdict]:
        """What the server says, now or a little while ago."""
        credentials = request.credentials
        subject = (
            request.action.value,
            request.stream,
            request.app,
            request.host,
            request.protocol,
            json.dumps(credentials.user),
            credentials.as_query().reveal(),
        )
        known = self._answers.get(*subject)
        return known or Deferred.fromCoroutine(self._ask(request, subject))

    async def _ask(self, request: AccessRequest, subject: tuple[str, ...]) -> Verdict:
        body = question(request)
        try:
            status = await self._turns.run(request.host, lambda: self._post(body))
        except TooBusyError:
            self._tell("too many questions wait for its answer")
            return CANNOT_TELL
        except CancelledError:
            raise
        except TimeoutError:
            self._tell(f"it did not answer within {self._timeout:g} s")
            return CANNOT_TELL
        except Exception:
            self._tell(describe_failure(Failure()))
            return CANNOT_TELL
        if 200 <= status < 300:
            verdict = ALLOWED
        elif 400 <= status < 500 and status not in _NOT_NOW:
            verdict = _REFUSED
        else:
            self._tell(f"it answered with status {status}")
            return CANNOT_TELL
        self._answers.put(verdict, *subject)
        return verdict

    def _post(self, body: bytes) -> Deferred[int]:
        posting = Deferred.fromCoroutine(self._post_twice(body))
        return posting.addTimeout(self._timeout, self._clock)

    async def _post_twice(self, body: bytes) -> int:
        try:
            return await self._poster.post(body)
        except ResponseNeverReceived:
            # The server may have closed a connection that was kept in this very moment.
            return await self._poster.post(body)

    def _tell(self, reason: str) -> None:
        """Say that the server is of no use now; not for each client anew."""
        count = self._throttle.count()
        if count:
            self._log.error(
                "{url} does not say who may publish and play: {reason} ({others} others were refused before for such reasons)",
                url=self._poster.shown,
                reason=reason,
                others=count - 1,
            )


def question(request: AccessRequest) -> bytes:
    """What the server is asked. It holds what the client brought along: it goes nowhere else."""
    parameters = request.credentials.parameters()
    fields = {
        "action": request.action.value,
        "stream": request.stream,
        "app": request.app,
        "name": request.name,
        "host": request.host,
        "connection": request.connection,
        "protocol": request.protocol,
        "user": request.credentials.user,
        "parameters": {name: value.reveal() for name, value in parameters.items()},
    }
    return json.dumps(fields, separators=(",", ":")).encode("ascii")


def make_http_authorizer(argument: str, reactor: Any) -> HttpAuthorizer:
    """The authorizer for `URL[#timeout=3&cache=10&token-file=PATH&ca-file=PATH]`."""
    address, options = read_address(argument, {"cache"})
    timeout = options.number("timeout", DEFAULT_TIMEOUT, 0.1, _LONGEST_TIMEOUT)
    cache = options.number("cache", DEFAULT_CACHE, 0, _LONGEST_CACHE)
    return HttpAuthorizer(HttpPoster(reactor, address, _AT_ONCE), reactor, timeout, cache)
