"""What all events have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import attrs

Level = Literal["debug", "info", "warn"]


@attrs.frozen(kw_only=True)
class Event:
    """Something that happened. No field ever holds a secret.

    Events are grouped by what they carry: a `ConnectionEvent` has a `connection`, a `DestinationEvent` a `destination`
    and a `stream`. Only the classes with a `name` are ever published.
    """

    #: The event's name in JSON, in hooks and in metrics.
    name: ClassVar[str]
    #: The event's line in the log; `{field}` is replaced with the field's value.
    sentence: ClassVar[str]
    #: "warn" for what an operator may want to act on, "debug" for the single steps of a connection.
    level: ClassVar[Level] = "info"

    def log_level(self) -> Level:
        """The level of this one event in the log."""
        return self.level

    def fields(self) -> dict[str, object]:
        """The event's own fields."""
        return attrs.asdict(self, recurse=False)


def event_types() -> list[type[Event]]:
    """Every kind of event that can be published, group by group."""
    return list(_published(Event))


def _published(kind: type[Event]) -> Iterator[type[Event]]:
    for inner in kind.__subclasses__():
        if "name" in vars(inner):
            yield inner
        yield from _published(inner)
