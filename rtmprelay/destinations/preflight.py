"""Tries destinations before a broadcast, step by step: how long each step takes, or why it fails."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import DNSLookupError
from twisted.internet.interfaces import IAddress, IHostResolution, IReactorTime, IResolutionReceiver
from twisted.python.failure import Failure
from zope.interface import implementer

from rtmprelay.clock import steady
from rtmprelay.destinations.failures import classify
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.errors import ConfigError
from rtmprelay.rtmp.client import ClientSettings, RtmpPublisherProtocol
from rtmprelay.rtmp.endpoint import TlsTrust, negotiate, transport_endpoint
from rtmprelay.wire.url import RtmpUrl

#: Seconds for which a server must keep the publish open. Some accept any key, and close at once if it is wrong.
SETTLE = 1.0

#: The name of the stream where a destination would use the one of its publisher.
CHECK_NAME = "rtmprelay-check"

#: What a check on request may cost: checks at the same time, addresses of one destination, and seconds for all of them.
MAX_CHECKS = 2
MAX_ADDRESSES = 4
LONGEST_CHECK = 30.0


@attrs.frozen
class CheckStep:
    """One step on the way to a server, such as "tcp"."""

    name: str
    seconds: float
    #: Why it failed; None if it succeeded.
    problem: str | None = None
    detail: str = ""


@attrs.frozen
class CheckReport:
    """The steps that were made with one address of a destination."""

    destination: str
    address: str
    steps: tuple[CheckStep, ...]

    @property
    def succeeded(self) -> bool:
        return all(step.problem is None for step in self.steps)

    def lines(self) -> list[str]:
        """The report as text, without the key."""
        lines = [f"{self.destination} ({self.address})"]
        for step in self.steps:
            word = "ok  " if step.problem is None else "FAIL"
            remark = step.detail if step.problem is None else step.problem
            lines.append(f"  {word} {step.name:<9} {step.seconds * 1000:7.0f} ms  {remark}".rstrip())
        return lines


@implementer(IResolutionReceiver)
class _Addresses:
    """Collects the addresses of a name."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.done: Deferred[None] = Deferred()

    def resolutionBegan(self, resolutionInProgress: IHostResolution) -> None:  # noqa: N802, N803
        """Nothing to do."""

    def addressResolved(self, address: IAddress) -> None:  # noqa: N802
        self.found.append(str(getattr(address, "host", address)))

    def resolutionComplete(self) -> None:  # noqa: N802
        self.done.callback(None)


class _Stopwatch:
    """Keeps each step with its duration."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._began = clock.seconds()
        self.steps: list[CheckStep] = []

    def succeeded(self, name: str, detail: str = "") -> None:
        self._note(name, None, detail)

    def failed(self, failure: Failure, expected: list[str]) -> None:
        """The first of the expected steps that has not succeeded has failed."""
        done = {step.name for step in self.steps}
        name = next((step for step in expected if step not in done), expected[-1])
        too_long = failure.check(CancelledError) is not None
        self._note(name, "it takes too long" if too_long else classify(failure).sentence)

    def _note(self, name: str, problem: str | None, detail: str = "") -> None:
        now = self._clock.seconds()
        self.steps.append(CheckStep(name, now - self._began, problem, detail))
        self._began = now


async def _resolve(reactor: Any, url: RtmpUrl) -> list[str]:
    receiver = _Addresses()
    reactor.nameResolver.resolveHostName(receiver, url.host, url.port)
    await receiver.done
    if not receiver.found:
        raise DNSLookupError(url.host)
    return receiver.found


async def _check_that_it_stays_open(
    publisher: RtmpPublisherProtocol, clock: IReactorTime, watch: _Stopwatch
) -> None:
    """Wait for a server that closes after it has accepted; say goodbye to one that does not."""
    lost: Deferred[None] = Deferred()
    publisher.when_lost.chainDeferred(lost)
    settled: Deferred[None] = Deferred()
    timer = clock.callLater(SETTLE, settled.callback, None)

    def closed(_: None) -> None:
        if timer.active():
            timer.cancel()
            watch.failed(publisher.loss, ["stays"])
            settled.callback(None)

    lost.addCallback(closed)
    await settled
    if not publisher.is_closing:
        watch.succeeded("stays")
        publisher.end()
        await lost


async def check_address(reactor: Any, settings: DestinationSettings, url: RtmpUrl) -> CheckReport:
    """Connect to one address, ask to publish, send nothing, and say goodbye."""
    clock = steady(IReactorTime(reactor))
    watch = _Stopwatch(clock)
    expected = ["dns", "tcp", *(["tls"] if url.secure else []), "handshake", "connect", "publish", "stays"]
    publisher: RtmpPublisherProtocol | None = None
    try:
        found = await _resolve(reactor, url)
        watch.succeeded("dns", ", ".join(dict.fromkeys(found)))
        endpoint = transport_endpoint(reactor, url, TlsTrust(settings.verify, settings.ca_file))
        publisher = await negotiate(
            RtmpPublisherProtocol, url, endpoint, clock, ClientSettings(progress=watch.succeeded)
        )
        await _check_that_it_stays_open(publisher, clock, watch)
    except Exception:
        watch.failed(Failure(), expected)
        if publisher is not None:
            publisher.abortConnection()
    return CheckReport(settings.name, str(url), tuple(watch.steps))


async def check_destinations(reactor: Any, destinations: Iterable[DestinationSettings]) -> list[CheckReport]:
    """Check every address of all enabled destinations, one after the other."""
    reports = []
    for settings in destinations:
        if settings.enabled:
            for address in settings.addresses:
                url = address.filled_in("check", CHECK_NAME)
                reports.append(await check_address(reactor, settings, url))
    return reports


class TooManyChecksError(ConfigError):
    """Other checks are not over yet."""


class DestinationChecks:
    """Checks destinations when somebody asks, a few at the same time and each for a bounded time."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._running = 0

    async def run(self, settings: DestinationSettings) -> list[CheckReport]:
        """Check the addresses of a destination, one after the other, for as long as there is time.

        Raises:
            TooManyChecksError: There are too many at the same time.
        """
        if self._running >= MAX_CHECKS:
            raise TooManyChecksError(
                f"{MAX_CHECKS} destinations are being tried: try again when they are done"
            )
        self._running += 1
        clock = steady(IReactorTime(self._reactor))
        began = clock.seconds()
        reports: list[CheckReport] = []
        try:
            for address in settings.addresses[:MAX_ADDRESSES]:
                left = LONGEST_CHECK - (clock.seconds() - began)
                if left <= 0:
                    break
                url = address.filled_in("check", CHECK_NAME)
                checking = Deferred.fromCoroutine(check_address(self._reactor, settings, url))
                reports.append(await checking.addTimeout(left, clock))
        finally:
            self._running -= 1
        return reports
