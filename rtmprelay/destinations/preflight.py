"""Trying destinations out before a broadcast: each step of the way, with its time or its reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.error import DNSLookupError
from twisted.internet.interfaces import IAddress, IHostResolution, IReactorTime, IResolutionReceiver
from twisted.python.failure import Failure
from zope.interface import implementer

from rtmprelay.destinations.failures import classify
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.rtmp.client import ClientSettings, RtmpPublisherProtocol
from rtmprelay.rtmp.endpoint import TlsTrust, negotiate, transport_endpoint
from rtmprelay.wire.url import RtmpUrl

#: Seconds that a server must keep a publish open to count as willing.
SETTLE = 1.0

#: The stream name for a destination that takes its source's.
CHECK_NAME = "rtmprelay-check"


@attrs.frozen
class Step:
    """One step of the way to a server."""

    name: str
    seconds: float
    #: Why it failed; None if it went well.
    problem: str | None = None
    detail: str = ""


@attrs.frozen
class Report:
    """How far one address of a destination was reached."""

    destination: str
    address: str
    steps: tuple[Step, ...]

    @property
    def fine(self) -> bool:
        """Whether all went well."""
        return all(step.problem is None for step in self.steps)

    def lines(self) -> list[str]:
        """The report for people. It has no key in it."""
        lines = [f"{self.destination} ({self.address})"]
        for step in self.steps:
            word = "ok  " if step.problem is None else "FAIL"
            told = step.detail if step.problem is None else step.problem
            lines.append(f"  {word} {step.name:<9} {step.seconds * 1000:7.0f} ms  {told}".rstrip())
        return lines


@implementer(IResolutionReceiver)
class _Addresses:
    """Collects what the name of a server stands for."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.done: Deferred[None] = Deferred()

    def resolutionBegan(self, resolutionInProgress: IHostResolution) -> None:  # noqa: N802, N803
        """Called by the resolver."""

    def addressResolved(self, address: IAddress) -> None:  # noqa: N802
        """Called by the resolver."""
        self.found.append(str(getattr(address, "host", address)))

    def resolutionComplete(self) -> None:  # noqa: N802
        """Called by the resolver."""
        self.done.callback(None)


class _Stopwatch:
    """Notes each step as it is made."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._began = clock.seconds()
        self.steps: list[Step] = []

    def made(self, name: str, detail: str = "") -> None:
        """A step went well."""
        self._note(name, None, detail)

    def failed(self, failure: Failure, expected: list[str]) -> None:
        """The next step went wrong."""
        done = {step.name for step in self.steps}
        name = next((step for step in expected if step not in done), expected[-1])
        self._note(name, classify(failure).sentence)

    def _note(self, name: str, problem: str | None, detail: str = "") -> None:
        now = self._clock.seconds()
        self.steps.append(Step(name, now - self._began, problem, detail))
        self._began = now


async def _resolve(reactor: Any, url: RtmpUrl) -> list[str]:
    receiver = _Addresses()
    reactor.nameResolver.resolveHostName(receiver, url.host, url.port)
    await receiver.done
    if not receiver.found:
        raise DNSLookupError(url.host)
    return receiver.found


async def _see_whether_it_stays(
    publisher: RtmpPublisherProtocol, clock: IReactorTime, watch: _Stopwatch
) -> None:
    """Some servers accept any key, and close right after that if it is wrong. Else say goodbye."""
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
        watch.made("stays")
        publisher.end()
        await lost


async def check_address(reactor: Any, settings: DestinationSettings, url: RtmpUrl) -> Report:
    """Go the whole way to one address, publish nothing, and say goodbye."""
    watch = _Stopwatch(IReactorTime(reactor))
    expected = ["dns", "tcp", *(["tls"] if url.secure else []), "handshake", "connect", "publish"]
    try:
        found = await _resolve(reactor, url)
        watch.made("dns", ", ".join(dict.fromkeys(found)))
        endpoint = transport_endpoint(reactor, url, TlsTrust(settings.verify, settings.ca_file))
        clock = IReactorTime(reactor)
        publisher = await negotiate(
            RtmpPublisherProtocol, url, endpoint, clock, ClientSettings(progress=watch.made)
        )
    except Exception:
        watch.failed(Failure(), expected)
    else:
        await _see_whether_it_stays(publisher, clock, watch)
    return Report(settings.name, str(url), tuple(watch.steps))


async def check_destinations(reactor: Any, destinations: Iterable[DestinationSettings]) -> list[Report]:
    """Try every address of all enabled destinations, one after the other."""
    reports = []
    for settings in destinations:
        if settings.enabled:
            for address in settings.addresses:
                url = address.filled_in("check", CHECK_NAME)
                reports.append(await check_address(reactor, settings, url))
    return reports
