"""Finds event logs, and what they are known by when they have grown, were compressed or were moved."""

from __future__ import annotations

import glob
import gzip
import hashlib
import io
import json
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Protocol
from urllib.parse import unquote

import attrs

from spark_analytics.errors import CatalogueError
from spark_analytics.flv.sources import file_system_of, is_uri
from spark_analytics.paths import covers, is_pattern, matches
from spark_analytics.recordings.discover import list_uri
from spark_analytics.store.schema import as_bigint

GZIP = ".gz"

_NAME = re.compile(r"events_\d{8}_\d{6}(?:-\d{1,9})?\.jsonl(?:\.gz)?", re.ASCII)

#: What the server calls a file while it compresses it.
_UNFINISHED = ".gz.tmp"

#: The first line is searched for its end so far, and the end of the file for its last line.
_LONGEST_LINE = 1024 * 1024

#: A compressed file may become so much text, or so many times its size: logs become some twenty times theirs.
_MOST_TEXT = 16 * 1024 * 1024
_MOST_RATIO = 100

#: How much is asked for at once of another file system.
_REMOTE_BLOCK = 1024 * 1024


class TooMuchTextError(Exception):
    """A compressed file that becomes more text than any log does."""


#: What a broken compressed file raises, in the order in which people meet it.
GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error, TooMuchTextError)


class LogText(Protocol):
    """The text of a log, compressed or not."""

    def readline(self, size: int = -1, /) -> bytes:
        """The next line, or so much of it."""

    def read(self, size: int = -1, /) -> bytes:
        """Some bytes."""

    def seek(self, offset: int, /) -> int:
        """Go there."""


@attrs.frozen
class ListedLog:
    """A name, and what another file system said of it when it was listed."""

    name: str
    size: int | None = None
    mtime_ns: int = 0


@attrs.frozen
class FoundLog:
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


def find_event_logs(
    places: Iterable[str], known: Mapping[str, Mapping[str, Any]] | None = None
) -> list[FoundLog]:
    """All event logs in these folders (and those below them), or under these names; one at each place.

    Args:
        known: The rows of `event_files` by `file_id`: logs on other file systems that are as they were are not opened.

    Raises:
        CatalogueError: There is nothing of that name.
    """
    listed = {log.name: log for place in places for log in _listed(place) if _is_text(log.name)}
    at: dict[str, list[ListedLog]] = {}
    for name in sorted(listed):
        at.setdefault(name.removesuffix(GZIP), []).append(listed[name])
    as_it_was = {
        (row["path"] + GZIP * row["compressed"], row["size"], row["mtime_ns"]): row
        for row in (known or {}).values()
        if row["error"] is None and is_uri(row["path"])
    }
    found = [file_at(logs, as_it_was) for logs in at.values()]
    return [one for one in found if one is not None]


def file_at(
    logs: Iterable[ListedLog], as_it_was: Mapping[tuple[str, int, int], Mapping[str, Any]] | None = None
) -> FoundLog | None:
    """The file of a place: the plain one before the compressed one, which may be half written as long as both are there."""
    other = None
    for log in logs:
        row = None if as_it_was is None else as_it_was.get((log.name, log.size or 0, log.mtime_ns))
        found = look_at(log.name, log) if row is None else _unchanged(log, row)
        if found is not None and found.error is None and found.complete != 0:
            return found
        other = other or found
    return other


def _unchanged(log: ListedLog, row: Mapping[str, Any]) -> FoundLog:
    """A log that is as it was when it was read, by the row of `event_files`."""
    first, sign, _ = row["file_id"].partition("-")
    complete = None if log.name.endswith(GZIP) else row["read_until"]
    return FoundLog(first, log.name, row["size"], log.mtime_ns, complete, is_foreign=bool(sign))


def _listed(place: str) -> Iterator[ListedLog]:
    if is_uri(place):
        named = is_pattern(place)
        found = list_uri(place)
        for file in found:
            is_meant = matches(unquote(file.path), place) if named else file.path == place
            if (is_meant and not file.path.endswith(_UNFINISHED)) or (
                (not named or covers(unquote(file.path), place)) and _NAME.fullmatch(file.name)
            ):
                yield ListedLog(file.path, file.size, file.mtime_ns)
        return
    for name in _local_names(place.removeprefix("file://")):
        yield ListedLog(name)


def _local_names(place: str) -> Iterator[str]:
    matched = [place] if os.path.exists(place) else glob.glob(place, recursive=True)
    if not matched:
        raise CatalogueError(f"There is no event log {place!r}: --events takes folders, files and patterns.")
    for match in matched:
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


def look_at(name: str, listed: ListedLog | None = None) -> FoundLog | None:
    """What a file is; None if it is none, or has gone meanwhile.

    Args:
        listed: What the listing of another file system says of it.
    """
    if is_uri(name):
        if listed is None or listed.size is None:
            listed = _ask_for(name)
        if listed is None or listed.size is None:
            return None
        size, mtime_ns = listed.size, listed.mtime_ns
    else:
        try:
            status = os.stat(name)
        except OSError:
            # Gone, or a link that leads nowhere.
            return None
        if not stat.S_ISREG(status.st_mode):
            # Who opens a pipe waits until somebody writes.
            return None
        size, mtime_ns = status.st_size, status.st_mtime_ns
    stable = FoundLog(hash_of(name.removesuffix(GZIP).encode()), name, size, mtime_ns, 0)
    try:
        first = _first_line(name)
        if not first:
            return stable
        complete = None if stable.is_compressed else _complete_until(name, size)
    except GZIP_ERRORS as error:
        return attrs.evolve(stable, error=f"the compressed file is damaged: {error}")
    except OSError as error:
        return attrs.evolve(stable, error=error.strerror or str(error))
    return attrs.evolve(stable, file_id=hash_of(first), complete=complete, is_foreign=not _is_numbered(first))


def _ask_for(uri: str) -> ListedLog | None:
    """One file of another file system; None if it is not there."""
    try:
        (found,) = list_uri(uri)
    except (CatalogueError, ValueError):
        return None
    return ListedLog(found.path, found.size, found.mtime_ns)


def open_log(name: str) -> IO[bytes]:
    """Open a log as it is, wherever it is."""
    if not is_uri(name):
        return open(name, "rb")
    system, inner = file_system_of(name)
    return io.BufferedReader(system.open_input_file(inner), _REMOTE_BLOCK)


class BoundedText:
    """The text of a compressed file. A few bytes may become terabytes: no log is compressed to a hundredth."""

    def __init__(self, file: IO[bytes]) -> None:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        self._most = max(_MOST_TEXT, size * _MOST_RATIO)
        self._text = gzip.GzipFile(fileobj=file, mode="rb")
        self._read = 0

    def readline(self, size: int = -1, /) -> bytes:
        """The next line, or so much of it."""
        return self._counted(self._text.readline(size))

    def read(self, size: int = -1, /) -> bytes:
        """Some bytes."""
        return self._counted(self._text.read(size))

    def _counted(self, data: bytes) -> bytes:
        self._read += len(data)
        if self._read > self._most:
            raise TooMuchTextError(f"it becomes more than {self._most} bytes of text")
        return data

    def seek(self, offset: int, /) -> int:
        """Go there."""
        self._read = self._text.seek(offset)
        return self._read


@contextmanager
def open_text(name: str) -> Iterator[LogText]:
    """The text of a log, compressed or not."""
    with open_log(name) as file:
        yield BoundedText(file) if name.endswith(GZIP) else file


def hash_of(data: bytes) -> str:
    """What is short and as good as the data."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _first_line(name: str) -> bytes:
    """The first whole line, or so much of it that it is longer than any event."""
    with open_text(name) as file:
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
    with open_log(name) as file:
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
    if not is_uri(place):
        next(_local_names(place.removeprefix("file://")), None)


def text_size(found: FoundLog) -> int | None:
    """How many bytes of text a file has, as it says itself; None if it cannot be asked any more."""
    if not found.is_compressed:
        return found.size
    if found.size < 4:
        return 0
    try:
        with open_log(found.name) as file:
            file.seek(-4, os.SEEK_END)
            return int.from_bytes(file.read(4), "little")
    except OSError:
        return None
