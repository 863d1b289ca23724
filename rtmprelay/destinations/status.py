"""What is known of a destination at a moment: a value, replaced as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import attrs


class DestinationState(Enum):
    """How a destination is."""

    #: No source is live for it.
    IDLE = "idle"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    #: The last attempt failed; another one follows, unless it was given up.
    ERROR = "error"
    DISABLED = "disabled"


@attrs.frozen
class OutletStatus:
    """One stream on its way to one destination."""

    stream: str
    state: DestinationState
    #: Where it goes now, without the key.
    address: str
    last_error: str | None = None
    #: network, refused or protocol.
    error_class: str | None = None
    #: When the next attempt is made, in seconds since 1970.
    next_attempt_time: float | None = None
    given_up: bool = False
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
    #: A running digest of all audio and video that was sent, in order.
    digest: str = ""


@attrs.frozen
class DestinationStatus:
    """A destination, with all its outlets added up."""

    name: str
    url: str
    #: Which streams go to it.
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
    metadata: Mapping[str, object]
    outlets: tuple[OutletStatus, ...]


#: If outlets differ, the state of the destination is the first of these that one of them has.
_MOST_TELLING = (
    DestinationState.ERROR,
    DestinationState.CONNECTING,
    DestinationState.CONNECTED,
    DestinationState.IDLE,
)


def joint_state(outlets: tuple[OutletStatus, ...], enabled: bool) -> DestinationState:
    """The state of a destination from those of its outlets."""
    if not enabled:
        return DestinationState.DISABLED
    states = {outlet.state for outlet in outlets}
    return next((state for state in _MOST_TELLING if state in states), DestinationState.IDLE)
