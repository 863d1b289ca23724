"""The fields of configuration entries and of events, which are attrs classes with a comment for each field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import attrs
from directive import FromCode, comments_of, indented, plain, table, type_name

from rtmprelay import events
from rtmprelay.destinations import config_file
from rtmprelay.pulls import config_file as pull_entries


class RelayFields(FromCode):
    """What a destination in the relay configuration can say."""

    entry: type[attrs.AttrsInstance] = config_file._DestinationEntry

    def lines(self) -> Iterator[str]:
        """Each field with its type, its default and its meaning."""
        entry = self.entry
        meanings = comments_of(entry.__module__)
        rows = [
            (
                f"``{field.name}``",
                type_name(field).removesuffix(" or null"),
                default_of(field),
                meanings[entry.__name__, field.name],
            )
            for field in attrs.fields(entry)
        ]
        yield from table(("field", "type", "default", "meaning"), rows, "22 14 14 50")


class PullFields(RelayFields):
    """What a pull in the relay configuration can say."""

    entry = pull_entries._PullEntry


def default_of(field: attrs.Attribute[Any]) -> str:
    """What holds if the file does not say it, in JSON."""
    default = field.default
    if default is attrs.NOTHING:
        return "must be there"
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        default = default.factory()
    if isinstance(default, float):
        default = int(default) if default.is_integer() else default
    return "none" if default is None else f"``{json.dumps(default)}``"


class EventList(FromCode):
    """All events of `rtmprelay.events`."""

    def lines(self) -> Iterator[str]:
        """Each event with its meaning, its level, what the log says, and its fields."""
        groups = get_args(events.AnyEvent)
        for kind in [kind for group in groups for kind in events.event_types() if issubclass(kind, group)]:
            yield f"``{kind.name}``" + (" (warning)" if kind.level == "warn" else "")
            yield from indented(kind.__doc__ or "")
            yield ""
            # How numbers are rounded does not matter here.
            sentence = re.sub(r"\{(\w+)[^}]*\}", r"{\1}", kind.sentence)
            yield f"   The log says: *{plain(sentence)}*"
            yield ""
            for field in attrs.fields(kind):
                comment = event_field_comment(kind, field.name)
                yield f"   - ``{field.name}``: {type_name(field)}" + (f". {comment}" if comment else "")
            yield ""


def event_field_comment(kind: type[events.Event], field: str) -> str | None:
    """The `#:` comment of a field, which may be in the class of the event's group."""
    for owner in kind.__mro__:
        comment = comments_of(owner.__module__).get((owner.__name__, field)) if owner is not object else None
        if comment is not None:
            return comment
    return None
