"""Streams that moved from one node of a cluster to another: their files belong to one broadcast, however long the way took."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta

import pyarrow.compute as pc

from spark_analytics.store.change import Change
from spark_analytics.store.part_files import PartFile, read_files
from spark_analytics.store.tables import EVENTS

#: The longest time between a move and the last frame at the old node, or the first one at the new node. A publisher that
#: sends nothing is cut after 60 s, its node gives the stream up 10 s later, and the directory forgets a dead node after 60 s.
MOST_AROUND_A_MOVE = timedelta(seconds=120)

#: Names and times of files are of whole seconds, and the clocks of two nodes differ a little.
INACCURACY = timedelta(seconds=2)

_MOVED = pc.field("event") == "stream_moved"

#: When each stream moved, in order.
Moves = Mapping[tuple[str, str], list[datetime]]


def new_moves(change: Change) -> Moves:
    """The moves in the events that a change adds."""
    before = set(change.base.files(EVENTS.name))
    return _moves_in(change, [file for file in change.files(EVENTS.name) if file not in before])


def moves_between(change: Change, first: date, last: date) -> Moves:
    """The moves of some days, as the catalogue will know them."""
    return _moves_in(change, [file for file in change.files(EVENTS.name) if first <= file.day <= last])


def _moves_in(change: Change, files: Iterable[PartFile]) -> Moves:
    columns = ["app", "stream", "time", "line"]
    rows = read_files(change.base.folder(EVENTS.name), EVENTS, files, columns, _MOVED).to_pylist()
    # Both nodes tell of a move, one that was frozen perhaps much later: the epoch says that it is the same.
    by_epoch: dict[tuple[str, str], dict[object, datetime]] = defaultdict(dict)
    for row in rows:
        if row["stream"] is not None:
            times = by_epoch[row["app"], row["stream"]]
            epoch = _epoch_in(row["line"])
            times[epoch] = min(times.get(epoch, row["time"]), row["time"])
    return {stream: sorted(times.values()) for stream, times in by_epoch.items()}


def _epoch_in(line: str | None) -> str:
    """Which move a line is about. Other programs may write anything there."""
    return str(json.loads(line or "{}").get("epoch"))
