"""The `http` authorizer: another server decides who may publish and play."""

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

#: Defaults of the options: seconds to wait for an answer, and seconds to remember it.
DEFAULT_TIMEOUT = 3.0
DEFAULT_CACHE = 10.0

#: Any longer and the gate would give up first.
_MAX_TIMEOUT = ANSWER_TIMEOUT - 1
_MAX_CACHE = 3600.0

#: Requests that are sent at once, and those that may wait, in all and per host.
_MAX_CONCURRENT = 16
_MAX_WAITING = 512
_MAX_PER_HOST = 256

_MAX_REMEMBERED = 10_000

#: Seconds between two log lines about a server that does not answer.
_REPORT_INTERVAL = 10.0

#: The two 4xx that say nothing about the client: 408 Request Timeout, 429 Too Many Requests.
_TRY_LATER = (408, 429)

_REFUSED = refused("the server that was asked does not allow it")


@implementer(IStreamAuthorizer)
class HttpAuthorizer(Service):
    """Asks another server: 2xx allows, other 4xx than 408 and 429 refuse, and anything else is a failure, which refuses
    too.
    """

    _log = Logger()

    def __init__(self, poster: HttpPoster, clock: IReactorTime, timeout: float, cache: float) -> None:
        self._poster = poster
        self._clock = clock
        self._timeout = timeout
        self._limiter = ConcurrencyLimiter(_MAX_CONCURRENT, _MAX_WAITING, _MAX_PER_HOST)
        self._answers: AnswerCache[Verdict] = AnswerCache(_MAX_REMEMBERED, cache, clock.seconds)
        self._throttle = Throttle(clock, _REPORT_INTERVAL)

    @override
    def stopService(self) -> Deferred[None]:
        super().stopService()
        return self._poster.close()

    def authorize(self, request: AccessRequest) -> Verdict | Deferred[Verdict]:
        """The remembered answer to the same question, or the server's."""
        credentials = request.credentials
        question = (
            request.action.value,
            request.stream,
            request.host,
            request.protocol,
            json.dumps(credentials.user),
            credentials.as_query().reveal(),
        )
        return self._answers.get(*question) or Deferred.fromCoroutine(self._ask(request, question))

    async def _ask(self, request: AccessRequest, question: tuple[str, ...]) -> Verdict:
        body = request_body(request)
        try:
            status = await self._limiter.run(request.host, lambda: self._post(body))
        except TooBusyError:
            return self._failed("too many requests are waiting for its answer")
        except CancelledError:
            raise
        except TimeoutError:
            return self._failed(f"it did not answer within {self._timeout:g} s")
        except Exception:
            return self._failed(describe_failure(Failure()))
        if 200 <= status < 300:
            verdict = ALLOWED
        elif 400 <= status < 500 and status not in _TRY_LATER:
            verdict = _REFUSED
        else:
            return self._failed(f"it answered with status {status}")
        self._answers.put(verdict, *question)
        return verdict

    def _post(self, body: bytes) -> Deferred[int]:
        posting = Deferred.fromCoroutine(self._post_with_retry(body))
        return posting.addTimeout(self._timeout, self._clock)

    async def _post_with_retry(self, body: bytes) -> int:
        try:
            return await self._poster.post(body)
        except ResponseNeverReceived:
            # The server may have closed an idle connection just as the request was sent.
            return await self._poster.post(body)

    def _failed(self, reason: str) -> Verdict:
        count = self._throttle.count()
        if count:
            self._log.error(
                "{url} gives no verdict, so publishing and playing are refused: {reason}"
                " ({others} others were refused before for such reasons)",
                url=self._poster.shown,
                reason=reason,
                others=count - 1,
            )
        return CANNOT_TELL


def request_body(request: AccessRequest) -> bytes:
    """The JSON that the server gets. It contains the client's credentials: send it nowhere else."""
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
    timeout = options.number("timeout", DEFAULT_TIMEOUT, 0.1, _MAX_TIMEOUT)
    cache = options.number("cache", DEFAULT_CACHE, 0, _MAX_CACHE)
    return HttpAuthorizer(HttpPoster(reactor, address, _MAX_CONCURRENT), reactor, timeout, cache)
