"""Brings the catalogue up to date with event logs: reads what is new in them, and nothing twice.

Some megabytes are read and worked on in this process; Spark does what would take it too long.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime

import attrs
import pyarrow as pa

from spark_analytics.event_logs.copies import Row
from spark_analytics.event_logs.derive import (
    DERIVED,
    TableWriter,
    answer,
    count_events,
    leave_out,
    make_batch,
)
from spark_analytics.event_logs.lines import NewEvents, OpenSpark, add_events, read_new_events, workbench_for
from spark_analytics.event_logs.servers import STOPPED, News, Server, known_servers, servers_of, with_new
from spark_analytics.event_logs.state import (
    UNREADABLE_FILE,
    look_for_logs,
    new_splits,
    results_of,
    updated_rows,
)
from spark_analytics.store.change import Change
from spark_analytics.store.part_files import PartFile
from spark_analytics.store.tables import EVENT_TABLES, EVENTS, OPEN_EVENTS, TABLES
from spark_analytics.store.versions import Snapshot

_DERIVED = [table for table in EVENT_TABLES if table.name not in ("events", "event_files")]

_FIRST_DAY = date(1970, 1, 1)


@attrs.frozen
class EventSummary:
    """What was done.

    Attributes:
        files: All event logs that were found.
        read: Those of them in which something was new.
        unreadable: Lines that could not be understood.
        refused: Event logs that the system does not give; the next run tries again.
        changed: Whether there is anything to publish.
    """

    files: int = 0
    read: int = 0
    events: int = 0
    unreadable: int = 0
    refused: int = 0
    changed: bool = False


def index_events(
    open_spark: OpenSpark,
    change: Change,
    places: Iterable[str],
    now: datetime | None = None,
) -> EventSummary:
    """Read event logs into the tables of a change, which the caller publishes.

    Args:
        open_spark: Starts Spark. That is not done for a few megabytes.
        places: Folders, files or patterns.
        now: Servers that have been silent for a while before this have died.

    Raises:
        CatalogueError: One of the places is not there; or events of another version are all that is left of a log.
    """
    places = list(places)
    now = now or datetime.now(UTC)
    logs = look_for_logs(open_spark, change, places)
    found, known = logs.found, logs.known
    base = change.base
    splits = new_splits(found, known)
    new = read_new_events(open_spark, change, splits)
    results = results_of(splits, new.counted, new.refused)
    rows = updated_rows(found, known, results, places, now)
    files_changed = logs.are_new or sorted(rows, key=_file_id) != sorted(known.values(), key=_file_id)
    if files_changed:
        change.replace("event_files", pa.Table.from_pylist(rows, schema=TABLES["event_files"].arrow_schema()))
    news = News(_servers_before(base), servers_of(new.counted), now, _waiting(base))
    is_current = _is_current(base)
    something_follows = bool(new.files) or not is_current or _time_has_told(base, news)
    if something_follows:
        _derive(open_spark, change, new, news, anew=not is_current)
    return EventSummary(
        len(found),
        len({split.file_id for split in splits}),
        sum(result.events for result in results.values()),
        sum(result.unreadable for result in results.values()),
        sum(row["status"] == UNREADABLE_FILE and row["vanished_at"] is None for row in rows),
        files_changed or something_follows,
    )


def _derive(open_spark: OpenSpark, change: Change, new: NewEvents, news: News, anew: bool) -> None:
    """Write what follows from events.

    Args:
        anew: What followed from those before is void. If not, it may be so for some servers, whose events came late.
    """
    late = frozenset[str]() if anew else news.late()
    found = change.files(EVENTS.name) if anew else new.files
    of_late = _files_of(change, late)
    left_open = () if anew else change.base.files(OPEN_EVENTS.name)
    count = sum(file.rows for file in (*found, *of_late, *left_open))
    with workbench_for(count, open_spark) as bench:
        add_events(bench, "found_events", change, EVENTS.name, found)
        add_events(bench, "open_before", change, OPEN_EVENTS.name, left_open)
        if late:
            add_events(bench, "events_of_late", change, EVENTS.name, of_late)
            bench.add("late_servers", pa.table({"late": pa.array(sorted(late), pa.string())}))
            for name, statement in _WITH_LATE.items():
                bench.make(name, statement, {})
        answer(bench, "once_events")
        servers = list(news.together().values())
        since = news.since(servers)
        if anew or late:
            # As if none of them had been known before.
            bench.make("counted_events", _COUNTED_AGAIN if late else "SELECT * FROM once_events", {})
            again = with_new({}, (one for one, _ in servers_of(count_events(bench))))
            if anew:
                servers, since = list(again.values()), _FIRST_DAY
                change.forget(DERIVED)
            else:
                servers = [again.get(server.instance, server) for server in servers]
                since = min([since, *(server.started_at.date() for server in again.values())])
                for table in DERIVED:
                    leave_out(change, table, late)
        rows = [server.row(news.now) for server in servers]
        change.replace("servers", pa.Table.from_pylist(rows, schema=TABLES["servers"].arrow_schema()))
        make_batch(bench, servers, news.now)
        TableWriter(bench, change).write_all(since)


# Of servers whose events came late, all that there are; of all others, those that are new.
_WITH_LATE = {
    "found_events": """SELECT e.* FROM found_events e LEFT JOIN late_servers ON instance = late WHERE late IS NULL
        UNION ALL SELECT e.* FROM events_of_late e JOIN late_servers ON instance = late""",
    "open_before": "SELECT e.* FROM open_before e LEFT JOIN late_servers ON instance = late WHERE late IS NULL",
}
_COUNTED_AGAIN = "SELECT e.* FROM once_events e JOIN late_servers ON instance = late"


def _files_of(change: Change, servers: Iterable[str]) -> tuple[PartFile, ...]:
    """The files that may have events of some servers, new ones too."""
    servers = list(servers)
    if not servers:
        return ()
    base = change.base
    before = {file for name in servers for file in base.files(EVENTS.name, ranges={"instance": (name, name)})}
    new = set(change.files(EVENTS.name)) - set(base.files(EVENTS.name))
    return tuple(before | new)


def _file_id(row: Row) -> str:
    return str(row["file_id"])


def _servers_before(base: Snapshot) -> dict[str, Server]:
    return known_servers(base.arrow("servers").to_pylist() if base.has("servers") else [])


def _is_current(base: Snapshot) -> bool:
    """Whether what follows from the events of before is there, as this program writes it."""
    return not base.has("events") or all(
        base.schema_version(table.name) == table.version for table in _DERIVED
    )


def _waiting(base: Snapshot) -> frozenset[str]:
    """Servers of which something was left open."""
    if not base.has("open_events"):
        return frozenset()
    return frozenset(base.arrow("open_events", ["instance"])["instance"].to_pylist())


def _time_has_told(base: Snapshot, news: News) -> bool:
    """Whether a server that was running has been silent for too long."""
    if not news.before:
        return False
    for row in base.arrow("servers", ["instance", "ended_how"]).to_pylist():
        server = news.before[row["instance"]]
        if row["ended_how"] != STOPPED and row["ended_how"] != server.ended_how(news.now):
            return True
        if row["instance"] in news.waiting and server.is_settled(news.now):
            return True
    return False
