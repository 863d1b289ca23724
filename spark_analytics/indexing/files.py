"""Finds recordings: in folders and below them, by patterns, on this machine or on any file system that pyarrow knows."""

from __future__ import annotations

import fnmatch
import glob
import os
import posixpath
import stat
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any

import attrs

from spark_analytics.errors import CatalogueError
from spark_analytics.scanning.sources import file_system_of, is_uri

#: What recordings end in; a file that is named itself may be called anything.
_SUFFIX = ".flv"

_WILD = "*?["


@attrs.frozen
class FoundFile:
    """A file as it was listed."""

    path: str
    size: int
    mtime_ns: int

    @property
    def file_id(self) -> str:
        """A short name for its path."""
        return file_id_of(self.path)

    @property
    def name(self) -> str:
        """Its name without the folder."""
        return posixpath.basename(self.path)


def file_id_of(path: str) -> str:
    """The short name of a path."""
    return blake2b(path.encode(), digest_size=8).hexdigest()


@attrs.frozen
class Place:
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
            return fnmatch.fnmatch(path, self.pattern)
        return path == self.prefix or path.startswith(self.prefix.rstrip("/") + "/")


@attrs.frozen
class Listing:
    """What was found, each file once, by its path."""

    files: dict[str, FoundFile]
    places: tuple[Place, ...]

    def covers(self, path: str) -> bool:
        """Whether a file of this path would have been found."""
        return any(place.covers(path) for place in self.places)


def find_recordings(names: Iterable[str], warn: Callable[[str], None] = lambda _: None) -> Listing:
    """List recordings.

    Args:
        names: Folders, which are looked through with all folders below them; files; or patterns such as `rec/live_*.flv`.
        warn: Gets a line for each folder that cannot be looked into.

    Raises:
        CatalogueError: One of them is not there. A disk that is not mounted must not look like one that was emptied.
    """
    files: dict[str, FoundFile] = {}
    places: list[Place] = []
    for name in names:
        place, found = _look_at_uri(name) if is_uri(name) else _look_at_local(name, warn)
        places.append(place)
        files.update((file.path, file) for file in found)
    return Listing(files, tuple(places))


# -- this machine --------------------------------------------------------------------------------------------


def _look_at_local(name: str, warn: Callable[[str], None]) -> tuple[Place, list[FoundFile]]:
    path = os.path.abspath(name.removeprefix("file://"))
    if os.path.isdir(path):
        return Place(path), list(_files_below(path, warn))
    if os.path.exists(path):
        return Place(path), _stat(path, warn)
    if any(sign in name for sign in _WILD):
        matches = sorted(glob.glob(path, recursive=True))
        found = [file for match in matches if os.path.isfile(match) for file in _stat(match, warn)]
        for folder in filter(os.path.isdir, matches):
            found += _files_below(folder, warn)
        return Place(path, path), found
    raise CatalogueError(f"There is no file or folder {name}.")


def _files_below(folder: str, warn: Callable[[str], None]) -> Iterator[FoundFile]:
    def failed(error: OSError) -> None:
        warn(f"{error.filename}: {error.strerror}")

    for parent, folders, names in os.walk(folder, onerror=failed):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith(_SUFFIX) and not name.startswith("."):
                yield from _stat(os.path.join(parent, name), warn)


def _stat(path: str, warn: Callable[[str], None]) -> list[FoundFile]:
    try:
        path.encode()
        found = os.stat(path)
    except UnicodeEncodeError:
        warn(f"{path!r} is left out: its name is not UTF-8, and a table could not hold it")
        return []
    except OSError:
        # Deleted since it was listed.
        return []
    if not stat.S_ISREG(found.st_mode):
        # To open a pipe would wait for somebody to write to it.
        warn(f"{path} is left out: it is no file")
        return []
    return [FoundFile(path, found.st_size, found.st_mtime_ns)]


# -- other file systems --------------------------------------------------------------------------------------


def _look_at_uri(name: str) -> tuple[Place, list[FoundFile]]:
    from pyarrow import fs

    scheme, _, rest = name.partition("://")
    wild = min((rest.find(sign) for sign in _WILD if sign in rest), default=-1)
    base = name if wild < 0 else f"{scheme}://{rest[:wild].rpartition('/')[0]}"
    try:
        system, inner = file_system_of(base)
        info = system.get_file_info(inner)
        if info.type == fs.FileType.NotFound:
            raise CatalogueError(f"There is no file or folder {base}.")
        if info.type == fs.FileType.File:
            return Place(name), [_found(base, inner, info)]
        infos = system.get_file_info(fs.FileSelector(inner, recursive=True))
    except (OSError, ValueError) as error:
        raise CatalogueError(f"{name} cannot be looked at: {error}") from error
    found = [
        _found(base, inner, info)
        for info in infos
        if info.type == fs.FileType.File and "/." not in info.path[len(inner) :]
    ]
    if wild < 0:
        return Place(name.rstrip("/")), [file for file in found if file.path.endswith(_SUFFIX)]
    return Place(name, name), [file for file in found if fnmatch.fnmatch(file.path, name)]


def _found(base: str, inner: str, info: Any) -> FoundFile:
    """The URI of a file from that of the folder, and the path of both inside of the file system."""
    rest = info.path[len(inner) :]
    return FoundFile(base.rstrip("/") + rest if rest else base, int(info.size), int(info.mtime_ns or 0))
