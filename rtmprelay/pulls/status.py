"""The status of a pull at one moment, as a value."""

from __future__ import annotations

from enum import Enum

import attrs


class PullState(Enum):
    #: No stream is fetched now.
    IDLE = "idle"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    #: The last attempt failed; another one follows while somebody wants the stream.
    ERROR = "error"


@attrs.frozen
class FetchStatus:
    """The status of one stream that is fetched."""

    stream: str
    state: PullState
    #: The server, without the key.
    address: str | None
    viewers: int
    last_error: str | None = None
    #: network, refused or protocol.
    error_class: str | None = None
    #: In seconds since 1970.
    next_attempt_time: float | None = None
    connect_time: float | None = None
    messages: int = 0
    bytes: int = 0
    reconnect_count: int = 0


@attrs.frozen
class PullStatus:
    """The status of a rule, with its streams added up."""

    name: str
    url: str
    match: str
    always: bool
    state: PullState
    last_error: str | None
    error_class: str | None
    viewers: int
    messages: int
    bytes: int
    reconnect_count: int
    fetches: tuple[FetchStatus, ...]


#: A pull with several streams has the first of these states that one of them has.
_MOST_IMPORTANT = (PullState.ERROR, PullState.CONNECTING, PullState.CONNECTED, PullState.IDLE)


def joint_state(fetches: tuple[FetchStatus, ...]) -> PullState:
    """The state of a pull with these streams."""
    states = {fetch.state for fetch in fetches}
    return next((state for state in _MOST_IMPORTANT if state in states), PullState.IDLE)
