"""Who watches, what the machine gives, and recordings that are started and stopped over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from rtmprelay.config.relay import RelayConfig
from rtmprelay.event_log.settings import EventLogSettings
from rtmprelay.machine import memory_of_process
from rtmprelay.recording.manager import RecordingManager
from rtmprelay.recording.settings import RecordingSettings
from rtmprelay.web.api.machine_use import MachineUse, look_at_disks
from rtmprelay.web.api.players import MAX_LISTED
from rtmprelay.wiring import written_folders
from tests.web.helpers import Client, Web

# -- players ---------------------------------------------------------------------------------------------------------


def watch(web: Web, path: str = "/live/test.flv", host: str = "192.0.2.9") -> Client:
    client = Client(web, host)
    client.send(f"GET {path} HTTP/1.1\r\nHost: relay\r\n\r\n".encode())
    return client


def test_players_are_listed_and_sent_away_by_their_connection() -> None:
    web = Web()
    web.publish()
    web.publish("live/other")
    watch(web, host="192.0.2.31")
    watch(web, "/live/other.flv")
    web.advance(2)
    assert web.get("/players").json["total"] == 2
    got = web.get("/players?stream=live/test").json
    (player,) = got["players"]
    assert (got["total"], player["stream"], player["protocol"]) == (1, "live/test", "flv")
    assert (player["address"], player["duration"]) == ("192.0.2.31:40000", pytest.approx(2))
    assert player["started_at"] == "2026-01-01T12:00:00.000Z"
    assert player["bytes_sent"] > 0
    assert player["messages_dropped"] == player["stalls"] == 0
    web.service.control.player_enders.append(web.http.media.end)
    assert web.change("DELETE", f"/players/{player['connection']}").status == 204
    assert web.get("/players?stream=live/test").json["players"] == []


def test_list_of_players_is_bounded() -> None:
    web = Web()
    web.publish()
    for number in range(MAX_LISTED + 3):
        watch(web, host=f"192.0.2.{number % 250}")
    got = web.get("/players?stream=live/test").json
    assert (got["total"], len(got["players"])) == (MAX_LISTED + 3, MAX_LISTED)
    assert web.get("/players?stream=nothing").json["players"] == []
    assert web.get("/players?steam=x").error == (400, "bad_request")


# -- the machine -----------------------------------------------------------------------------------------------------


class Measured:
    """A machine whose use a test sets."""

    def __init__(self, folder: Path, in_thread: Any = None) -> None:
        self.clock = Clock()
        self.spent = 0.0
        self.used: int | None = 10**6
        more = {} if in_thread is None else {"in_thread": in_thread}
        self.use = MachineUse(
            self.clock,
            {"recordings": folder / "not" / "there", "events": folder},
            cpu_seconds=lambda: self.spent,
            memory=lambda: self.used,
            **more,
        )

    def sample(self, spent: float) -> None:
        self.clock.advance(1)
        self.spent += spent
        self.use.sample()


def test_cpu_is_the_share_of_one_core_over_the_last_seconds(tmp_path: Path) -> None:
    machine = Measured(tmp_path)
    assert machine.use.fields()["cpu_percent"] is None
    for spent in (0.1, 0.5, 1.5):
        machine.sample(spent)
    assert list(machine.use.cpu_history) == [None, 50.0, 150.0]
    assert machine.use.cpu_percent == 100.0
    assert list(machine.use.memory_history) == [10**6] * 3


def test_disk_is_listed_once_for_all_folders_on_it(tmp_path: Path) -> None:
    """A folder that is not there yet is on the disk of the one above it."""
    (disk,) = look_at_disks({"recordings": tmp_path / "not" / "there", "events": tmp_path})
    assert disk.used_for == ("recordings", "events")
    assert 0 < disk.free <= disk.size


def test_disk_that_does_not_answer_is_asked_once(tmp_path: Path) -> None:
    asked: list[Deferred[Any]] = []

    def in_thread(*_: object) -> Deferred[Any]:
        asked.append(Deferred())
        return asked[-1]

    machine = Measured(tmp_path, in_thread)
    for _ in range(30):
        machine.sample(0)
    assert len(asked) == 1
    asked[0].errback(OSError("gone"))
    machine.sample(0)
    assert len(asked) == 2
    assert machine.use.fields()["disks"] == []


def test_memory_of_a_system_that_tells_nothing_is_unknown(tmp_path: Path) -> None:
    assert (memory_of_process() or 0) > 10**6
    assert memory_of_process(tmp_path / "none") is None
    (tmp_path / "odd").write_text("x")
    assert memory_of_process(tmp_path / "odd") is None


def test_health_and_the_event_stream_have_the_use_of_the_machine() -> None:
    web = Web()
    web.advance(3)
    machine = web.get("/health").json["machine"]
    assert machine["memory_bytes"] < machine["memory_size"]
    assert machine["cores"] >= 1
    client = Client(web)
    client.send(b"GET /events HTTP/1.1\r\nHost: relay\r\n\r\n")
    hello = dict(client.events())["hello"]
    assert (
        len(hello["history"]["machine"]["memory_bytes"])
        == len(hello["history"]["machine"]["cpu_percent"])
        > 2
    )


# -- recordings ------------------------------------------------------------------------------------------------------


def recording_web(tmp_path: Path) -> Web:
    """A relay that records nothing by itself, without a thread for the disk; and a stream with a long name."""
    web = Web()
    settings = RecordingSettings(folder=tmp_path / "made")
    recordings = RecordingManager(settings, web.registry, web.service.events, web.clock, None)
    recordings.start()
    web.service.control._recordings = recordings
    web.publish("live/deep/test")
    return web


def test_recording_is_started_and_stopped_over_http(tmp_path: Path) -> None:
    web = recording_web(tmp_path)
    path = "/streams/live/deep/test/recording"
    assert web.request("POST", path).error == (401, "unauthorized")
    assert web.change("DELETE", path).error == (404, "not_found")
    assert web.change("POST", path).status == 204
    assert web.change("POST", path).status == 204
    assert web.get("/streams/live/deep/test").json["recording"]["state"] == "waiting"
    assert len(web.get("/recordings").json["recordings"]) == 1
    assert web.change("DELETE", path).status == 204
    assert web.get("/streams/live/deep/test").json["recording"] is None
    assert web.change("POST", "/streams/live/nobody/recording").error == (404, "not_found")
    assert web.get(path).error == (405, "method_not_allowed")
    assert web.get(f"/streams/{quote('live/deep', safe='')}").error == (404, "not_found")


def test_disks_are_those_of_the_folders_in_the_settings(tmp_path: Path) -> None:
    config = RelayConfig(
        recording=RecordingSettings(folder=tmp_path / "films"), event_log=EventLogSettings(folder=tmp_path)
    )
    assert written_folders(config) == {"recordings": tmp_path / "films", "events": tmp_path}
