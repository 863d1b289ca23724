"""An event log that comes late changes what is known of its own server, and leaves the files of all others alone."""

from __future__ import annotations

import pytest

from tests.spark.event_archive import DERIVED, ENGINES, Archive, Make, archives
from tests.spark.event_world import FakeServer, moment, story

#: Seconds of a day.
DAY = 86_400

NOW = moment(400 * DAY)

#: These have one row for each destination and day, or are small and written whole.
_NOT_BY_SERVER = {"destinations", "servers"}


@pytest.fixture(params=ENGINES)
def make(request: pytest.FixtureRequest) -> Make:
    return archives(request, "late")


def busy_server(instance: str, days: int) -> FakeServer:
    """A server that had viewers so many days after the others."""
    server = FakeServer(instance, days * DAY + 7)
    server.start()
    server.connect("c1")
    server.publish("c1")
    server.connect("c2")
    server.join("c2")
    server.mark("middle")
    server.at(days * DAY + 40).connect("c3")
    server.join("c3")
    server.at(days * DAY + 90).leave("c3", messages=10, size=1000)
    server.at(days * DAY + 120).leave("c2", messages=20, size=2000)
    server.close("c2")
    server.stop()
    return server


def files_of(archive: Archive) -> dict[str, set[str]]:
    return {name: {file.path for file in archive.snapshot.files(name)} for name in DERIVED}


def test_only_the_server_of_a_late_log_is_derived_anew(make: Make) -> None:
    archive, whole = make(), make()
    servers = [busy_server(f"i{number}", number * 30) for number in range(4)]
    late = servers[2]
    for server in servers:
        server.write(whole.logs)
    whole.index(NOW)
    for server in servers:
        server.write(archive.logs, late.marks["middle"] if server is late else 0)
    archive.index(NOW)
    before = files_of(archive)
    late.write(archive.logs, 0, late.marks["middle"])
    archive.index(NOW)
    archive.assert_same(whole)
    # The day of the late server, and no other one; what is by day and not by server begins anew on that day.
    its_day = f"day={moment(60 * DAY):%Y-%m-%d}/"
    for name, files in files_of(archive).items():
        gone = {path for path in before[name] - files if name not in _NOT_BY_SERVER}
        assert all(path.startswith(its_day) for path in gone), (name, gone)
        if name in ("viewers", "audience"):
            assert gone
            assert len(files & before[name]) == 3
    days = {path.partition("/")[0] for path in before["destinations"] & files_of(archive)["destinations"]}
    assert all(day < its_day for day in days)


def test_servers_that_share_a_day_with_a_late_one_keep_their_rows(make: Make) -> None:
    archive, whole = make(), make()
    other, late = story(), busy_server("late", 0)
    for server in (other, late):
        server.write(whole.logs)
    whole.index(NOW)
    other.write(archive.logs)
    late.write(archive.logs, late.marks["middle"])
    archive.index(NOW)
    late.write(archive.logs, 0, late.marks["middle"])
    archive.index(NOW)
    archive.assert_same(whole)


def test_a_log_that_comes_twice_counts_once_for_its_server_alone(make: Make) -> None:
    archive, whole = make(), make()
    one, other = busy_server("i1", 0), busy_server("i2", 1)
    for server in (one, other):
        server.write(whole.logs)
        server.write(archive.logs)
    whole.index(NOW)
    archive.index(NOW)
    before = files_of(archive)
    middle = one.marks["middle"]
    # A copy of some lines of it: another file, with events that are known.
    one.write(archive.logs, middle - 2, middle + 3)
    archive.index(NOW)
    archive.assert_same(whole, [name for name in DERIVED if name != "servers"])
    tomorrow = f"day={moment(DAY):%Y-%m-%d}/"
    kept = {path for path in before["viewers"] if path.startswith(tomorrow)}
    assert kept
    assert kept <= files_of(archive)["viewers"]
