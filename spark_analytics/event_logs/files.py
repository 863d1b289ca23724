"""Finds event logs, and what they are known by when they have grown, were compressed or were moved."""

from __future__ import annotations

import glob
import gzip
import hashlib
import json
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

from spark_analytics.errors import CatalogueError
from spark_analytics.table import as_bigint

GZIP = ".gz"

_NAME = re.compile(r"events_\d{8}_\d{6}(?:-\d{1,9})?\.jsonl(?:\.gz)?", re.ASCII)

#: What the server calls a file while it compresses it.
_UNFINISHED = ".gz.tmp"

#: The first line is searched for its end so far, and the end of the file for its last line.
_LONGEST_LINE = 1024 * 1024

#: What a broken compressed file raises, in the order in which people meet it.
GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)


@attrs.frozen
class FoundFile:
    """An event log as it is now.

    Attributes:
        file_id: By its first line; by its name if it has none.
        name: Where it is, with the `.gz` that it may have.
        complete: Bytes of text up to the last whole line; None if it is compressed, and only reading it tells.
        error: Why it cannot be read.
        is_foreign: Whether another one may have the same first line.
    """

    file_id: str
    name: str
    size: int
    mtime_ns: int = attrs.field(converter=as_bigint)
    complete: int | None
    error: str | None = None
    is_foreign: bool = False

    @property
    def is_compressed(self) -> bool:
        """Whether it is compressed."""
        return self.name.endswith(GZIP)

    @property
    def path(self) -> str:
        """Where it is, without the `.gz`."""
        return self.name.removesuffix(GZIP)


def find_event_logs(places: Iterable[str]) -> list[FoundFile]:
    """All event logs in these folders (and those below them), or under these names; one at each place.

    Raises:
        CatalogueError: There is nothing of that name.
    """
    at: dict[str, list[str]] = {}
    for name in sorted({name for place in places for name in _names(place) if _is_text(name)}):
        at.setdefault(name.removesuffix(GZIP), []).append(name)
    found = [file_at(names) for names in at.values()]
    return [one for one in found if one is not None]


def file_at(names: Iterable[str]) -> FoundFile | None:
    """The file of a place: the plain one before the compressed one, which may be half written as long as both are there."""
    other = None
    for name in names:
        found = look_at(name)
        if found is not None and found.error is None and found.complete != 0:
            return found
        other = other or found
    return other


def _names(place: str) -> Iterator[str]:
    matches = [place] if os.path.exists(place) else glob.glob(place, recursive=True)
    if not matches:
        raise CatalogueError(f"There is no event log {place!r}: --events takes folders, files and patterns.")
    for match in matches:
        if os.path.isdir(match):
            for parent, _, names in os.walk(match):
                yield from (
                    os.path.abspath(os.path.join(parent, name)) for name in names if _NAME.fullmatch(name)
                )
        elif not match.endswith(_UNFINISHED):
            yield os.path.abspath(match)


def _is_text(name: str) -> bool:
    """Whether the tables can have a name: they are UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def look_at(name: str) -> FoundFile | None:
    """What a file is; None if it is none, or has gone meanwhile."""
    try:
        status = os.stat(name)
    except OSError:
        # Gone, or a link that leads nowhere.
        return None
    if not stat.S_ISREG(status.st_mode):
        # Who opens a pipe waits until somebody writes.
        return None
    stable = FoundFile(hash_of(name.removesuffix(GZIP).encode()), name, status.st_size, status.st_mtime_ns, 0)
    try:
        first = _first_line(name)
        if not first:
            return stable
        complete = None if stable.is_compressed else _complete_until(name, status.st_size)
    except GZIP_ERRORS as error:
        return attrs.evolve(stable, error=f"the compressed file is damaged: {error}")
    except OSError as error:
        return attrs.evolve(stable, error=error.strerror or str(error))
    return attrs.evolve(stable, file_id=hash_of(first), complete=complete, is_foreign=not _is_numbered(first))


def hash_of(data: bytes) -> str:
    """What is short and as good as the data."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _first_line(name: str) -> bytes:
    """The first whole line, or so much of it that it is longer than any event."""
    with gzip.open(name) if name.endswith(GZIP) else open(name, "rb") as file:
        line = file.readline(_LONGEST_LINE)
    return line if line.endswith(b"\n") or len(line) == _LONGEST_LINE else b""


def _is_numbered(line: bytes) -> bool:
    """Whether no other file has this line: the server numbers its events."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return False
    if not isinstance(values, dict):
        return False
    return isinstance(values.get("instance"), str) and isinstance(values.get("number"), int)


def _complete_until(name: str, size: int) -> int:
    """Where the last whole line ends."""
    with open(name, "rb") as file:
        end = size
        while end:
            begin = max(0, end - _LONGEST_LINE)
            file.seek(begin)
            at = file.read(end - begin).rfind(b"\n")
            if at >= 0:
                return begin + at + 1
            end = begin
    return 0


def check_place(place: str) -> None:
    """See whether there is anything of that name, before anything is begun.

    Raises:
        CatalogueError: There is not.
    """
    next(_names(place), None)


def text_size(found: FoundFile) -> int | None:
    """How many bytes of text a file has, as it says itself; None if it cannot be asked any more."""
    if not found.is_compressed:
        return found.size
    if found.size < 4:
        return 0
    try:
        with Path(found.name).open("rb") as file:
            file.seek(-4, os.SEEK_END)
            return int.from_bytes(file.read(4), "little")
    except OSError:
        return None
