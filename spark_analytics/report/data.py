"""What the page shows, gathered from the tables and cut down to what a page can hold. No Spark is needed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pyarrow.compute as pc

from rtmprelay.flv.names import split_key
from spark_analytics.questions.api import list_audience, list_destinations, list_viewers
from spark_analytics.questions.ask import ALWAYS, EVER, Scope, TimeWindow
from spark_analytics.report.curves import Bars, Curve, Period, bars_of, curve_of, whole_seconds
from spark_analytics.store.versions import Snapshot

Row = dict[str, Any]
Times = list[tuple[datetime, datetime]]

#: What a page can hold. Everything else is counted, and the page says so.
MOST_BITRATES = 3
MOST_LINES = 5
MOST_STRIPS = 16
MOST_SPANS = 400
MOST_ROWS = 12

#: Seconds between two points of a bitrate: the last second of a file is not counted, and must leave no hole.
_SHORTEST_STEP = 2

#: There is no plot of thousands of years.
_FIRST_DRAWN, _LAST_DRAWN = datetime(1970, 1, 1, tzinfo=UTC), datetime(2300, 1, 1, tzinfo=UTC)

#: What is read for it.
READ_TABLES = (
    "recordings",
    "sessions",
    "incidents",
    "seconds",
    "servers",
    "viewers",
    "destinations",
    "destination_states",
    "outages",
)

_NAMES = ("app", "stream", "destination")

_BAD = ("truncated", "damaged", "not_flv", "empty", "header_only", "unreadable")


@attrs.define
class ReportData:
    """Everything on the page. Numbers and dates are of all there is, and lists are what can be drawn of it.

    Attributes:
        uptime_percent: Of the live time of all destinations together; None if none was live.
        left_out: Sentences about what is not on it.
    """

    period: Period | None = None
    recordings: int = 0
    recorded_seconds: float = 0.0
    bytes: int = 0
    streams: int = 0
    bars: Bars = attrs.field(factory=Bars)
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
    uptime_percent: float | None = None
    destinations: list[Row] = attrs.field(factory=list)
    states: dict[str, list[Row]] = attrs.field(factory=dict)
    outages: list[Row] = attrs.field(factory=list)
    outage_count: int = 0
    left_out: list[str] = attrs.field(factory=list)


def gather(snapshot: Snapshot, window: TimeWindow = ALWAYS, streams: Iterable[str] = ()) -> ReportData:
    """Read the tables.

    Args:
        window: What is outside is left out.
        streams: Those whose bitrate is shown; by default, those with most hours.
    """
    data = ReportData(has_events=snapshot.has("event_files"))
    recordings = _recordings(snapshot)
    data.period = _period(snapshot, recordings, window)
    if data.period is None:
        return data
    shown = _Shown(snapshot, window, data.period)
    recordings = [row for row in recordings if window.overlaps(row["started_at"], row["ended_at"])]
    _add_recordings(data, shown, recordings)
    _add_bitrates(data, shown, recordings, list(streams) or _longest(shown, recordings))
    _add_timeline(data, shown, recordings)
    _add_viewers(data, shown)
    _add_destinations(data, shown)
    return data


@attrs.frozen
class _Shown:
    """What the page is about: what is counted, and the time that is drawn, which has an end in any case."""

    snapshot: Snapshot
    window: TimeWindow
    period: Period

    def rows(self, table: str, columns: list[str], begin: str, end: str) -> list[Row]:
        """Rows that overlap with the time, however long ago they began."""
        days = self.window.days(before=EVER)
        where = self.window.where(begin, end)
        rows = self.snapshot.arrow(table, columns, where, days).to_pylist()
        # Catalogues may have rows of events that lacked a name, and names are compared and sorted.
        return [{name: row[name] or "" if name in _NAMES else row[name] for name in row} for row in rows]

    def recorded(self, recording: Row) -> tuple[datetime, datetime]:
        """The part of a recording that is in the time."""
        begin: datetime = recording["started_at"]
        length = timedelta(milliseconds=recording["duration_ms"] or 0)
        return self.window.clipped(begin, begin + length)

    def recorded_seconds(self, recording: Row) -> float:
        """How long that part is."""
        begin, end = self.recorded(recording)
        return max(0.0, (end - begin).total_seconds())


def key_of(row: Row) -> str:
    """The stream of a row, as people write it."""
    return f"{row['app']}/{row['stream']}" if row["app"] else str(row["stream"])


def _period(snapshot: Snapshot, recordings: list[Row], window: TimeWindow) -> Period | None:
    """What was asked for, or else from the first to the last thing that is known."""
    times = [row[name] for row in recordings for name in ("started_at", "ended_at") if row[name] is not None]
    if snapshot.has("servers"):
        servers = snapshot.arrow("servers", ["started_at", "last_seen"]).to_pylist()
        times += [time for row in servers for time in row.values()]
    if not times:
        return None
    begin, end = window.since or min(times), window.until or max(times)
    if begin > end:
        # All there is was before, or will be after.
        begin, end = (begin, begin) if window.since is not None else (end, end)
    begin, end = (min(max(time, _FIRST_DRAWN), _LAST_DRAWN) for time in (begin, end))
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


def _longest(shown: _Shown, recordings: list[Row]) -> list[str]:
    seconds: dict[str, float] = defaultdict(float)
    for row in recordings:
        seconds[key_of(row)] += shown.recorded_seconds(row)
    longest_first = sorted(seconds, key=lambda key: -seconds[key])
    return [key for key in longest_first[:MOST_BITRATES] if seconds[key]]


def _add_recordings(data: ReportData, shown: _Shown, recordings: list[Row]) -> None:
    data.recordings = len(recordings)
    data.recorded_seconds = sum(map(shown.recorded_seconds, recordings))
    data.bytes = sum(row["size"] or 0 for row in recordings)
    data.bars = bars_of(shown.period, map(shown.recorded, recordings))
    sizes: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for row in recordings:
        sizes[key_of(row)] += row["size"] or 0
        seconds[key_of(row)] += row["duration_ms"] or 0
    data.streams = len(sizes)
    data.storage = [(key, size, seconds[key] / 1000) for key, size in sizes.most_common(MOST_STRIPS)]
    if len(sizes) > MOST_STRIPS:
        data.left_out.append(f"Storage is shown for the {MOST_STRIPS} largest of {len(sizes)} streams.")
    bad = [row for row in recordings if row["status"] in _BAD]
    bad.sort(key=lambda row: -(row["lost_bytes"] or 0))
    data.damaged, data.damaged_count = bad[:MOST_ROWS], len(bad)
    if len(bad) > MOST_ROWS:
        data.left_out.append(f"The table of damaged files has the {MOST_ROWS} worst of {len(bad)}.")


def _add_bitrates(data: ReportData, shown: _Shown, recordings: list[Row], keys: list[str]) -> None:
    of_streams = _by_key(recordings)
    for key in keys:
        period = _on_air(of_streams.get(key, []), shown)
        app, name = split_key(key)
        where = (pc.field("app") == app) & (pc.field("stream") == name) & shown.window.where("wall")
        columns = ["file_id", "second", "wall", "video_bytes", "audio_bytes"]
        days = TimeWindow(period.begin, period.end).days()
        table = whole_seconds(shown.snapshot.arrow("seconds", columns, where, days), recordings)
        size = pc.multiply(pc.add(table["video_bytes"], table["audio_bytes"]), 0.008)
        curve = curve_of(key, period, table["wall"], size, period.step(_SHORTEST_STEP))
        if any(value is not None for value in curve.values):
            data.bitrates.append(curve)


def _on_air(recordings: list[Row], shown: _Shown) -> Period:
    """All of the time if a stream was on for a good part of it, and otherwise its last broadcast."""
    spans = _joined(recordings, timedelta(minutes=15))
    on = sum(shown.window.seconds_of(span["begin"], span["end"]) for span in spans)
    if not spans or on > shown.period.seconds / 3:
        return shown.period
    return Period(*shown.window.clipped(spans[-1]["begin"], spans[-1]["end"]))


def _add_timeline(data: ReportData, shown: _Shown, recordings: list[Row]) -> None:
    columns = ["app", "stream", "wall", "kind", "length_ms", "detail"]
    where, days = shown.window.where("wall"), shown.window.days()
    found = shown.snapshot.arrow("incidents", columns, where, days).to_pylist()
    data.incident_kinds = Counter(row["kind"] for row in found)
    sessions, incidents = _by_key(recordings), _by_key(found)
    # Those with most incidents, and then those with most recordings, are of most interest.
    keys = sorted(
        sessions.keys() | incidents.keys(),
        key=lambda key: (-len(incidents.get(key, ())), -len(sessions.get(key, ())), key),
    )
    for key in keys[:MOST_STRIPS]:
        # What follows so closely that nobody could see the gap is drawn as one.
        gap = timedelta(seconds=max(5.0, shown.period.seconds / 1000))
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


def _add_viewers(data: ReportData, shown: _Shown) -> None:
    scope = Scope(shown.window)
    for everybody in list_viewers(shown.snapshot, scope, together=True):
        data.plays, data.watch_seconds = everybody["plays"], 3600 * everybody["watch_hours"]
        data.peak, data.peak_at = everybody["peak"], everybody["peak_at"]
    if not data.peak:
        return
    data.viewers.append(_at_the_same_time("all streams", shown, None))
    streams = list_viewers(shown.snapshot, scope)
    streams.sort(key=lambda row: -row["watch_hours"])
    if len(streams) > 1:
        data.viewers += [_at_the_same_time(key_of(row), shown, key_of(row)) for row in streams[:MOST_LINES]]
    if len(streams) > MOST_LINES:
        data.left_out.append(
            f"Viewers are drawn for the {MOST_LINES} most watched of {len(streams)} streams, and all together."
        )


def _at_the_same_time(name: str, shown: _Shown, key: str | None) -> Curve:
    """The most viewers of each step, 0 where nobody watched; of one stream, or of all together."""
    step = shown.period.step_of_counts()
    scope = Scope(TimeWindow(shown.period.begin, shown.period.end), key)
    drawn = list_audience(shown.snapshot, scope, 1_000_000 * step, together=key is None)
    peaks = {int(row["minute"].timestamp()) // step: row["viewers"] for row in drawn}
    times = shown.period.times(step)
    values: list[float | None] = [float(peaks.get(int(time.timestamp()) // step, 0)) for time in times]
    return Curve(name, shown.period, times, values)


# -- destinations --------------------------------------------------------------------------------------------

_OUTAGE = ["destination", "app", "stream", "began", "ended", "seconds", "error", "lost_messages", "ended_how"]


def _add_destinations(data: ReportData, shown: _Shown) -> None:
    found = list_destinations(shown.snapshot, Scope(shown.window))
    found = [row for row in found if row["live_hours"] or row["outages"]]
    data.uptime_percent = _uptime_of_all(found)
    outages = shown.rows("outages", _OUTAGE, "began", "ended")
    seconds_out = _seconds_out(shown.window, outages)
    for row in found:
        row["out_seconds"] = seconds_out[row["destination"]]
    # Those of the same length stay in their order: the worst percentage first.
    found.sort(key=lambda row: -row["out_seconds"])
    data.destinations = found[:MOST_STRIPS]
    if len(found) > MOST_STRIPS:
        data.left_out.append(
            f"Of {len(found)} destinations, the {MOST_STRIPS} that were out longest are shown."
        )
    _add_states(data, shown)
    outages.sort(key=lambda row: -row["seconds"])
    data.outages, data.outage_count = outages[:MOST_ROWS], len(outages)
    if len(outages) > MOST_ROWS:
        data.left_out.append(f"The table of outages has the {MOST_ROWS} longest of {len(outages)}.")


def _uptime_of_all(destinations: list[Row]) -> float | None:
    live = sum(row["live_hours"] for row in destinations)
    connected = sum(row["live_hours"] * (row["uptime_percent"] or 0.0) for row in destinations)
    return connected / live if live else None


def _seconds_out(window: TimeWindow, outages: list[Row]) -> dict[str, float]:
    """How long each destination was out; what several streams lost at the same time counts once."""
    times: dict[str, Times] = defaultdict(list)
    for row in outages:
        times[row["destination"]].append((row["began"], row["began"] + timedelta(seconds=row["seconds"])))
    seconds = {
        name: sum(window.seconds_of(begin, end) for begin, end in joined_times(of_one))
        for name, of_one in times.items()
    }
    return defaultdict(float, seconds)


def joined_times(times: Iterable[tuple[datetime, datetime]]) -> Times:
    """The same times without what is in two of them: a destination that is out is out for several streams."""
    found: Times = []
    for begin, end in sorted(times):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def _add_states(data: ReportData, shown: _Shown) -> None:
    columns = ["destination", "app", "stream", "state", "began", "ended", "seconds"]
    by_name: dict[str, list[Row]] = defaultdict(list)
    for row in shown.rows("destination_states", columns, "began", "ended"):
        row["until"] = row["began"] + timedelta(seconds=row["seconds"])
        if shown.window.overlaps(row["began"], row["until"]):
            by_name[row["destination"]].append(row)
    for row in data.destinations:
        name = row["destination"]
        data.states[name] = _bounded(data, by_name[name], f"changes of {name}", "seconds")
