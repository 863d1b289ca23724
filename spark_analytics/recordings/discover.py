"""Finds recordings: in folders and below them, by patterns, on this machine or on any file system that pyarrow knows."""

from __future__ import annotations

import glob
import os
import posixpath
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from typing import Any
from urllib.parse import quote, unquote

import attrs

from spark_analytics.errors import CatalogueError, NothingThereError
from spark_analytics.flv.sources import file_system_of, is_uri
from spark_analytics.paths import covers, fixed_part, is_pattern, matches
from spark_analytics.store.schema import as_bigint

#: What recordings end in; a file that is named itself may be called anything.
_SUFFIX = ".flv"

#: Options behind an address, as pyarrow takes them; a question mark alone stands for any sign.
_OPTIONS = re.compile(r"\?\w+=")


@attrs.frozen
class FoundFile:
    """A file as it was listed."""

    path: str
    size: int
    mtime_ns: int = attrs.field(converter=as_bigint)

    @property
    def file_id(self) -> str:
        """A short name for its path."""
        return file_id_of(self.path)

    @property
    def name(self) -> str:
        """Its name without the folder."""
        name = posixpath.basename(self.path)
        return unquote(name) if is_uri(self.path) else name


def file_id_of(path: str) -> str:
    """The short name of a path."""
    return blake2b(path.encode(), digest_size=8).hexdigest()


@attrs.frozen
class FileLocation:
    """Where recordings are looked for.

    Attributes:
        prefix: What the paths of all files there begin with.
        pattern: What they match, if they were named by a pattern.
    """

    prefix: str
    pattern: str | None = None

    def covers(self, path: str) -> bool:
        """Whether a file of this path would have been found there."""
        if self.pattern is not None:
            return covers(unquote(path) if is_uri(path) else path, self.pattern)
        return path == self.prefix or path.startswith(self.prefix.rstrip("/") + "/")


@attrs.frozen
class Listing:
    """What was found, each file once, by its path."""

    files: dict[str, FoundFile]
    places: tuple[FileLocation, ...]

    def covers(self, path: str) -> bool:
        """Whether a file of this path would have been found."""
        return any(place.covers(path) for place in self.places)


def find_recordings(names: Iterable[str], warn: Callable[[str], None] = lambda _: None) -> Listing:
    """List recordings.

    Args:
        names: Folders, which are looked through with all folders below them; files; or patterns such as `rec/live_*.flv`.
        warn: Gets a line for each folder that cannot be looked into.

    Raises:
        NothingThereError: One of them is not there. A disk that is not mounted must not look like one that was emptied.
        CatalogueError: Whether it is there cannot be told, or it may not be named like this.
    """
    files: dict[str, FoundFile] = {}
    places: list[FileLocation] = []
    for name in names:
        place, found = _look_at_uri(name) if is_uri(name) else _look_at_local(name, warn)
        places.append(place)
        files.update((file.path, file) for file in found)
    return Listing(files, tuple(places))


def place_of(name: str) -> FileLocation:
    """A place that need not be there any more."""
    path = name.rstrip("/") if is_uri(name) else _local(name)
    return FileLocation(path, path if is_pattern(name) else None)


def check_places(names: Iterable[str]) -> None:
    """See whether all places on this machine are there, before anything is begun.

    Raises:
        NothingThereError: One is not.
    """
    for name in names:
        path = _local(name)
        if not is_uri(name) and not os.path.exists(path):
            _check_pattern(name, path)


# -- this machine --------------------------------------------------------------------------------------------


def _local(name: str) -> str:
    return os.path.abspath(name.removeprefix("file://"))


def _check_pattern(name: str, path: str) -> None:
    if not is_pattern(name):
        raise NothingThereError(f"There is no file or folder {name}.")
    folder = fixed_part(path)
    if not os.path.isdir(folder or "/"):
        raise NothingThereError(f"There is no folder {folder}, where {name} is to be looked for.")


def _look_at_local(name: str, warn: Callable[[str], None]) -> tuple[FileLocation, list[FoundFile]]:
    path = _local(name)
    if os.path.isdir(path):
        return FileLocation(path), list(_files_below(path, warn))
    if os.path.exists(path):
        return FileLocation(path), _stat(path, warn)
    _check_pattern(name, path)
    matched = sorted(glob.glob(path, recursive=True))
    found = [file for match in matched if os.path.isfile(match) for file in _stat(match, warn)]
    for folder in filter(os.path.isdir, matched):
        found += _files_below(folder, warn)
    return FileLocation(path, path), found


def _files_below(folder: str, warn: Callable[[str], None]) -> Iterator[FoundFile]:
    def failed(error: OSError) -> None:
        warn(f"{error.filename}: {error.strerror}")

    # Links to folders lead to other disks; which folders each one is in tells whether it leads around in a circle.
    above = {folder: frozenset({_identity(folder)})}
    for parent, folders, names in os.walk(folder, onerror=failed, followlinks=True):
        seen = above.pop(parent)
        below = {name: _identity(os.path.join(parent, name)) for name in folders if not name.startswith(".")}
        folders[:] = sorted(name for name, identity in below.items() if identity not in seen)
        above.update((os.path.join(parent, name), seen | {below[name]}) for name in folders)
        for name in sorted(names):
            if name.endswith(_SUFFIX) and not name.startswith("."):
                yield from _stat(os.path.join(parent, name), warn)


def _identity(folder: str) -> tuple[int, int]:
    """What a folder is, by whatever name."""
    try:
        found = os.stat(folder)
    except OSError:
        # It is told when it is looked into.
        return 0, 0
    return found.st_dev, found.st_ino


def _stat(path: str, warn: Callable[[str], None]) -> list[FoundFile]:
    try:
        path.encode()
        found = os.stat(path)
    except UnicodeEncodeError:
        warn(f"{path!r} is left out: its name is not UTF-8, and a table could not hold it")
        return []
    except OSError as error:
        # One that was deleted since it was listed is no news.
        if os.path.islink(path):
            warn(f"{path} is left out: the link leads nowhere")
        elif os.path.lexists(path):
            warn(f"{path} is left out: {error.strerror}")
        return []
    if not stat.S_ISREG(found.st_mode):
        # To open a pipe would wait for somebody to write to it.
        warn(f"{path} is left out: it is no file")
        return []
    return [FoundFile(path, found.st_size, found.st_mtime_ns)]


# -- other file systems --------------------------------------------------------------------------------------


def _look_at_uri(name: str) -> tuple[FileLocation, list[FoundFile]]:
    base = fixed_part(name)
    found = list_uri(name)
    if [file.path for file in found] == [base]:
        return FileLocation(name), found
    recordings = [file for file in found if file.path.endswith(_SUFFIX)]
    if base == name:
        return FileLocation(name.rstrip("/")), recordings
    place = FileLocation(name, name)
    named = [file for file in found if matches(unquote(file.path), name)]
    return place, [*named, *(file for file in recordings if place.covers(file.path))]


def find_again(paths: Iterable[str], warn: Callable[[str], None]) -> dict[str, FoundFile]:
    """Those of some recordings that are still there, by their paths. On other file systems their folders are listed: to ask
    for each file takes a request each.
    """
    found: dict[str, FoundFile] = {}
    wanted: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        if is_uri(path):
            wanted[path.rpartition("/")[0]].add(path)
        else:
            found.update((file.path, file) for file in _stat(path, warn))
    for folder, names in wanted.items():
        # What has gone meanwhile is none of this run's business.
        with suppress(NothingThereError):
            found.update((file.path, file) for file in list_uri(folder, deep=False) if file.path in names)
    return found


def list_uri(name: str, deep: bool = True) -> list[FoundFile]:
    """All files in the folder of an address, or of a pattern of addresses, and below it; or the one file of this name.

    Args:
        deep: Whether folders below it are looked into.

    Raises:
        NothingThereError: There is nothing.
        CatalogueError: Whether there is cannot be told, or it may not be named like this.
    """
    from pyarrow import fs

    _refuse_secrets(name)
    base = fixed_part(name)
    try:
        system, inner = file_system_of(base)
        info = system.get_file_info(inner)
        if info.type == fs.FileType.NotFound:
            raise NothingThereError(f"There is no file or folder {base}.")
        if info.type == fs.FileType.File:
            return [_found(base, inner, info)]
        infos = system.get_file_info(fs.FileSelector(inner, recursive=deep))
    except (OSError, ValueError) as error:
        raise CatalogueError(f"{name} cannot be looked at: {error}") from error
    return [
        _found(base, inner, info)
        for info in infos
        if info.type == fs.FileType.File and "/." not in info.path[len(inner) :]
    ]


def _refuse_secrets(name: str) -> None:
    """Addresses are stored with every recording and shown to everybody: nothing secret may be in them."""
    address = name.partition("://")[2]
    if ":" in address.partition("/")[0].rpartition("@")[0]:
        raise CatalogueError(
            "An address with a password in it would be stored with every recording: give keys another way, "
            "such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment."
        )
    if _OPTIONS.search(address):
        raise CatalogueError(
            f"{name[: name.index('?')]}: options behind a question mark are not taken; give them another way, "
            "such as AWS_ENDPOINT_URL in the environment."
        )


def _found(base: str, inner: str, info: Any) -> FoundFile:
    """The URI of a file from that of the folder, and the path of both inside of the file system."""
    # Whoever opens an URI takes a percent sign for an escape, and names of recordings have some of their own.
    rest = quote(info.path[len(inner) :])
    return FoundFile(base.rstrip("/") + rest if rest else base, int(info.size), int(info.mtime_ns or 0))
