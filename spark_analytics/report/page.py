"""The page itself: sections with a sentence that says what one sees, and a plot or a table that shows it."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files

from spark_analytics.report import plots
from spark_analytics.report.curves import Curve, Period
from spark_analytics.report.data import ReportData, Row, key_of
from spark_analytics.report.pieces import (
    both,
    bytes_in_words,
    duration,
    hours,
    legend,
    moment,
    plural,
    quantity,
    section,
    table,
    text,
)
from spark_analytics.report.recorded import recorded_over_time

_COLOURS = ("c1", "c2", "c3", "c4", "c5", "c6")

#: The colours of incidents; all others are kinds of damage.
_KINDS = {
    "gap": "c2",
    "freeze": "c4",
    "silence": "c3",
    "timestamp_jump": "c5",
    "codec_change": "c6",
    "av_drift": "warn",
}

_STATES = {"connected": "good", "connecting": "warn", "down": "bad"}


@cache
def style() -> str:
    """How the page looks, without the comment."""
    text = (files("spark_analytics.report") / "style.css").read_text(encoding="utf-8")
    return text.partition("*/")[2]


def render(data: ReportData, heading: str, made_at: datetime) -> str:
    """The whole document."""
    if data.period is None:
        body = section(
            "Nothing is in this catalogue yet",
            "Index recordings and event logs, and make the page again:",
            "<p><code>python -m spark_analytics index RECORDINGS --events DIR --out CATALOGUE</code></p>",
        )
        period = "no recordings and no events"
    else:
        body = _tiles(data) + "".join(part(data, data.period) for part in _SECTIONS)
        period = f"{moment(data.period.begin)} to {moment(data.period.end)} (UTC)"
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{text(heading)}</title><style>{style()}</style></head>\n"
        f"<body><main><header><h1>{text(heading)}</h1>"
        f'<p class="soft">{text(period)}</p></header>\n{body}{_footer(data, made_at)}</main></body></html>\n'
    )


def _tiles(data: ReportData) -> str:
    tiles = [
        (hours(data.recorded_seconds), f"recorded in {plural(data.recordings, 'file')}"),
        (bytes_in_words(data.bytes), f"in files of {plural(data.streams, 'stream')}"),
        (f"{data.damaged_count:,}", "damaged files" if data.damaged_count != 1 else "damaged file"),
    ]
    if data.has_events:
        tiles += [
            (hours(data.watch_seconds), f"watched in {plural(data.plays, 'play')}"),
            (f"{data.peak:,}", "viewers at the same time, at most"),
        ]
        if data.uptime_percent is not None:
            tiles.append((f"{data.uptime_percent:.2f} %", "of live time at destinations"))
    cells = "".join(
        f'<div class="tile"><b>{text(value)}</b><span>{text(what)}</span></div>' for value, what in tiles
    )
    return f'<div class="tiles">{cells}</div>\n'


# -- recordings ----------------------------------------------------------------------------------------------


def _bitrates(data: ReportData, period: Period) -> str:
    parts = []
    for curve, colour in zip(data.bitrates, _COLOURS, strict=False):
        parts.append(f"<h3>{text(_bitrate_title(curve, period))}</h3>{_bitrate_plot(curve, colour)}")
    if not parts:
        return ""
    names = ", ".join(curve.name for curve in data.bitrates)
    return section(
        f"Bitrate over time of {names}",
        "kbit/s of audio and video. The line is the average of some seconds; the band reaches from the slowest second to"
        " the fastest. Where there is no line, nothing was recorded. Of streams that are not always on, the last broadcast"
        " is shown.",
        "".join(parts),
    )


def _bitrate_title(curve: Curve, period: Period) -> str:
    values = [value for value in curve.values if value is not None]
    highest = max(value for value in curve.high if value is not None)
    average = sum(values) / len(values)
    when = "" if curve.period == period else f", {moment(curve.period.begin)} to {moment(curve.period.end)}"
    return f"{curve.name}{when}: {quantity(average)} kbit/s on average, {quantity(highest)} in the fastest second"


def _bitrate_plot(curve: Curve, colour: str) -> str:
    points = list(zip(curve.times, curve.values, strict=True))
    series = plots.Series(curve.name, points, colour, curve.low, curve.high)
    label = f"Bitrate of {curve.name}"
    return both(
        lambda width: plots.line_chart([series], curve.period.begin, curve.period.end, width, label, 170.0)
    )


def _incidents(data: ReportData, period: Period) -> str:
    if not data.sessions:
        return ""
    kinds = [kind for kind, _ in data.incident_kinds.most_common()]
    strips = [
        plots.Strip(key, [*_recorded(data.sessions[key]), *_marks(data.incidents[key])])
        for key in data.sessions
    ]
    total = sum(data.incident_kinds.values())
    counts = ", ".join(
        f"{kind.replace('_', ' ')} ({count:,})" for kind, count in data.incident_kinds.most_common(4)
    )
    title = (
        f"{plural(total, 'incident')} in the recordings: {counts}"
        if total
        else "The recordings have no incidents"
    )
    entries = [("recorded", "c1"), *((kind.replace("_", " "), _KINDS.get(kind, "bad")) for kind in kinds)]
    label = "When each stream was recorded, and where something is wrong with it"
    return section(
        title,
        "When each stream was recorded, and where something is wrong: a gap, a freeze, damage. Times are UTC.",
        legend(entries) + both(lambda width: plots.timeline(strips, period.begin, period.end, width, label)),
    )


def _recorded(sessions: list[Row]) -> list[plots.Span]:
    return [
        plots.Span(
            row["begin"],
            row["end"],
            "c1",
            f"recorded from {moment(row['begin'])} to {moment(row['end'])} in {plural(row['files'], 'file')}",
        )
        for row in sessions
    ]


def _marks(incidents: list[Row]) -> list[plots.Span]:
    return [
        plots.Span(
            row["wall"],
            row["wall"] + timedelta(milliseconds=row["length_ms"] or 0),
            _KINDS.get(row["kind"], "bad"),
            f"{row['kind'].replace('_', ' ')} at {moment(row['wall'])}"
            + (f", {duration(row['length_ms'] / 1000)}" if row["length_ms"] else "")
            + (f": {row['detail']}" if row["detail"] else ""),
        )
        for row in incidents
    ]


def _storage(data: ReportData, period: Period) -> str:
    if not data.storage:
        return ""
    largest = data.storage[0]
    bars = [
        plots.Bar(
            key,
            size,
            f"{key}: {bytes_in_words(size)} in {duration(seconds)}",
            "c1",
            f"{bytes_in_words(size)}, {duration(seconds)}",
        )
        for key, size, seconds in data.storage
    ]
    title = f"{largest[0]} takes most room: {bytes_in_words(largest[1])} of {bytes_in_words(data.bytes)}"
    return section(
        title,
        "Bytes of all recordings of each stream that have something of this time, and how long they are: the whole files,"
        " also of before and after.",
        both(lambda width: plots.horizontal_bars(bars, float(largest[1]), width, "Storage of each stream")),
    )


def _damaged(data: ReportData, period: Period) -> str:
    if not data.recordings:
        return ""
    if not data.damaged:
        return section(
            "No file is damaged", f"All {plural(data.recordings, 'file')} could be read to the end.", ""
        )
    rows = [
        (
            row["status"].replace("_", " "),
            row["path"],
            key_of(row),
            moment(row["started_at"]) if row["started_at"] else "",
            duration((row["duration_ms"] or 0) / 1000),
            bytes_in_words(row["lost_bytes"] or 0),
            row["error"] or "",
        )
        for row in data.damaged
    ]
    columns = [
        ("status", ""),
        ("file", "w"),
        ("stream", "w"),
        ("begun (UTC)", "t"),
        ("usable", "n"),
        ("lost", "n"),
        ("why", "w"),
    ]
    return section(
        f"{plural(data.damaged_count, 'file')} of {data.recordings:,} {'is' if data.damaged_count == 1 else 'are'} damaged",
        "What could be saved is in the catalogue. To make a file whole again: python -m rtmprelay.flv repair FILE",
        table(columns, rows),
    )


# -- viewers and destinations --------------------------------------------------------------------------------


def _viewers(data: ReportData, period: Period) -> str:
    if not data.has_events:
        return section(
            "Nothing is known of viewers and destinations",
            "No event log is indexed: start the server with --event-log DIR, and index with --events DIR.",
            "",
        )
    if not data.viewers or data.peak_at is None:
        return section("Nobody watched", "There is no play in this time.", "")
    series = [
        plots.Series(
            curve.name,
            list(zip(curve.times, curve.values, strict=True)),
            colour,
            filled=index == 0,
            stepped=True,
        )
        for index, (curve, colour) in enumerate(zip(data.viewers, _COLOURS, strict=False))
    ]
    colours = legend([(one.name, one.class_) for one in series]) if len(series) > 1 else ""
    label = "Viewers at the same time"
    return section(
        f"At most {plural(data.peak, 'viewer')} watched at the same time: on {data.peak_at.day} {data.peak_at:%B at %H:%M}",
        f"Most viewers at the same time in each step. {plural(data.plays, 'play')}, {duration(data.watch_seconds)} watched.",
        colours
        + both(lambda width: plots.line_chart(series, period.begin, period.end, width, label, whole=True)),
    )


def _destinations(data: ReportData, period: Period) -> str:
    if not data.destinations:
        title = "Nothing was sent to destinations"
        return section(title, "There is none in this time.", "") if data.has_events else ""
    worst = data.destinations[0]
    bars = [
        plots.Bar(
            row["destination"],
            row["out_seconds"],
            f"{row['destination']}: connected {_percent(row)} of {quantity(row['live_hours'])} live hours of its streams, "
            f"out for {duration(row['out_seconds'])}",
            _severity(row),
            f"{_percent(row)} up, {plural(row['outages'], 'outage')}",
        )
        for row in data.destinations
    ]
    strips = [
        plots.Strip(name, [_state(row) for row in sorted(rows, key=_drawn_last)])
        for name, rows in data.states.items()
    ]
    out = both(
        lambda width: plots.horizontal_bars(
            bars, worst["out_seconds"], width, "How long destinations were out"
        )
    )
    when = both(
        lambda width: plots.timeline(strips, period.begin, period.end, width, "When destinations were out")
    )
    colours = legend([("connected", "good"), ("connecting for the first time", "warn"), ("out", "bad")])
    return section(
        _out_longest(worst),
        "Longest first: the bar is how long a destination was out; what several streams lost at the same time counts once."
        " Below is when that was.",
        f"{out}<h3>When each destination was connected, and when it was out</h3>{colours}{when}",
    )


def _out_longest(worst: Row) -> str:
    if not worst["out_seconds"]:
        return "No destination was out"
    return (
        f"{worst['destination']} was out longest: {duration(worst['out_seconds'])}; "
        f"it was up {_percent(worst)} of the live time of its streams"
    )


def _severity(row: Row) -> str:
    uptime = row["uptime_percent"] or 0.0
    return "good" if uptime >= 99.9 else "warn" if uptime >= 98 else "bad"


def _drawn_last(row: Row) -> tuple[int, datetime]:
    """What is short and bad is drawn over what is long and good."""
    return list(_STATES).index(row["state"]) if row["state"] in _STATES else -1, row["began"]


def _percent(row: Row) -> str:
    return "never live" if row["uptime_percent"] is None else f"{row['uptime_percent']:.2f} %"


def _state(row: Row) -> plots.Span:
    hint = f"{key_of(row)}: {row['state']} from {moment(row['began'])}, {duration(row['seconds'])}"
    return plots.Span(row["began"], row["until"], _STATES.get(row["state"], "c6"), hint)


def _outages(data: ReportData, period: Period) -> str:
    if not data.outages:
        return ""
    rows = [
        (
            row["destination"],
            key_of(row),
            moment(row["began"]),
            duration(row["seconds"]),
            "not told" if row["lost_messages"] is None else f"{row['lost_messages']:,}",
            row["error"] or "",
            row["ended_how"],
        )
        for row in data.outages
    ]
    columns = [
        ("destination", "w"),
        ("stream", "w"),
        ("began (UTC)", "t"),
        ("lasted", "n"),
        ("messages lost", "n"),
        ("why", "w"),
        ("end", ""),
    ]
    longest = data.outages[0]
    return section(
        f"{plural(data.outage_count, 'outage')} of destinations, the longest {duration(longest['seconds'])} ({longest['destination']})",
        "Longest first. Messages lost are those that the destination never got; the recordings have them.",
        table(columns, rows),
    )


def _footer(data: ReportData, made_at: datetime) -> str:
    left_out = "".join(f"<li>{text(sentence)}</li>" for sentence in data.left_out)
    notes = f"<p>Not on this page:</p><ul>{left_out}</ul>" if left_out else ""
    return (
        f"<footer>{notes}<p>Made at {text(moment(made_at))} UTC. Everything here and more is in the tables: "
        '<code>python -m spark_analytics sql "SELECT ..."</code></p></footer>'
    )


_SECTIONS = (
    recorded_over_time,
    _viewers,
    _destinations,
    _outages,
    _bitrates,
    _incidents,
    _storage,
    _damaged,
)
