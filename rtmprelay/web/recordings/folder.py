"""The folder of recordings as a stranger may see it: its own plain files, and nothing outside of it. Everything here waits for the disk."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs

from rtmprelay.flv.names import MAX_NAME_SIZE, parse_recording_name
from rtmprelay.flv.script import find_number

_SUFFIX = ".flv"

#: Files in the list. There may be more in the folder; the newest are listed.
MAX_LISTED = 10_000

#: Bytes at the beginning of a file in which its duration is looked for.
_HEAD = 4096

#: Durations in memory: more than the list has.
_MAX_DURATIONS = 2 * MAX_LISTED

#: Files whose beginning is read for one list; those of the others are read for the next one.
_MAX_HEADS = 500


#: Seconds without a change after which a file without a duration has none.
_SETTLED_AFTER = 60.0

#: Name, size and time of the last change.
_Key = tuple[str, int, float]


@attrs.frozen
class Identity:
    """Which file a name means: a name may be given to another file."""

    device: int
    inode: int


@attrs.frozen
class OpenFile:
    """A file that is open for reading."""

    descriptor: int
    identity: Identity
    size: int
    modified: float

    def read(self, offset: int, size: int) -> bytes:
        """So many bytes, or fewer at the end of the file."""
        parts: list[bytes] = []
        while size > 0 and (part := os.pread(self.descriptor, size, offset)):
            parts.append(part)
            size -= len(part)
            offset += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


@attrs.frozen
class ListedFile:
    """One recording in the list. What is not known is None.

    Attributes:
        started: Seconds since 1970.
    """

    name: str
    size: int
    modified: float
    duration: float | None
    started: float | None
    stream: str | None


def is_recording_name(name: str) -> bool:
    """Whether a name from outside can be that of a recording: one that stays in the folder and is not hidden."""
    return (
        name.endswith(_SUFFIX)
        and not name.startswith(".")
        and "/" not in name
        and "\0" not in name
        and len(name.encode("utf-8", "surrogatepass")) <= MAX_NAME_SIZE
    )


class RecordingFolder:
    """Opens and lists recordings. Symbolic links are not followed, and only plain files are opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Name, size and time of the last change; a file that has not changed has the same duration.
        self._durations: dict[_Key, float | None] = {}

    @contextmanager
    def opened(self, name: str) -> Iterator[OpenFile]:
        """A recording, open for reading.

        Raises:
            FileNotFoundError: There is no plain file of this name.
            OSError: It cannot be read.
        """
        if not is_recording_name(name):
            raise FileNotFoundError(name)
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # A pipe would wait for its other end.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise FileNotFoundError(name)
            identity = Identity(found.st_dev, found.st_ino)
            yield OpenFile(descriptor, identity, found.st_size, found.st_mtime)
        finally:
            os.close(descriptor)

    def list(self) -> tuple[list[ListedFile], int]:
        """The newest recordings first, and how many more there are. A folder that does not exist is empty."""
        found: list[tuple[float, str, int]] = []
        with suppress(FileNotFoundError), os.scandir(self.path) as entries:
            for entry in entries:
                with suppress(OSError):
                    if is_recording_name(entry.name) and entry.is_file(follow_symlinks=False):
                        state = entry.stat(follow_symlinks=False)
                        found.append((state.st_mtime, entry.name, state.st_size))
        found.sort(reverse=True)
        known = self._durations
        unread = [key for key in map(_key, found[:MAX_LISTED]) if key not in known]
        just_read: dict[_Key, float | None] = {}
        for key in unread[:_MAX_HEADS]:
            just_read[key] = self._duration(key[0])
            # The metadata of a file that has just been written is about to be completed.
            if just_read[key] is not None or time.time() - key[2] > _SETTLED_AFTER:
                known[key] = just_read[key]
        if len(known) > _MAX_DURATIONS:
            kept = {_key(entry) for entry in found[:MAX_LISTED]}
            self._durations = known = {key: value for key, value in known.items() if key in kept}
        listed = [
            _listed(entry, known.get(_key(entry), just_read.get(_key(entry)))) for entry in found[:MAX_LISTED]
        ]
        return listed, len(found) - len(listed)

    def _duration(self, name: str) -> float | None:
        """What the metadata says, without reading the index behind it."""
        try:
            with self.opened(name) as file:
                return find_number(file.read(0, _HEAD), "duration")
        except OSError:
            return None


def _key(entry: tuple[float, str, int]) -> _Key:
    modified, name, size = entry
    return name, size, modified


def _listed(entry: tuple[float, str, int], duration: float | None) -> ListedFile:
    modified, name, size = entry
    parsed = parse_recording_name(name)
    return ListedFile(
        name,
        size,
        modified,
        duration,
        None if parsed is None else parsed.started.timestamp(),
        None if parsed is None or parsed.shortened else parsed.key,
    )


def stream_of(name: str) -> str:
    """The stream that a recording is of, for the gate; a file that is named otherwise stands for itself."""
    parsed = parse_recording_name(name)
    return f"recordings/{name}" if parsed is None or parsed.shortened else parsed.key
