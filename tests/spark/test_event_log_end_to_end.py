"""From a real relay to the answers: an encoder, viewers who come and go, a destination that dies and returns."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rtmprelay.session.reports import PlayAccepted
from spark_analytics.__main__ import main
from spark_analytics.catalogue import Catalogue
from tests.helpers import free_port, wait_for
from tests.service.command import BlockingClient, Server
from tests.service.conftest import ffmpeg
from tests.service.interop import H264_AAC, FFmpeg
from tests.service.test_interop import PICTURE, TONE

if TYPE_CHECKING:
    pass

__all__ = ["ffmpeg"]

#: How far times may be apart that two programs on a busy machine take.
CLOSE = 1.0


class Stage:
    """The relay, its destination and its encoder, each in a process of its own."""

    def __init__(self, ffmpeg: FFmpeg, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._destinations: list[Server] = []
        self.start_destination()
        (folder / "relay").mkdir()
        config = {
            "destinations": [
                {"name": "YouTube", "url": f"rtmp://127.0.0.1:{self.port}/live", "stream_key": "hush"}
            ]
        }
        (folder / "relay" / "relay.json").write_text(json.dumps(config))
        options = (
            "--event-log",
            "events",
            "--record-all",
            "--record-dir",
            "rec",
            "--relay-config",
            "relay.json",
        )
        self.relay = Server(folder / "relay", *options)
        source = ffmpeg.make("for_events.flv", f"{PICTURE} {TONE} -t 5 {H264_AAC}")
        url = f"rtmp://127.0.0.1:{self.relay.port()}/live/test"
        command = [
            ffmpeg.program,
            "-v",
            "quiet",
            "-re",
            "-stream_loop",
            "-1",
            "-i",
            str(source),
            "-c",
            "copy",
        ]
        self.encoder = subprocess.Popen([*command, "-f", "flv", url], stdin=subprocess.PIPE)

    def start_destination(self) -> None:
        folder = self.folder / f"destination{len(self._destinations)}"
        folder.mkdir()
        server = Server(folder, "--listen", f"tcp:{self.port}:interface=127.0.0.1")
        server.port()
        self._destinations.append(server)

    def kill_destination(self) -> None:
        self._destinations[-1].process.kill()
        self._destinations[-1].process.wait()

    def told(self, event: str) -> list[dict[str, Any]]:
        """The events of this name that are in the log so far."""
        paths = sorted((self.folder / "relay" / "events").glob("*.jsonl"))
        lines = [json.loads(line) for path in paths for line in path.read_bytes().split(b"\n")[:-1]]
        return [line for line in lines if line["event"] == event]

    def wait(self, event: str, count: int = 1) -> dict[str, Any]:
        wait_for(lambda: len(self.told(event)) >= count, event)
        return self.told(event)[count - 1]

    def watch(self) -> BlockingClient:
        viewer = BlockingClient(self.relay.port())
        viewer.session.play("test")
        viewer.wait(PlayAccepted)
        return viewer

    def end(self) -> None:
        """Everybody goes; the log is complete."""
        if self.encoder.poll() is None:
            self.encoder.communicate(b"q", timeout=20)
        self.relay.stop()
        for server in self._destinations:
            server.stop()


@pytest.fixture
def stage(ffmpeg: FFmpeg, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(ffmpeg, tmp_path)
    yield stage
    stage.end()


def watched(viewer: BlockingClient, until: float) -> None:
    """Read what comes, as a player does, until that time; then go."""
    viewer.socket.settimeout(0.2)
    while time.monotonic() < until:
        try:
            assert viewer.socket.recv(1 << 16)
        except TimeoutError:
            continue
    viewer.socket.close()


def test_the_figures_are_those_of_what_happened(stage: Stage, tmp_path: Path) -> None:
    """Watch time, the outage, what was lost in it, and where it is recorded."""
    stage.wait("destination_connected")
    first = stage.watch()
    began = time.monotonic()
    second = stage.watch()
    stage.kill_destination()
    failed = stage.wait("destination_failed")
    watched(second, began + 2)
    stage.start_destination()
    back = stage.wait("destination_connected", 2)
    stage.wait("destination_dropped")
    watched(first, began + 5)
    watch_time = time.monotonic() - began
    stage.wait("play_stopped", 2)
    stage.end()
    relay, catalogue = tmp_path / "relay", tmp_path / "catalogue"
    lost = sum(
        line["count"] for line in stage.told("destination_dropped") if line["reason"] == "not_connected"
    )
    assert lost > 0
    assert (
        main(["index", str(relay / "rec"), "--events", str(relay / "events"), "--out", str(catalogue)]) == 0
    )
    snapshot = Catalogue(catalogue).open()
    plays = sorted(snapshot.arrow("viewers").to_pylist(), key=lambda row: row["watch_seconds"])
    told = sorted(stage.told("play_stopped"), key=lambda line: float(line["duration"]))
    assert [play["watch_seconds"] for play in plays] == [line["duration"] for line in told]
    assert [play["bytes"] for play in plays] == [line["bytes"] for line in told]
    assert plays[0]["watch_seconds"] == pytest.approx(2, abs=CLOSE)
    assert plays[1]["watch_seconds"] == pytest.approx(watch_time, abs=CLOSE)
    assert {play["ended_how"] for play in plays} <= {"left", "lost"}
    assert max(row["peak"] for row in snapshot.arrow("audience").to_pylist()) == 2
    (outage,) = snapshot.arrow("outages").to_pylist()
    seconds = (_time(back) - _time(failed)).total_seconds()
    assert outage["seconds"] == pytest.approx(seconds, abs=0.001)
    assert (outage["destination"], outage["ended_how"], outage["lost_messages"]) == (
        "YouTube",
        "recovered",
        lost,
    )
    (day,) = snapshot.arrow("destinations").to_pylist()
    (publish,) = snapshot.arrow("publishes").to_pylist()
    up = 100 * (1 - (seconds + _connecting(snapshot)) / publish["seconds"])
    assert day["uptime_percent"] == pytest.approx(up, abs=1)
    assert (day["outages"], day["reconnects"]) == (1, 1)
    (server,) = snapshot.arrow("servers").to_pylist()
    assert (server["ended_how"], server["missing_events"]) == ("stopped", 0)
    _ask(catalogue, outage, relay / "rec")
    assert b"hush" not in b"".join(path.read_bytes() for path in (relay / "events").iterdir())


def _time(line: dict[str, Any]) -> Any:
    from datetime import datetime

    return datetime.fromisoformat(line["time"])


def _connecting(snapshot: Any) -> float:
    states = snapshot.arrow("destination_states").to_pylist()
    return float(sum(row["live_seconds"] for row in states if row["state"] == "connecting"))


def _ask(catalogue: Path, outage: dict[str, Any], recordings: Path) -> None:
    """The question, by the command's way and without Spark: what did the viewers lose, and where is it recorded?"""
    from spark_analytics.questions.api import list_outages
    from spark_analytics.questions.ask import Scope

    (answer,) = list_outages(Catalogue(catalogue).open(), Scope(key="live/test"), "YouTube")
    assert (answer["viewers"], answer["viewers_dropped"]) == (2, 0)
    assert answer["recorded_seconds"] == pytest.approx(outage["seconds"], abs=CLOSE)
    (recording,) = recordings.iterdir()
    assert answer["path"] == str(recording)
    # A video tag, whose first byte says keyframe.
    data = recording.read_bytes()[answer["byte_offset"] :]
    assert (data[0], data[11] >> 4) == (9, 1)
