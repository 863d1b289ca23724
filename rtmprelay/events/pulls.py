"""Events of pulls: streams that are fetched from other servers."""

from __future__ import annotations

import attrs

from rtmprelay.events.base import Event


@attrs.frozen(kw_only=True)
class PullEvent(Event):
    """About a stream that is fetched from another server."""

    pull: str
    stream: str


@attrs.frozen(kw_only=True)
class PullConnecting(PullEvent):
    """A client asked for a stream that is not here: the relay is connecting to its server."""

    name = "pull_connecting"
    sentence = "Pull {pull}: connecting to {address} for {stream}"
    address: str


@attrs.frozen(kw_only=True)
class PullConnected(PullEvent):
    """The server of a pull accepted the request, and sends the stream as soon as it has it."""

    name = "pull_connected"
    sentence = "Pull {pull}: connected, {stream} is played from {address}"
    address: str


@attrs.frozen(kw_only=True)
class PullFailed(PullEvent):
    """The server of a pull could not be reached, refused the stream, or was lost."""

    name = "pull_failed"
    level = "warn"
    sentence = (
        "Pull {pull}: {stream} failed ({error_class}): {reason}; next attempt in {next_attempt_in:.1f} s"
    )
    error_class: str
    reason: str
    #: Seconds.
    next_attempt_in: float


@attrs.frozen(kw_only=True)
class PullEnded(PullEvent):
    """The relay stopped fetching a stream."""

    name = "pull_ended"
    sentence = "Pull {pull}: {stream} ended after {messages} messages: {reason}"
    reason: str
    messages: int
    bytes: int
