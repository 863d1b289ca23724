"""What keeps a catalogue small and quick: few files for each day, and none that no version needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta

import attrs

from spark_analytics.store.change import Change
from spark_analytics.store.delta import DeltaFolder
from spark_analytics.store.part_files import PartFile
from spark_analytics.store.tables import TABLES
from spark_analytics.store.versions import NAME, Versions

MIB = 1024 * 1024

#: A file that is smaller is joined with others of its day: to open one takes longer than to read so much of it.
SMALL_FILE = 32 * MIB

#: A joined file is not begun anew before it has so much, and has never more than twice as much: its rows are in memory
#: while they are sorted, and there they are about ten times as large.
JOINED_FILE = 128 * MIB

#: Before so many days, hardly anything grows any more.
_SETTLED = timedelta(days=3)

#: How long a file is left alone that no version names: somebody whose lock is not seen here may just have written it.
GRACE = timedelta(hours=1)

#: Commits are kept so long, as the tables say in their own configuration.
_LOG_KEPT = timedelta(days=30)


@attrs.frozen
class Joined:
    """What was joined of a table."""

    table: str
    before: int
    after: int
    size: int


def compact(change: Change, today: date | None = None) -> list[Joined]:
    """Join the small files of each table and day, and publish each table when it is done."""
    today = today or datetime.now(UTC).date()
    done = []
    for table in TABLES:
        groups = groups_to_join(change.base.files(table), today - _SETTLED)
        joined = 0
        for group in groups:
            rows = change.arrow(table, group)
            change.drop(table, group)
            joined += len(change.add(table, rows))
        if groups:
            before = sum(map(len, groups))
            size = sum(file.size for group in groups for file in group)
            change.publish(f"compact: {before} files of {table} made {joined}")
            done.append(Joined(table, before, joined, size))
    return done


def groups_to_join(files: Iterable[PartFile], settled: date) -> list[list[PartFile]]:
    """Small files of the same day, together up to `JOINED_FILE`.

    Args:
        settled: From this day on, files that the next run may replace are left out.
    """
    by_day: dict[date, list[PartFile]] = defaultdict(list)
    for file in files:
        if file.size < SMALL_FILE and not (file.is_open and file.day >= settled):
            by_day[file.day].append(file)
    groups = []
    for of_day in by_day.values():
        groups += _groups(sorted(of_day, key=lambda file: (file.size, file.path)))
    return groups


def _groups(files: Sequence[PartFile]) -> list[list[PartFile]]:
    groups: list[list[PartFile]] = [[]]
    for file in files:
        if sum(one.size for one in groups[-1]) >= JOINED_FILE:
            groups.append([])
        groups[-1].append(file)
    return [group for group in groups if len(group) > 1]


@attrs.frozen
class Vacuumed:
    """What was deleted, and the first version that can still be read."""

    files: int
    size: int
    oldest: int


def vacuum(change: Change, keep: timedelta, now: datetime | None = None, dry_run: bool = False) -> Vacuumed:
    """Delete what only versions need that were superseded longer ago than this, and what no version needs.

    Args:
        dry_run: Only tell what would be deleted.
    """
    now = now or datetime.now(UTC)
    root = change.base.root
    listed = Versions.open(root).list()
    # The one that was the catalogue at that time, and all later ones.
    before = [one.version for one in listed if one.published_at <= now - keep]
    oldest = max(before, default=min((one.version for one in listed), default=0))
    needed = _needed(change, [one.version for one in listed if one.version >= oldest])
    if not dry_run:
        # Before anything is deleted, no reader may find a version any more that needs it.
        needed[NAME] |= _needed(
            change, [change.publish(f"vacuum: {oldest} is the first version now", oldest).version]
        )[NAME]
    deleted, size = 0, 0
    for name in (*TABLES, NAME):
        place = root / name
        old = [
            file
            for file in place.list_files()
            if file.path.endswith(".parquet")
            and not file.path.startswith("_")
            and file.path not in needed[name]
            and datetime.fromtimestamp(file.mtime, UTC) < now - GRACE
        ]
        deleted += len(old)
        size += sum(file.size for file in old)
        if not dry_run:
            place.delete(file.path for file in old)
            if keep <= _LOG_KEPT:
                _clean_log(change, name)
    return Vacuumed(deleted, size, oldest)


def _needed(change: Change, versions: Iterable[int]) -> dict[str, set[str]]:
    """The files of each table that some versions name, and those of the versions themselves."""
    root = change.base.root
    needed: dict[str, set[str]] = defaultdict(set)
    pinned: set[tuple[str, int]] = set()
    for number in versions:
        versions_then = Versions.open(root, number)
        needed[NAME] |= versions_then.paths()
        pinned |= {(name, pin.version) for name, pin in versions_then.newest().pins.items()}
    for name, version in sorted(pinned):
        folder = DeltaFolder.open(root / name, version)
        if folder is not None:
            needed[name] |= folder.paths()
    return needed


def _clean_log(change: Change, name: str) -> None:
    """Only where the newest commit is the one that is pinned: what a dead run has committed is set back by the next."""
    folder = DeltaFolder.open(change.base.root / name)
    pin = change.base.pins.get(name)
    if folder is not None and (name == NAME or (pin is not None and pin.version == folder.version)):
        folder.clean_log()
