"""A stream that moved to another node is one broadcast in the catalogue."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[catalogue]'")

from spark_analytics.recordings.sessions import sessions_table  # noqa: E402

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def recording(node: str, begin: float, seconds: float) -> dict[str, Any]:
    """A file that a node has recorded; each node has a folder of its own."""
    started = NOON + timedelta(seconds=begin)
    return {
        "app": "live",
        "stream": "cam",
        "started_at": started,
        "ended_at": started + timedelta(seconds=seconds),
        "path": f"{node}/live_cam_{started:%Y%m%d_%H%M%S}.flv",
        "status": "complete",
        "vanished_at": None,
        "duration_ms": int(seconds * 1000),
        "size": 1000,
        "lost_bytes": 0,
    }


def test_files_of_two_nodes_are_one_session_if_the_stream_moved_in_between() -> None:
    """The encoder lost its connection after ten minutes, and was back at another node four seconds later."""
    files = [recording("node1", 0, 600), recording("node2", 604, 600)]
    (session,) = sessions_table(pa.Table.from_pylist(files)).to_pylist()
    assert session["files"] == 2
    assert [path.partition("/")[0] for path in session["paths"]] == ["node1", "node2"]
    assert session["missing_ms"] == 4000
