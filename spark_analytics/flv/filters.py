"""Which tags a question wants: conditions that Spark hands on to the format "flv"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import numpy as np
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from rtmprelay.media import MediaKind
from spark_analytics.flv.classify import Flags
from spark_analytics.flv.tags import TagArrays

#: What the column `type` calls tags; all others are `other`.
TYPE_NAMES: Mapping[MediaKind | None, str] = {
    MediaKind.AUDIO: "audio",
    MediaKind.VIDEO: "video",
    MediaKind.DATA: "script",
    None: "other",
}

#: Columns that are never null.
_ALWAYS_THERE = {"path", "type", "timestamp", "keyframe"}


@attrs.frozen
class TagFilter:
    """Conditions that all hold.

    Attributes:
        types, paths: One of these; None for any.
        first, last: Timestamps, both included.
    """

    types: frozenset[str] | None = None
    paths: frozenset[str] | None = None
    keyframe: bool | None = None
    first: int | None = None
    last: int | None = None

    def wants_file(self, path: str) -> bool:
        """Whether any tag of a file may be wanted."""
        return self.paths is None or path in self.paths

    def by_header(self, tags: TagArrays) -> Flags | None:
        """Which tags are wanted, as far as their headers tell; None for all."""
        wanted: Flags | None = None
        if self.types is not None:
            named = [
                int(kind) for kind, name in TYPE_NAMES.items() if kind is not None and name in self.types
            ]
            wanted = np.isin(tags.types, named)
            if TYPE_NAMES[None] in self.types:
                wanted |= ~np.isin(tags.types, [int(kind) for kind in TYPE_NAMES if kind is not None])
        if self.keyframe:
            # Sound and data have none.
            is_video = tags.types == MediaKind.VIDEO
            wanted = is_video if wanted is None else wanted & is_video
        for bound, is_within in ((self.first, np.greater_equal), (self.last, np.less_equal)):
            if bound is not None:
                in_time = is_within(tags.timestamps, bound)
                wanted = in_time if wanted is None else wanted & in_time
        return wanted


def take_over(filters: Iterable[Filter]) -> tuple[TagFilter, list[Filter]]:
    """What of some conditions is seen to here, and the rest of them."""
    taken = TagFilter()
    rest: list[Filter] = []
    for one in filters:
        more = _narrowed(taken, one)
        if more is None:
            rest.append(one)
        else:
            taken = more
    return taken, rest


def _narrowed(found: TagFilter, one: Filter) -> TagFilter | None:
    """A filter with one more condition; None if it is of another kind."""
    path: tuple[str, ...] = getattr(one, "attribute", ())
    name = path[0] if len(path) == 1 else ""
    if name not in _ALWAYS_THERE:
        return None
    value: Any = getattr(one, "value", None)
    if isinstance(one, IsNotNull):
        return found
    if name in ("type", "path") and isinstance(one, EqualTo | In):
        values = frozenset(value if isinstance(one, In) else [value])
        if name == "type":
            return attrs.evolve(found, types=values if found.types is None else found.types & values)
        return attrs.evolve(found, paths=values if found.paths is None else found.paths & values)
    if name == "keyframe" and isinstance(one, EqualTo) and isinstance(value, bool):
        # Both at once is wanted of no tag: the second condition is left to Spark.
        return attrs.evolve(found, keyframe=value) if found.keyframe in (None, value) else None
    if name == "timestamp" and isinstance(value, int):
        return _in_time(found, one, value)
    return None


def _in_time(found: TagFilter, one: Filter, value: int) -> TagFilter | None:
    first = {EqualTo: value, GreaterThanOrEqual: value, GreaterThan: value + 1}.get(type(one))
    last = {EqualTo: value, LessThanOrEqual: value, LessThan: value - 1}.get(type(one))
    if first is None and last is None:
        return None
    return attrs.evolve(
        found,
        first=max((bound for bound in (found.first, first) if bound is not None), default=None),
        last=min((bound for bound in (found.last, last) if bound is not None), default=None),
    )
