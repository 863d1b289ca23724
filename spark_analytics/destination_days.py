"""Destinations day by day, in any time: of days that are in it in part, what is in it is counted anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow.compute as pc

from spark_analytics.catalogue import Snapshot
from spark_analytics.event_rows import event_rows
from spark_analytics.event_schemas import SAME_EVENT
from spark_analytics.schemas import DAY
from spark_analytics.time_window import EVER, TimeWindow, shifted

Row = dict[str, Any]
Times = list[tuple[datetime, datetime]]

#: The columns of `destinations` that days are added up by.
ADDED = (
    "live_seconds",
    "connected_seconds",
    "outages",
    "reconnects",
    "outage_seconds",
    "lost_messages",
    "messages",
    "bytes",
    "dropped",
)

_STREAM = ("instance", "app", "stream")


def destination_days(snapshot: Snapshot, window: TimeWindow) -> list[Row]:
    """Rows as `destinations` has them, of what is in a time."""
    whole, parts = window.whole_days()
    rows = event_rows(snapshot, "destinations", days=whole.days()).to_pylist() if whole is not None else []
    for part in parts:
        rows += _PartOfDay(snapshot, part).rows()
    return list(rows)


class _PartOfDay:
    """Counts what is in a part of a day, by the rules by which `index` counts days."""

    def __init__(self, snapshot: Snapshot, part: TimeWindow) -> None:
        self._snapshot = snapshot
        self._part = part
        self._rows: dict[str, Row] = {}

    def rows(self) -> list[Row]:
        """A row for each destination of which there is something."""
        self._add_uptime()
        self._add_outages()
        self._add_drops()
        self._add_deliveries()
        return list(self._rows.values())

    def _row_of(self, destination: str) -> Row:
        return self._rows.setdefault(
            destination,
            {
                "destination": destination,
                DAY: self._part.days()[0],
                **dict.fromkeys(ADDED, 0),
                "longest_outage_seconds": None,
                "recovery_p95_seconds": None,
                "dropped_by_reason": None,
            },
        )

    def _add_uptime(self) -> None:
        live = self._live_times()
        columns = ["destination", *_STREAM, "state", "began", "seconds"]
        where = self._part.where("began", "ended")
        # A channel that is always on may have been connected at any time before.
        states = event_rows(
            self._snapshot, "destination_states", columns, where, self._part.days(before=EVER)
        )
        for state in states.to_pylist():
            end = state["began"] + timedelta(seconds=state["seconds"])
            seconds = sum(
                self._part.seconds_of(max(begin, state["began"]), min(until, end))
                for begin, until in live[tuple(state[name] for name in _STREAM)]
            )
            if seconds > 0:
                row = self._row_of(state["destination"])
                row["live_seconds"] += seconds
                row["connected_seconds"] += seconds if state["state"] == "connected" else 0.0

    def _live_times(self) -> dict[tuple[str, ...], Times]:
        """When each stream had a publisher."""
        columns = [*_STREAM, "started_at", "ended_at"]
        where = self._part.where("started_at", "ended_at")
        found = event_rows(self._snapshot, "publishes", columns, where, self._part.days(before=EVER))
        times: dict[tuple[str, ...], Times] = defaultdict(list)
        for row in found.to_pylist():
            # One that goes on is live for as long as the state is known.
            end = row["ended_at"] or shifted(row["started_at"], EVER)
            times[tuple(row[name] for name in _STREAM)].append((row["started_at"], end))
        return defaultdict(list, {stream: joined_times(of_one) for stream, of_one in times.items()})

    def _add_outages(self) -> None:
        columns = ["destination", "seconds", "lost_messages", "ended_how"]
        found = event_rows(self._snapshot, "outages", columns, self._part.where("began"), self._part.days())
        recoveries: dict[str, list[float]] = defaultdict(list)
        for outage in found.to_pylist():
            row = self._row_of(outage["destination"])
            row["outages"] += 1
            row["outage_seconds"] += outage["seconds"]
            row["lost_messages"] += outage["lost_messages"] or 0
            row["longest_outage_seconds"] = max(row["longest_outage_seconds"] or 0.0, outage["seconds"])
            if outage["ended_how"] == "recovered":
                recoveries[outage["destination"]].append(outage["seconds"])
        for name, seconds in recoveries.items():
            row = self._row_of(name)
            row["reconnects"] = len(seconds)
            row["recovery_p95_seconds"] = float(np.percentile(seconds, 95))

    def _add_drops(self) -> None:
        for event in self._drops():
            row = self._row_of(event["destination"])
            reasons = dict(row["dropped_by_reason"] or ())
            reason, count = event["reason"] or "unknown", event["count"] or 0
            row["dropped_by_reason"] = {**reasons, reason: reasons.get(reason, 0) + count}
            row["dropped"] += count

    def _drops(self) -> Iterable[Row]:
        """The events that tell of drops, without the copies of them that are in other files."""
        where = (pc.field("event") == "destination_dropped") & self._part.where("time")
        columns = [*SAME_EVENT, "destination", "reason", "count"]
        rows = event_rows(self._snapshot, "events", columns, where, self._part.days()).to_pylist()
        return {tuple(row[name] for name in SAME_EVENT): row for row in rows}.values()

    def _add_deliveries(self) -> None:
        where = (pc.field("role") == "destination") & self._part.where("ended")
        columns = ["who", "messages", "bytes"]
        for report in event_rows(self._snapshot, "deliveries", columns, where, self._part.days()).to_pylist():
            row = self._row_of(report["who"])
            row["messages"] += report["messages"] or 0
            row["bytes"] += report["bytes"] or 0


def joined_times(times: Iterable[tuple[datetime, datetime]]) -> Times:
    """The same times without what is in two of them: a stream that is taken over has two publishers for a while, and a
    destination that is out is out for several streams.
    """
    found: Times = []
    for begin, end in sorted(times):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found
