"""Events of destinations."""

from __future__ import annotations

import attrs
from typing_extensions import override

from rtmprelay.events.base import Event, Level

#: Failures in a row that have a line each in the log.
FAILURES_LOGGED = 3


@attrs.frozen(kw_only=True)
class DestinationEvent(Event):
    """About a stream on its way to a destination."""

    destination: str
    stream: str


@attrs.frozen(kw_only=True)
class DestinationConnecting(DestinationEvent):
    """The relay is connecting to a destination."""

    name = "destination_connecting"
    level = "debug"
    sentence = "Destination {destination}: connecting to {address} for {stream}"
    address: str


@attrs.frozen(kw_only=True)
class DestinationConnected(DestinationEvent):
    """A destination accepted the stream."""

    name = "destination_connected"
    sentence = "Destination {destination}: connected, {stream} is published to {address}"
    address: str


@attrs.frozen(kw_only=True)
class DestinationFailed(DestinationEvent):
    """A destination could not be reached, refused the stream, or was lost."""

    name = "destination_failed"
    level = "warn"
    sentence = "Destination {destination}: {stream} failed ({error_class}): {reason}; {next_step}"
    error_class: str
    reason: str
    #: Failures in a row, this one included.
    failures: int = 1
    #: Whether no attempt follows.
    given_up: bool = False
    #: What follows, in words.
    next_step: str = ""

    @override
    def log_level(self) -> Level:
        # After that one line every half minute says that it is still failing.
        return "warn" if self.given_up or self.failures <= FAILURES_LOGGED else "debug"


@attrs.frozen(kw_only=True)
class DestinationReconnecting(DestinationEvent):
    """The relay will try a destination again after `delay` seconds."""

    name = "destination_reconnecting"
    level = "debug"
    sentence = "Destination {destination}: attempt {attempt} for {stream} in {delay:.1f} s, at {address}"
    attempt: int
    delay: float
    address: str


@attrs.frozen(kw_only=True)
class DestinationGivenUp(DestinationEvent):
    """A destination failed too often; the relay does not try again until the next stream starts."""

    name = "destination_given_up"
    level = "debug"
    sentence = "Destination {destination}: given up for {stream} after {failures} failures"
    failures: int


@attrs.frozen(kw_only=True)
class DestinationDropped(DestinationEvent):
    """Messages were dropped instead of being sent to a destination."""

    name = "destination_dropped"
    level = "warn"
    sentence = "Destination {destination}: {count} frames of {stream} were not sent ({reason})"
    reason: str
    count: int


@attrs.frozen(kw_only=True)
class DestinationStatistics(DestinationEvent):
    """What was sent to a destination since the last event of this kind."""

    name = "destination_statistics"
    level = "debug"
    sentence = (
        "Destination {destination}: {stream} at {kbps:.0f} kbit/s, {messages} frames sent,"
        " {dropped} not sent, {queued} queued"
    )
    seconds: float
    kbps: float
    messages: int
    bytes: int
    dropped: int
    queued: int


@attrs.frozen(kw_only=True)
class DestinationHeld(DestinationEvent):
    """The publisher was lost. The connection to the destination stays open for `linger` seconds in case it returns."""

    name = "destination_held"
    sentence = "Destination {destination}: {stream} lost its publisher, held for {linger:g} s"
    linger: float


@attrs.frozen(kw_only=True)
class DestinationSourceRefused(DestinationEvent):
    """A second stream matched a destination that another stream already uses."""

    name = "destination_source_refused"
    level = "warn"
    sentence = "Destination {destination}: {stream} is not sent there, {holder} holds it"
    #: The stream that uses the destination.
    holder: str


@attrs.frozen(kw_only=True)
class DestinationClosed(DestinationEvent):
    """The relay stopped sending a stream to a destination."""

    name = "destination_closed"
    sentence = (
        "Destination {destination}: {stream} closed after {messages} frames ({dropped} not sent): {reason}"
    )
    reason: str
    messages: int
    bytes: int
    dropped: int
    #: A digest of all audio and video that was delivered, in order. Two hops that delivered the same have the same one.
    digest: str

    @override
    def log_level(self) -> Level:
        # Of one that got nothing its failures have said enough.
        return "info" if self.messages else "debug"
