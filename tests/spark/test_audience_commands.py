"""The commands about viewers and destinations, and what they say to names that nobody knows."""

from __future__ import annotations

import json
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_analytics.__main__ import main
from spark_analytics.cli.common import parse_time
from tests.spark.report_world import Row, write
from tests.spark.test_audience_questions import NOON, at, outage, play, recording, report
from tests.spark.test_audience_questions import root as root


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main([*arguments, "--format", "json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_commands(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--catalogue", str(root))
    assert [row["stream"] for row in run(capsys, "viewers", *where)] == ["other", "test"]
    (row,) = run(capsys, "viewers", "live/test", *where, "--until", "2026-11-16")
    assert row["plays"] == 3
    assert len(run(capsys, "viewers", "live/test", "--plays", *where)) == 3
    assert len(run(capsys, "viewers", "live/test", "--minutes", *where)) == 60
    assert len(run(capsys, "destinations", *where)) == 2
    assert len(run(capsys, "destinations", "YouTube", "--by-day", *where)) == 2
    arguments = (
        "outages",
        "live/test",
        "--destination",
        "YouTube",
        "--since",
        "2026-11-15",
        "--until",
        "2026-11-16",
    )
    (row,) = run(capsys, *arguments, *where)
    assert (row["viewers_dropped"], row["byte_offset"]) == (27, 70_000)
    assert main(["viewers", "live/other", "--until", "2026-11-01", *where]) == 0
    assert capsys.readouterr().err == "nobody watched live/other in this time\n"
    assert main(["destinations", "idle", "--since", "2026-12-01", *where]) == 0
    assert capsys.readouterr().err == "nothing was sent to idle in this time\n"
    assert main(["outages", *where]) == 0
    table = capsys.readouterr().out
    assert table.splitlines()[0].split()[:3] == ["destination", "app", "stream"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["viewers", "live/nix"], "Nothing is known of live/nix in "),
        (["viewers", "live/nix", "--minutes"], "Nothing is known of live/nix in "),
        (["outages", "live/nix"], "Nothing is known of live/nix in "),
        (["outages", "--destination", "Nix"], "There is no destination Nix in "),
        (["destinations", "Nix"], "There is no destination Nix in "),
        (["destinations", "you\x1b[2J"], "There is no destination you?[2J in "),
    ],
)
def test_a_name_that_nobody_knows_is_a_mistake(
    root: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main([*arguments, "--catalogue", str(root)]) == 1
    out, error = capsys.readouterr()
    assert (out, len(error.splitlines())) == ("", 1)
    assert error.startswith(words)
    if "destination" in words:
        assert error.endswith("; there are: Twitch, YouTube, idle.\n")


def test_a_stream_that_is_known_need_not_have_viewers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was recorded, and published."""
    publish = {"app": "live", "stream": "quiet", "started_at": at(0), "instance": "i1"}
    logs = [{"file_id": "f", "path": "x", "day": NOON.date()}]
    tables = {"recordings": [recording("a", 0, 1)], "publishes": [publish], "event_files": logs}
    write(tmp_path, tables)
    for key in ("live/test", "live/quiet"):
        assert main(["viewers", key, "--catalogue", str(tmp_path)]) == 0
        assert capsys.readouterr().err == f"nobody watched {key}\n"
        assert main(["outages", key, "--catalogue", str(tmp_path)]) == 0
        assert capsys.readouterr().err == "the event logs have no such outage\n"


def test_a_catalogue_without_events_says_how_to_get_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, {"recordings": [recording("a", 0, 1)]})
    for command in ("viewers", "destinations", "outages"):
        assert main([command, "--catalogue", str(tmp_path)]) == 0
        assert "start the server with --event-log DIR" in capsys.readouterr().err


def test_days_by_their_names() -> None:
    today = parse_time("today")
    assert (today.hour, today.minute, today.tzinfo) == (0, 0, UTC)
    assert today - parse_time("yesterday") == timedelta(days=1)


@pytest.mark.parametrize(
    "command",
    [
        ["viewers"],
        ["viewers", "--plays"],
        ["viewers", "--minutes"],
        ["outages"],
        ["destinations"],
        ["destinations", "--since", "2026-11-15T11:00:00", "--until", "2026-11-15T13:00:00"],
        ["report", "--html", "-"],
        ["report", "--html", "-", "--since", "2026-11-15T11:00:00"],
    ],
    ids=" ".join,
)
def test_rows_without_names_are_borne_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """Older catalogues may have such rows, beside others: of events that lacked a field."""
    nameless = dict.fromkeys(("app", "stream", "destination", "connection", "who", "instance", "peer"))
    state = {"state": "connected", "began": at(0), "ended": at(9), "seconds": 540.0}
    rows: dict[str, Row] = {
        "viewers": play("c1", 0, 20),
        "publishes": {"app": "live", "stream": "test", "started_at": at(0), "instance": "i1"},
        "deliveries": report("YouTube", 10, 11, 7, role="destination"),
        "outages": outage("YouTube", 10, 12),
        "destination_states": {**state, "destination": "YouTube", "app": "live", "stream": "test"},
        "destinations": {"destination": "YouTube", "live_seconds": 3600.0, "outages": 1, "day": NOON.date()},
        "events": {"event": "destination_dropped", "destination": "YouTube", "time": at(11), "count": 5, "day": NOON.date()},
    }  # fmt: skip
    tables = {
        name: [row, {**row, **{key: None for key in nameless if key in row}}] for name, row in rows.items()
    }
    logs = {"event_files": [{"file_id": "f", "path": "x", "day": NOON.date()}]}
    servers = {"servers": [{"instance": "i1", "started_at": at(0), "last_seen": at(60)}]}
    write(tmp_path, {**tables, **logs, **servers})
    where = [str(tmp_path)] if command[0] == "report" else ["--catalogue", str(tmp_path), "--format", "csv"]
    assert main([*command, *where]) == 0
    lines = capsys.readouterr().out.splitlines()
    # What has no name is told under an empty one.
    assert command[0] == "report" or any(line.startswith(",") for line in lines[1:])
