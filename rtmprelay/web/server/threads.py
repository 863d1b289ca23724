"""Work that waits for a disk or takes long is done in threads: the reactor's own has live streams to serve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred

#: Calls a function in a thread.
InThread = Callable[..., "Deferred[Any]"]


def at_once(function: Callable[..., object], *arguments: object) -> Deferred[Any]:
    """The `InThread` of a relay in memory."""
    return maybeDeferred(function, *arguments)
