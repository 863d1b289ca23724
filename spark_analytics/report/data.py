"""What the page shows, gathered from the tables and cut down to what a page can hold. No Spark is needed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from rtmprelay.flv.names import split_key
from spark_analytics.audience_questions import Scope, list_destinations
from spark_analytics.catalogue import Snapshot
from spark_analytics.report.curves import Curve, Period, curve_of, whole_seconds
from spark_analytics.report.scales import day_of, following_days

Row = dict[str, Any]
Key = tuple[str, str]

#: What a page can hold. Everything else is counted, and the page says so.
MOST_BARS = 62
MOST_BITRATES = 3
MOST_LINES = 5
MOST_STRIPS = 16
MOST_SPANS = 400
MOST_ROWS = 12

#: Seconds between two points of a bitrate: the last second of a file is not counted, and must leave no hole.
_SHORTEST_STEP = 2

_BAD = ("truncated", "damaged", "not_flv", "empty", "header_only", "unreadable")


@attrs.define
class ReportData:
    """Everything on the page.

    Attributes:
        left_out: Sentences about what is not on it.
    """

    period: Period | None = None
    recordings: int = 0
    recorded_seconds: float = 0.0
    bytes: int = 0
    days: list[tuple[datetime, float]] = attrs.field(factory=list)
    days_per_bar: int = 1
    storage: list[tuple[str, int, float]] = attrs.field(factory=list)
    bitrates: list[Curve] = attrs.field(factory=list)
    sessions: dict[str, list[Row]] = attrs.field(factory=dict)
    incidents: dict[str, list[Row]] = attrs.field(factory=dict)
    incident_kinds: Counter[str] = attrs.field(factory=Counter)
    damaged: list[Row] = attrs.field(factory=list)
    damaged_count: int = 0
    has_events: bool = False
    plays: int = 0
    watch_seconds: float = 0.0
    viewers: list[Curve] = attrs.field(factory=list)
    peak: int = 0
    peak_at: datetime | None = None
    destinations: list[Row] = attrs.field(factory=list)
    states: dict[str, list[Row]] = attrs.field(factory=dict)
    outages: list[Row] = attrs.field(factory=list)
    outage_count: int = 0
    left_out: list[str] = attrs.field(factory=list)


def gather(
    snapshot: Snapshot,
    since: datetime | None = None,
    until: datetime | None = None,
    streams: Iterable[str] = (),
) -> ReportData:
    """Read the tables.

    Args:
        since, until: What is outside is left out; None for all there is.
        streams: Those whose bitrate is shown; by default, those with most hours.
    """
    data = ReportData(has_events=snapshot.has("event_files"))
    recordings = _recordings(snapshot)
    data.period = _period(snapshot, recordings, since, until)
    if data.period is None:
        return data
    recordings = [row for row in recordings if _overlaps(row, "started_at", "ended_at", data.period)]
    _add_recordings(data, data.period, recordings)
    _add_bitrates(data, data.period, snapshot, recordings, list(streams) or _longest(recordings))
    _add_timeline(data, data.period, snapshot, recordings)
    _add_viewers(data, data.period, snapshot)
    _add_destinations(data, data.period, snapshot)
    return data


def key_of(row: Row) -> str:
    """The stream of a row, as people write it."""
    return f"{row['app']}/{row['stream']}" if row["app"] else str(row["stream"])


def _days(period: Period, before: int = 0) -> tuple[date, date]:
    return (period.begin - timedelta(days=before)).date(), period.end.date()


def _overlaps(row: Row, begin: str, end: str, period: Period) -> bool:
    return bool(
        row[begin] is not None and row[begin] <= period.end and (row[end] is None or row[end] >= period.begin)
    )


def _period(
    snapshot: Snapshot, recordings: list[Row], since: datetime | None, until: datetime | None
) -> Period | None:
    """What was asked for, or else from the first to the last thing that is known."""
    times = [row[name] for row in recordings for name in ("started_at", "ended_at") if row[name] is not None]
    if snapshot.has("servers"):
        servers = snapshot.arrow("servers", ["started_at", "last_seen"]).to_pylist()
        times += [time for row in servers for time in row.values()]
    begin = since or min(times, default=None)
    end = until or max(times, default=None)
    if begin is None or end is None or begin > end:
        return None
    # A moment is no time to draw.
    return Period(begin, max(end, begin + timedelta(seconds=10)))


# -- recordings ----------------------------------------------------------------------------------------------


def _recordings(snapshot: Snapshot) -> list[Row]:
    columns = [
        "file_id",
        "app",
        "stream",
        "path",
        "started_at",
        "ended_at",
        "duration_ms",
        "size",
        "status",
        "error",
        "lost_bytes",
        "vanished_at",
    ]
    return list(snapshot.arrow("recordings", columns).to_pylist())


def _longest(recordings: list[Row]) -> list[str]:
    hours: Counter[str] = Counter()
    for row in recordings:
        hours[key_of(row)] += row["duration_ms"] or 0
    return [key for key, length in hours.most_common(MOST_BITRATES) if length]


def _add_recordings(data: ReportData, period: Period, recordings: list[Row]) -> None:
    data.recordings = len(recordings)
    data.recorded_seconds = sum(row["duration_ms"] or 0 for row in recordings) / 1000
    data.bytes = sum(row["size"] or 0 for row in recordings)
    _add_days(data, period, recordings)
    sizes: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for row in recordings:
        sizes[key_of(row)] += row["size"] or 0
        seconds[key_of(row)] += row["duration_ms"] or 0
    data.storage = [(key, size, seconds[key] / 1000) for key, size in sizes.most_common(MOST_STRIPS)]
    if len(sizes) > MOST_STRIPS:
        data.left_out.append(f"Storage is shown for the {MOST_STRIPS} largest of {len(sizes)} streams.")
    bad = [row for row in recordings if row["status"] in _BAD]
    bad.sort(key=lambda row: -(row["lost_bytes"] or 0))
    data.damaged, data.damaged_count = bad[:MOST_ROWS], len(bad)
    if len(bad) > MOST_ROWS:
        data.left_out.append(f"The table of damaged files has the {MOST_ROWS} worst of {len(bad)}.")


def _add_days(data: ReportData, period: Period, recordings: list[Row]) -> None:
    """Hours of each day; a recording that goes on over midnight belongs to both."""
    seconds: dict[datetime, float] = defaultdict(float)
    for row in recordings:
        if not row["duration_ms"] or row["started_at"] is None:
            continue
        begin = max(row["started_at"], period.begin)
        end = min(row["started_at"] + timedelta(milliseconds=row["duration_ms"]), period.end)
        while begin < end:
            midnight = day_of(begin) + timedelta(days=1)
            seconds[day_of(begin)] += (min(midnight, end) - begin).total_seconds()
            begin = midnight
    days = following_days(period.begin, period.end)
    data.days_per_bar = -(-len(days) // MOST_BARS)
    groups = [days[first : first + data.days_per_bar] for first in range(0, len(days), data.days_per_bar)]
    data.days = [(group[0], sum(seconds[day] for day in group)) for group in groups]


def _add_bitrates(
    data: ReportData, period: Period, snapshot: Snapshot, recordings: list[Row], keys: list[str]
) -> None:
    of_streams = _by_key(recordings)
    for key in keys:
        app, name = split_key(key)
        shown = _shown(of_streams.get(key, []), period)
        where = (pc.field("app") == app) & (pc.field("stream") == name)
        columns = ["file_id", "second", "wall", "video_bytes", "audio_bytes"]
        table = whole_seconds(snapshot.arrow("seconds", columns, where, _days(shown)), recordings)
        size = pc.multiply(pc.add(table["video_bytes"], table["audio_bytes"]), 0.008)
        curve = curve_of(key, shown, table["wall"], size, shown.step(_SHORTEST_STEP))
        if any(value is not None for value in curve.values):
            data.bitrates.append(curve)


def _shown(recordings: list[Row], period: Period) -> Period:
    """All of the time if a stream was on for a good part of it, and otherwise its last broadcast."""
    spans = _joined(recordings, timedelta(minutes=15))
    on = sum((span["end"] - span["begin"]).total_seconds() for span in spans)
    if not spans or on > period.seconds / 3:
        return period
    last = spans[-1]
    return Period(max(last["begin"], period.begin), min(last["end"], period.end))


def _add_timeline(data: ReportData, period: Period, snapshot: Snapshot, recordings: list[Row]) -> None:
    columns = ["app", "stream", "wall", "kind", "length_ms", "detail"]
    found = [
        row
        for row in snapshot.arrow("incidents", columns, days=_days(period)).to_pylist()
        if row["wall"] is not None and period.begin <= row["wall"] <= period.end
    ]
    data.incident_kinds = Counter(row["kind"] for row in found)
    sessions, incidents = _by_key(recordings), _by_key(found)
    # Those with most incidents, and then those with most recordings, are of most interest.
    keys = sorted(
        sessions.keys() | incidents.keys(),
        key=lambda key: (-len(incidents.get(key, ())), -len(sessions.get(key, ())), key),
    )
    for key in keys[:MOST_STRIPS]:
        # What follows so closely that nobody could see the gap is drawn as one.
        gap = timedelta(seconds=max(5.0, period.seconds / 1000))
        data.sessions[key] = _joined(sessions.get(key, []), gap)[-MOST_SPANS:]
        data.incidents[key] = _bounded(data, incidents.get(key, []), f"incidents of {key}", "length_ms")
    if len(keys) > MOST_STRIPS:
        data.left_out.append(
            f"The timeline has {MOST_STRIPS} of {len(keys)} streams: those with most incidents."
        )


def _by_key(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[key_of(row)].append(row)
    return found


def _joined(recordings: list[Row], gap: timedelta) -> list[Row]:
    """Recordings that follow each other within a gap, as one."""
    spans: list[Row] = []
    for row in sorted((row for row in recordings if row["ended_at"]), key=lambda row: row["started_at"]):
        if spans and row["started_at"] - spans[-1]["end"] <= gap:
            spans[-1]["end"] = max(spans[-1]["end"], row["ended_at"])
            spans[-1]["files"] += 1
        else:
            spans.append({"begin": row["started_at"], "end": row["ended_at"], "files": 1})
    return spans


def _bounded(data: ReportData, rows: list[Row], what: str, weight: str) -> list[Row]:
    if len(rows) <= MOST_SPANS:
        return rows
    data.left_out.append(f"Of {len(rows)} {what}, the {MOST_SPANS} longest are drawn.")
    return sorted(rows, key=lambda row: -(row[weight] or 0))[:MOST_SPANS]


# -- viewers -------------------------------------------------------------------------------------------------


def _add_viewers(data: ReportData, period: Period, snapshot: Snapshot) -> None:
    plays = snapshot.arrow("viewers", ["started_at", "ended_at", "watch_seconds"], days=_days(period, 30))
    rows = [row for row in plays.to_pylist() if _overlaps(row, "started_at", "ended_at", period)]
    data.plays, data.watch_seconds = len(rows), sum(row["watch_seconds"] for row in rows)
    table = snapshot.arrow(
        "audience", ["app", "stream", "minute", "peak", "watch_seconds"], days=_days(period)
    )
    if not len(table):
        return
    minutes = table.group_by(["app", "stream", "minute"]).aggregate(
        [("peak", "sum"), ("watch_seconds", "sum")]
    )
    everybody = minutes.group_by("minute").aggregate([("peak_sum", "sum")])
    best = max(everybody.to_pylist(), key=lambda row: (row["peak_sum_sum"], -row["minute"].timestamp()))
    data.peak, data.peak_at = int(best["peak_sum_sum"]), best["minute"]
    step = period.step(60)
    data.viewers.append(_highest("all streams", period, everybody["minute"], everybody["peak_sum_sum"], step))
    watched = minutes.group_by(["app", "stream"]).aggregate([("watch_seconds_sum", "sum")]).to_pylist()
    watched.sort(key=lambda row: -row["watch_seconds_sum_sum"])
    if len(watched) > 1:
        for row in watched[:MOST_LINES]:
            of_one = minutes.filter(
                pc.and_(pc.equal(minutes["app"], row["app"]), pc.equal(minutes["stream"], row["stream"]))
            )
            data.viewers.append(_highest(key_of(row), period, of_one["minute"], of_one["peak_sum"], step))
    if len(watched) > MOST_LINES:
        data.left_out.append(
            f"Viewers are drawn for the {MOST_LINES} most watched of {len(watched)} streams, and all together."
        )


def _highest(name: str, period: Period, times: pa.ChunkedArray, values: pa.ChunkedArray, step: int) -> Curve:
    """The highest of each step, 0 where nobody watched."""
    curve = curve_of(name, period, times, values, step)
    return attrs.evolve(curve, values=[value or 0.0 for value in curve.high], low=[], high=[])


# -- destinations --------------------------------------------------------------------------------------------


def _add_destinations(data: ReportData, period: Period, snapshot: Snapshot) -> None:
    found = list_destinations(snapshot, Scope(period.begin, period.end))
    found = [row for row in found if row["live_hours"] or row["outages"]]
    data.destinations = found[:MOST_STRIPS]
    if len(found) > MOST_STRIPS:
        data.left_out.append(f"Of {len(found)} destinations, the {MOST_STRIPS} worst are shown.")
    columns = ["destination", "app", "stream", "state", "began", "ended", "seconds"]
    states = snapshot.arrow("destination_states", columns, days=_days(period, 60)).to_pylist()
    by_name: dict[str, list[Row]] = defaultdict(list)
    for row in states:
        row["until"] = row["began"] + timedelta(seconds=row["seconds"])
        if row["began"] <= period.end and row["until"] >= period.begin:
            by_name[row["destination"]].append(row)
    for row in data.destinations:
        name = row["destination"]
        data.states[name] = _bounded(data, by_name[name], f"changes of {name}", "seconds")
    columns = [
        "destination",
        "app",
        "stream",
        "began",
        "ended",
        "seconds",
        "error",
        "lost_messages",
        "ended_how",
    ]
    outages = snapshot.arrow("outages", columns, days=_days(period, 60)).to_pylist()
    outages = [row for row in outages if _overlaps(row, "began", "ended", period)]
    outages.sort(key=lambda row: -row["seconds"])
    data.outages, data.outage_count = outages[:MOST_ROWS], len(outages)
    if len(outages) > MOST_ROWS:
        data.left_out.append(f"The table of outages has the {MOST_ROWS} longest of {len(outages)}.")
