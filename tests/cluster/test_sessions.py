"""A stream that moved to another node is one broadcast in the catalogue."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import deferLater

from tests.cluster.processes import Node, RealCluster, numbers
from tests.cluster.redis import needs_redis
from tests.helpers import group, real_reactor_test, start_frames, the_reactor, until
from tests.spark.event_world import FakeServer, moment
from tests.spark.media import age, record

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[catalogue]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install '.[catalogue]'")

from spark_analytics.__main__ import main  # noqa: E402
from spark_analytics.catalogue import Catalogue  # noqa: E402
from spark_analytics.recordings.sessions import sessions_table  # noqa: E402

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

#: What the directory and an encoder may need together.
AWAY = 40.0


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


def sessions(files: list[dict[str, Any]], *moves: float) -> list[dict[str, Any]]:
    times = [NOON + timedelta(seconds=move) for move in moves]
    rows: list[dict[str, Any]] = sessions_table(
        pa.Table.from_pylist(files), {("live", "cam"): times}
    ).to_pylist()
    return rows


def test_files_of_two_nodes_are_one_session_if_they_follow_each_other_closely() -> None:
    """The encoder lost its connection after ten minutes, and was back at another node four seconds later."""
    (session,) = sessions([recording("node1", 0, 600), recording("node2", 604, 600)])
    assert session["files"] == 2
    assert [path.partition("/")[0] for path in session["paths"]] == ["node1", "node2"]
    assert session["missing_ms"] == 4000


def test_files_of_two_nodes_are_one_session_however_long_the_move_took() -> None:
    files = [recording("node1", 0, 600), recording("node2", 600 + AWAY, 600)]
    assert len(sessions(files)) == 2
    (session,) = sessions(files, 599 + AWAY)
    assert session["missing_ms"] == AWAY * 1000


def test_move_joins_the_two_files_around_it_and_no_others() -> None:
    files = [
        recording("node1", 0, 10),
        recording("node2", 30, 1),
        recording("node2", 60, 10),
        recording("node1", 500, 10),
    ]
    assert [session["files"] for session in sessions(files, 29)] == [2, 1, 1]
    # Whoever published 500 seconds later did not come from there.
    assert [session["files"] for session in sessions(files, 29, 499)] == [2, 1, 1]


class Night:
    """Two nodes with a folder for each, and a stream that moves from the first to the second."""

    def __init__(self, folder: Path) -> None:
        self.out = folder / "catalogue"
        self.recordings = [folder / "node1", folder / "node2"]
        self.logs = [folder / "log1", folder / "log2"]
        for each in self.recordings:
            each.mkdir()
        frames = [*start_frames(), *group(0, 75)]
        for node, begin in zip(self.recordings, (0.0, 3 + AWAY), strict=True):
            for file in record(node, frames, "live/cam", moment(begin).timestamp()):
                age(file)
        for number, log in enumerate(self.logs):
            # The old owner was frozen, and tells of the same move an hour later.
            server = FakeServer(f"run{number + 1}").at((3600, 2 + AWAY)[number])
            names = {"from_node": "node1", "to_node": "node2", "epoch": 7}
            server.tell("stream_moved", None, "live/cam", node=f"node{number + 1}", **names)
            server.write(log)

    def index(self, *steps: str) -> list[dict[str, Any]]:
        """Index some of the folders in each run, and return the sessions."""
        for step in steps:
            files = [str(self.recordings[int(one[1]) - 1]) for one in step.split() if one[0] == "r"]
            logs = [str(self.logs[int(one[1]) - 1]) for one in step.split() if one[0] == "e"]
            command = ["index", *files, "--out", str(self.out), *(["--events", *logs] if logs else [])]
            assert main(command) == 0
        found: list[dict[str, Any]] = Catalogue(str(self.out)).snapshot().arrow("sessions").to_pylist()
        return found


def test_without_event_logs_a_long_move_makes_two_broadcasts(tmp_path: Path) -> None:
    assert len(Night(tmp_path).index("r1 r2")) == 2


@pytest.mark.parametrize(
    "steps",
    [("r1 r2 e1 e2",), ("r1 e2", "r2 e1"), *permutations(("r1", "r2", "e2"))],
    ids=lambda steps: ", ".join(steps),
)
def test_stream_that_moved_is_one_broadcast_in_whatever_order_it_is_indexed(
    tmp_path: Path, steps: tuple[str, ...]
) -> None:
    (session,) = Night(tmp_path).index(*steps)
    assert session["files"] == 2
    assert session["missing_ms"] == pytest.approx(AWAY * 1000, abs=1000)


@needs_redis
@pytest.mark.full
@real_reactor_test
async def test_broadcast_whose_owner_was_killed_is_one_session(tmp_path: Path) -> None:
    """Three nodes record what is published to them; the encoder returns when nobody knows the old owner's lease any more."""
    cluster = await RealCluster.start(tmp_path, 0, with_sink=False)
    folders = []
    try:
        for name in ("node1", "node2", "node3"):
            recordings, log = tmp_path / name, tmp_path / f"{name}-events"
            recordings.mkdir()
            folders.append((recordings, log))
            record = ("--record-all", "--record-dir", str(recordings), "--event-log", str(log))
            cluster.nodes.append(Node(tmp_path, name, cluster.redis.url, *record))
        for node in cluster.nodes:
            await node.ready()
        one, two, three = cluster.nodes
        encoder = cluster.encoder()
        await encoder.publish(one.port())
        player = await cluster.player(three)
        await until(lambda: len(numbers(player.frames)) > 50, "pictures")
        one.kill()
        await encoder.leave()
        await until(lambda: two.lines("node_lost"), "the end of the lease")
        await deferLater(the_reactor(), 2)
        await encoder.publish_until_accepted(two.port())
        seen = len(numbers(player.frames))
        await until(lambda: len(numbers(player.frames)) > seen + 50, "pictures of the new owner")
    finally:
        await cluster.stop()
    assert [len(list(recordings.glob("*.flv"))) for recordings, _ in folders] == [1, 1, 0]
    catalogue = tmp_path / "catalogue"
    for recordings, _ in folders:
        for file in recordings.iterdir():
            age(file)
    command = ["index", *(str(one) for one, _ in folders), "--out", str(catalogue), "--events"]
    assert main([*command, *(str(log) for _, log in folders)]) == 0
    snapshot = Catalogue(str(catalogue)).snapshot()
    (session,) = snapshot.arrow("sessions").to_pylist()
    assert session["files"] == 2
    assert session["missing_ms"] > 5000, "longer than what counts as one broadcast anyhow"
    nodes = {row["node"]: row["ended_how"] for row in snapshot.arrow("servers").to_pylist()}
    assert nodes.keys() == {"node1", "node2", "node3"}
