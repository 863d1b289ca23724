"""Tells a name that nobody knows, a slip of the pen, from one of which there is nothing to tell."""

from __future__ import annotations

import pyarrow.compute as pc

from rtmprelay.flv.names import split_key
from spark_analytics.catalogue import Snapshot
from spark_analytics.errors import CatalogueError
from spark_analytics.output import printable
from spark_analytics.questions import is_stream

#: Where streams and destinations are named; others name no more of them.
_OF_STREAMS = ("recordings", "publishes", "viewers", "outages")
_OF_DESTINATIONS = ("destinations", "destination_states", "outages")


def refuse_unknown_stream(snapshot: Snapshot, key: str) -> None:
    """Without event logs nothing can be said of viewers, and no name is wrong.

    Raises:
        CatalogueError: It was never recorded, published or watched.
    """
    if snapshot.has("event_files") and not _names(
        snapshot, _OF_STREAMS, "stream", is_stream(*split_key(key))
    ):
        raise CatalogueError(
            f"Nothing is known of {printable(key)} in {snapshot.root}; `streams` and `viewers` list what there is."
        )


def refuse_unknown_destination(snapshot: Snapshot, name: str) -> None:
    """The same for a destination.

    Raises:
        CatalogueError: Nothing was ever sent to it.
    """
    if snapshot.has("event_files") and not _names(
        snapshot, _OF_DESTINATIONS, "destination", pc.field("destination") == name
    ):
        known = ", ".join(sorted(map(printable, _names(snapshot, _OF_DESTINATIONS, "destination"))))
        there = f"; there are: {known}." if known else ": nothing was sent to destinations."
        raise CatalogueError(f"There is no destination {printable(name)} in {snapshot.root}{there}")


def _names(
    snapshot: Snapshot, tables: tuple[str, ...], column: str, where: pc.Expression | None = None
) -> set[str]:
    return {
        name
        for table in tables
        for name in pc.unique(snapshot.arrow(table, [column], where)[column]).to_pylist()
        if name is not None
    }
