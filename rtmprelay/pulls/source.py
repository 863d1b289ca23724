"""Where a stream is fetched from, and what all fetches share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint

from rtmprelay.destinations.failures import RetryPolicy
from rtmprelay.event_bus import EventBus
from rtmprelay.rtmp.endpoint import TlsTrust
from rtmprelay.secret import Secret
from rtmprelay.streams.live_stream import StreamOrigin
from rtmprelay.streams.registry import StreamRegistry
from rtmprelay.wire.url import RtmpUrl

#: Makes the endpoint of one attempt to reach a server, up to TLS; tests make one without a network.
EndpointMaker = Callable[[RtmpUrl, TlsTrust], IStreamClientEndpoint]


@attrs.frozen
class Target:
    """Where a stream is now, and what to show there."""

    url: RtmpUrl
    trust: TlsTrust = attrs.field(factory=TlsTrust)
    node_pass: Secret = attrs.field(factory=lambda: Secret(""))


class StreamSource(Protocol):
    """Says where a stream is."""

    @property
    def name(self) -> str:
        """Its name in events and in the status."""

    @property
    def origin(self) -> StreamOrigin:
        """What its streams are here."""

    @property
    def always(self) -> bool:
        """Whether its streams are fetched without a viewer."""

    @property
    def longest_delay(self) -> float:
        """Seconds that may pass between two attempts."""

    def find(self, key: str, chain: tuple[str, ...]) -> Deferred[Target]:
        """Fires with the place of a stream, on behalf of the nodes in `chain`; fails if it is nowhere."""

    def source_left(self, key: str) -> None:
        """Called when the server says that the publisher has left, or when the server is lost."""

    def forget(self, key: str) -> None:
        """Called when the stream is not fetched any more."""


@attrs.frozen
class FetchContext:
    """What all fetches of a relay share."""

    clock: IReactorTime
    #: Seconds since 1970, for times that are shown.
    wall_clock: Callable[[], float]
    events: EventBus
    registry: StreamRegistry
    endpoint_for: EndpointMaker
    new_retry_policy: Callable[[], RetryPolicy] = lambda: RetryPolicy(request="play")
