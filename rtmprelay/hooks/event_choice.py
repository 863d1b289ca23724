"""Which events a hook is told of."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from rtmprelay.errors import ConfigError
from rtmprelay.events import event_types


def event_names() -> list[str]:
    """The names of all events."""
    return sorted(kind.name for kind in event_types())


def chosen_events(patterns: Sequence[str]) -> frozenset[str]:
    """The events that patterns such as `publish_*` mean; all of them without any pattern."""
    known = event_names()
    chosen = set() if patterns else set(known)
    for pattern in patterns:
        found = {name for name in known if fnmatchcase(name, pattern)}
        if not found:
            raise ConfigError(f"there is no event {pattern!r}: {', '.join(known)} are known")
        chosen |= found
    return frozenset(chosen)
