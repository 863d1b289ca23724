"""Tells which of the event logs that were found are one and the same, and which only begin alike."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any

import attrs

from spark_analytics.event_logs.logs import (
    GZIP,
    GZIP_ERRORS,
    FoundLog,
    hash_of,
    open_log,
    open_text,
    text_size,
)
from spark_analytics.paths import is_gone

#: How much is compared at a time.
_BLOCK = 1024 * 1024

Row = dict[str, Any]


def without_copies(found: Iterable[FoundLog], known: Mapping[str, Row]) -> list[FoundLog]:
    """Each log once, with the `file_id` that it had before, if it was read.

    Args:
        known: The rows of `event_files` by `file_id`.
    """
    found = list(found)
    foreign = [one for one in found if one.is_foreign]
    copies: dict[str, list[FoundLog]] = defaultdict(list)
    for one in [*(one for one in found if not one.is_foreign), *_told_apart(foreign, known)]:
        copies[one.file_id].append(one)
    best = [_best(logs, known.get(file_id)) for file_id, logs in copies.items()]
    return sorted(best, key=_name)


def _best(copies: list[FoundLog], row: Row | None) -> FoundLog:
    """The copy that goes furthest, and of those the plain one: it may be the log itself, which grows.

    Args:
        row: The row of `event_files`, if the log was read before.
    """
    if len(copies) == 1:
        return copies[0]
    read_until = 0 if row is None else row["read_until"]
    said = {one: text_size(one) or 0 for one in copies}
    reach = {one: size for one, size in said.items() if size >= read_until} or said
    if len(set(reach.values())) > 1:
        plain = max((size for one, size in reach.items() if not one.is_compressed), default=-1)
        # Only of those that say that they have more, it must be known whether that is true.
        reach = {one: size if size <= plain else _readable_size(one) for one, size in reach.items()}
    return max(sorted(reach, key=_name), key=lambda one: (reach[one], not one.is_compressed))


def _name(found: FoundLog) -> str:
    return found.name


def _readable_size(found: FoundLog) -> int:
    """How much text there is in a file. A compressed one that was not copied to its end says anything."""
    return sum(map(len, _blocks(found)))


def log_is_gone(path: str) -> bool:
    """Whether a log is not there any more, neither plain nor compressed."""
    return is_gone(path) and is_gone(path + GZIP)


def _told_apart(foreign: Iterable[FoundLog], known: Mapping[str, Row]) -> Iterator[FoundLog]:
    """Logs of other programs: several may have the same first line, so each gets an id of its own, and copies one."""
    alike: dict[str, list[FoundLog]] = defaultdict(list)
    for one in foreign:
        alike[one.file_id].append(one)
    read_before: dict[str, dict[str, Row]] = defaultdict(dict)
    for known_id, row in known.items():
        read_before[known_id.partition("-")[0]][known_id] = row
    for beginning, files in alike.items():
        logs = _copies(files)
        for copies, file_id in zip(logs, _ids_before(logs, read_before[beginning]), strict=True):
            one_id = file_id or _new_id(beginning, copies[0], known)
            yield from (attrs.evolve(one, file_id=one_id) for one in copies)


def _copies(files: list[FoundLog]) -> list[list[FoundLog]]:
    """Logs that begin with the same line, those together of which one is the beginning of the other."""
    groups: list[list[FoundLog]] = []
    # The longest first: what is the beginning of two is a copy of one of them.
    for one in sorted(files, key=lambda one: (-(text_size(one) or 0), one.path)):
        for group in groups:
            if _have_same_text(group[0], one):
                group.append(one)
                break
        else:
            groups.append([one])
    return groups


def _have_same_text(one: FoundLog, other: FoundLog) -> bool:
    """Whether two files are the same as far as the shorter one goes."""
    for left, right in zip_longest(_blocks(one), _blocks(other), fillvalue=b""):
        size = min(len(left), len(right))
        if left[:size] != right[:size]:
            return False
        if len(left) != len(right):
            break
    return True


def _blocks(found: FoundLog) -> Iterator[bytes]:
    """The text of a file, as far as it can be read."""
    try:
        with open_text(found.name) as file:
            while block := file.read(_BLOCK):
                yield block
    except (*GZIP_ERRORS, OSError):
        return


def _ids_before(logs: list[list[FoundLog]], rows: Mapping[str, Row]) -> list[str | None]:
    """Under which ids logs were read before: at the same place or, of what is left then, at one where they are no more.

    Args:
        rows: Those of logs with the same first line.
    """
    free = dict(rows)
    places = [{one.path for one in copies} for copies in logs]
    ids = [_take(free, copies[0], at.__contains__) for copies, at in zip(logs, places, strict=True)]
    there = set().union(*places)
    return [
        file_id or _take(free, copies[0], lambda path: path in there or log_is_gone(path))
        for copies, file_id in zip(logs, ids, strict=True)
    ]


def _take(free: dict[str, Row], log: FoundLog, was_there: Callable[[str], bool]) -> str | None:
    """One of the ids that are free, if the log can be the one that had it."""
    for file_id, row in free.items():
        if was_there(row["path"]) and _goes_on(log, row["read_until"]):
            del free[file_id]
            return file_id
    return None


def _goes_on(found: FoundLog, read_until: int) -> bool:
    """Whether a file can be the one that was read so far: there a line ends."""
    if not read_until:
        return True
    if found.is_compressed:
        return (text_size(found) or 0) >= read_until
    try:
        with open_log(found.name) as file:
            file.seek(read_until - 1, os.SEEK_SET)
            return file.read(1) == b"\n"
    except OSError:
        return False


def _new_id(beginning: str, found: FoundLog, known: Mapping[str, Row]) -> str:
    """One that no log had before: another one may have been at this place."""
    place = found.path
    while (file_id := f"{beginning}-{hash_of(place.encode())}") in known:
        place += "/"
    return file_id
