"""Finds event logs, and knows them again when they have grown, were compressed or were moved."""

from __future__ import annotations

import glob
import gzip
import hashlib
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs

from spark_analytics.errors import CatalogueError

GZIP = ".gz"

_NAME = re.compile(r"events_\d{8}_\d{6}(?:-\d{1,9})?\.jsonl(?:\.gz)?", re.ASCII)

#: The first line is searched for its end so far, and the end of the file for its last line.
_LONGEST_LINE = 1024 * 1024

#: What a broken compressed file raises, in the order in which people meet it.
GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)


@attrs.frozen
class FoundFile:
    """An event log as it is now.

    Attributes:
        name: Where it is, with the `.gz` that it may have.
        complete: Bytes of text up to the last whole line; None if it is compressed, and only reading it tells.
        error: Why it cannot be read.
    """

    file_id: str
    name: str
    size: int
    mtime_ns: int
    complete: int | None
    error: str | None = None

    @property
    def is_compressed(self) -> bool:
        """Whether it is compressed."""
        return self.name.endswith(GZIP)

    @property
    def path(self) -> str:
        """Where it is, without the `.gz`."""
        return self.name.removesuffix(GZIP)


def find_event_logs(places: Iterable[str]) -> list[FoundFile]:
    """All event logs in these folders (and those below them), or under these names; each one once.

    Raises:
        CatalogueError: There is nothing of that name.
    """
    best: dict[str, FoundFile] = {}
    for name in sorted({name for place in places for name in _names(place)}):
        found = look_at(name)
        if found is None:
            continue
        known = best.get(found.file_id)
        # The same one twice: killed between compressing and deleting, or a copy. A compressed one is complete.
        if known is None or (found.is_compressed, found.size) > (known.is_compressed, known.size):
            best[found.file_id] = found
    return sorted(best.values(), key=lambda found: found.name)


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
        else:
            yield os.path.abspath(match)


def look_at(name: str) -> FoundFile | None:
    """What a file is; None if it has gone meanwhile."""
    try:
        status = os.stat(name)
    except FileNotFoundError:
        return None
    stable = FoundFile(_hash(name.removesuffix(GZIP).encode()), name, status.st_size, status.st_mtime_ns, 0)
    try:
        first = _first_line(name)
        if not first:
            return stable
        complete = None if stable.is_compressed else _complete_until(name, status.st_size)
    except GZIP_ERRORS as error:
        return attrs.evolve(stable, error=f"the compressed file is damaged: {error}")
    except OSError as error:
        return attrs.evolve(stable, error=error.strerror or str(error))
    return attrs.evolve(stable, file_id=_hash(first), complete=complete)


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _first_line(name: str) -> bytes:
    """The first whole line, which no other file has: the server numbers its events."""
    with gzip.open(name) if name.endswith(GZIP) else open(name, "rb") as file:
        line = file.readline(_LONGEST_LINE)
    return line if line.endswith(b"\n") else b""


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


def text_size(found: FoundFile) -> int:
    """How many bytes of text a file has, as it says itself."""
    if not found.is_compressed:
        return found.size
    if found.size < 4:
        return 0
    with Path(found.name).open("rb") as file:
        file.seek(-4, os.SEEK_END)
        return int.from_bytes(file.read(4), "little")
