"""The status of a destination at one moment, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import attrs


class DestinationState(Enum):
    #: No stream is sent there now.
    IDLE = "idle"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    #: The last attempt failed. Another one follows, unless it was given up.
    ERROR = "error"
    DISABLED = "disabled"


@attrs.frozen
class OutletStatus:
    """The status of one stream that is sent to a destination."""

    stream: str
    state: DestinationState
    #: The address in use, without the key.
    address: str
    last_error: str | None = None
    #: network, refused or protocol.
    error_class: str | None = None
    #: When the next attempt is made, in seconds since 1970.
    next_attempt_time: float | None = None
    given_up: bool = False
    #: Whether the connection is kept although the publisher was lost.
    lingering: bool = False
    messages_in: int = 0
    messages_sent: int = 0
    messages_dropped: int = 0
    messages_queued: int = 0
    dropped_by_reason: Mapping[str, int] = attrs.field(factory=dict)
    bytes_sent: int = 0
    last_sent_time: float | None = None
    connect_time: float | None = None
    reconnect_count: int = 0
    #: Attempts that failed since it was connected last.
    failures: int = 0
    #: A running hash of all audio and video that was sent, in order.
    digest: str = ""


@attrs.frozen
class DestinationStatus:
    """The status of a destination, with its streams added up."""

    name: str
    url: str
    #: Which streams are sent there: a glob on `app/name`.
    match: str
    enabled: bool
    state: DestinationState
    last_error: str | None
    error_class: str | None
    next_attempt_time: float | None
    messages_sent: int
    messages_dropped: int
    messages_queued: int
    dropped_by_reason: Mapping[str, int]
    bytes_sent: int
    last_sent_time: float | None
    connect_time: float | None
    reconnect_count: int
    #: Attempts that failed since the last connection, of the stream that failed most often.
    failures: int
    metadata: Mapping[str, object]
    outlets: tuple[OutletStatus, ...]


#: A destination with several streams has the first of these states that one of them has.
_MOST_IMPORTANT = (
    DestinationState.ERROR,
    DestinationState.CONNECTING,
    DestinationState.CONNECTED,
    DestinationState.IDLE,
)


def joint_state(outlets: tuple[OutletStatus, ...], enabled: bool) -> DestinationState:
    if not enabled:
        return DestinationState.DISABLED
    states = {outlet.state for outlet in outlets}
    return next((state for state in _MOST_IMPORTANT if state in states), DestinationState.IDLE)
