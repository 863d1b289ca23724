"""A catalogue that was never indexed: rows made up, for pages that show them."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_analytics.catalogue import Catalogue
from spark_analytics.store.tables import TABLES

Row = dict[str, Any]

FIRST = datetime(2026, 11, 2, tzinfo=UTC)


def write(root: Path, tables: dict[str, list[Row]]) -> None:
    """Make a catalogue with these rows; columns that are not named are null, or 0 if they count something."""
    with Catalogue(root).change() as change:
        for name, rows in tables.items():
            change.replace(name, _table(name, rows))
        change.publish()


def _table(name: str, rows: list[Row]) -> pa.Table:
    table = TABLES[name]
    empty = {column.name: 0 if column.type in ("bigint", "double") else None for column in table.columns}
    filled = [{**empty, **row} for row in rows]
    for row in filled:
        row["day"] = next(
            row[key] for key in ("day", "started_at", "wall", "minute", "began", "ended") if row.get(key)
        )
        row["day"] = row["day"].date() if isinstance(row["day"], datetime) else row["day"]
    return pa.Table.from_pylist(filled, schema=table.arrow_schema())


def two_weeks(streams: int = 4, days: int = 14, viewers: int = 60, seed: int = 3) -> dict[str, list[Row]]:
    """Shows every evening, an audience that grows, two destinations that fail now and then."""
    chance = random.Random(seed)
    names = [
        ("live", "evening show"),
        ("live", "studio-2"),
        ("events", "конференция <b>2026"),
        ("cam", "door"),
        *((f"app{number}", f"stream {number}") for number in range(4, streams)),
    ][:streams]
    tables: dict[str, list[Row]] = {
        name: []
        for name in (
            "recordings",
            "seconds",
            "incidents",
            "event_files",
            "servers",
            "viewers",
            "audience",
            "destination_states",
            "outages",
            "destinations",
        )
    }
    for day in range(days):
        for number, (app, stream) in enumerate(names):
            if (day + number) % (number + 1) == 0:
                _broadcast(
                    tables, chance, app, stream, FIRST + timedelta(days=day, hours=17 + number % 4), number
                )
        _destinations(tables, chance, FIRST + timedelta(days=day, hours=17))
        _audience(tables, chance, names, FIRST + timedelta(days=day), day, viewers)
    tables["servers"].append(
        {
            "instance": "i1",
            "started_at": FIRST,
            "last_seen": FIRST + timedelta(days=days),
            "ended_how": "running",
        }
    )
    tables["event_files"].append({"file_id": "f", "path": "x.jsonl", "day": FIRST.date()})
    return tables


def _broadcast(
    tables: dict[str, list[Row]], chance: random.Random, app: str, stream: str, begin: datetime, number: int
) -> None:
    hours = 3 if number % 2 == 0 else 2
    for part in range(hours * 2):
        started = begin + timedelta(minutes=30 * part)
        length = 1800 - (chance.randint(20, 200) if chance.random() < 0.08 else 0)
        damaged = chance.random() < 0.02
        tables["recordings"].append(
            {
                "file_id": f"{app}{stream}{started}",
                "path": f"/var/rec/{app}_{stream}_{started:%Y%m%d_%H%M%S}.flv",
                "app": app,
                "stream": stream,
                "started_at": started,
                "ended_at": started + timedelta(seconds=length),
                "duration_ms": length * 1000,
                "size": length * (300_000 + 200_000 * number),
                "status": "truncated" if damaged else "ok",
                "lost_bytes": 41_000 if damaged else 0,
            }
        )
        for second in range(0, length, 30):
            rate = 2500 + 900 * number + 500 * math.sin((part * 1800 + second) / 900) + chance.gauss(0, 150)
            tables["seconds"].append(
                {
                    "app": app,
                    "stream": stream,
                    "wall": started + timedelta(seconds=second),
                    "second": second,
                    "video_bytes": int(max(rate, 50) * 125),
                    "audio_bytes": 16_000,
                }
            )
        if length < 1800 or chance.random() < 0.1:
            kind = chance.choice(["gap", "freeze", "timestamp_jump", "av_drift", "codec_change", "damage"])
            tables["incidents"].append(
                {
                    "app": app,
                    "stream": stream,
                    "kind": kind,
                    "wall": started + timedelta(seconds=length),
                    "length_ms": 1000 * (1800 - length) or 4000,
                    "detail": f"{kind} for the test",
                }
            )


def _audience(
    tables: dict[str, list[Row]],
    chance: random.Random,
    names: list[tuple[str, str]],
    day: datetime,
    number: int,
    most: int,
) -> None:
    for minute in range(16 * 60, 23 * 60):
        for index, (app, stream) in enumerate(names):
            form = math.exp(-((minute - (19 + index * 0.7) * 60) ** 2) / (2 * 55**2))
            watching = int(most / (index + 1) * form * (0.5 + number / 20) + chance.random() * 1.2)
            if watching:
                tables["audience"].append(
                    {
                        "app": app,
                        "stream": stream,
                        "minute": day + timedelta(minutes=minute),
                        "peak": watching,
                        "average": watching * 0.95,
                        "watch_seconds": watching * 57.0,
                        "instance": "i1",
                    }
                )
    for play in range(20):
        started = day + timedelta(hours=17, minutes=chance.randint(0, 240))
        seconds = chance.expovariate(1 / 1500)
        app, stream = chance.choice(names)
        tables["viewers"].append(
            {
                "app": app,
                "stream": stream,
                "started_at": started,
                "ended_at": started + timedelta(seconds=seconds),
                "watch_seconds": seconds,
                "messages": int(seconds * 70),
                "bytes": int(seconds * 400_000),
                "dropped": play,
                "startup": None if play % 3 else play / 7,
                "throughput_kbps": None if play % 2 else 100 * play,
                "ended_how": "left",
                "connection": f"c{play:06d}",
                "peer": f"10.0.0.{play}:5",
                "instance": "i1",
            }
        )


def _destinations(tables: dict[str, list[Row]], chance: random.Random, begin: datetime) -> None:
    end = begin + timedelta(hours=3)
    for name, trouble in (
        ("YouTube", 0.5),
        ("archive", 0.05),
        ("Twitch", 0.9),
        ("a very long name of a partner's ingest", 0.2),
    ):
        at = begin
        out = 0.0
        failures = 0
        while at < end:
            up = timedelta(minutes=chance.expovariate(trouble / 60)) if trouble else end - at
            until = min(at + up, end)
            tables["destination_states"].append(_state(name, "connected", at, until))
            if until < end:
                back = min(until + timedelta(seconds=chance.expovariate(1 / 90) + 2), end)
                seconds = (back - until).total_seconds()
                tables["destination_states"].append(_state(name, "down", until, back))
                tables["outages"].append(
                    {
                        "destination": name,
                        "app": "live",
                        "stream": "evening show",
                        "began": until,
                        "ended": back,
                        "seconds": seconds,
                        "error": "the connection was lost",
                        "error_class": "network",
                        "last_error": "nothing listens there (connection refused)",
                        "failures": 2,
                        "lost_messages": int(seconds * 70),
                        "ended_how": "recovered",
                        "instance": "i1",
                    }
                )
                out += seconds
                failures += 1
                until = back
            at = until
        tables["destinations"].append(
            {
                "destination": name,
                "live_seconds": 10_800.0,
                "connected_seconds": 10_800.0 - out,
                "uptime_percent": 100 * (1 - out / 10_800),
                "outages": failures,
                "reconnects": failures,
                "outage_seconds": out,
                "bytes": 3 * 10**9,
                "day": begin.date(),
            }
        )


def _state(name: str, state: str, began: datetime, ended: datetime) -> Row:
    return {
        "destination": name,
        "app": "live",
        "stream": "evening show",
        "state": state,
        "began": began,
        "ended": ended,
        "seconds": (ended - began).total_seconds(),
        "instance": "i1",
    }
