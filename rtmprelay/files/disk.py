"""Files that are appended to, and what goes wrong with them on a disk."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from rtmprelay.errors import ConfigError

#: Readable by the owner and by a group that the operator chooses: stream names and addresses are not for others.
FILE_MODE = 0o640

#: Files that begin in the same second. More mean that something is wrong.
MAX_COPIES = 1000


class WritableFile(Protocol):
    """A file that is appended to. Every method may raise OSError; tests use files in memory that do."""

    @property
    def path(self) -> Path:
        """Where it was opened."""

    def append(self, data: bytes | memoryview) -> int:
        """Write at the end. Returns how many bytes the system took."""

    def write_at(self, data: bytes, offset: int) -> None:
        """Overwrite bytes that are there already."""

    def truncate(self, size: int) -> None:
        """Remove everything after `size` bytes, and append there from now on."""

    def sync(self) -> None:
        """Wait until the data is on the disk."""

    def close(self) -> None:
        """Close it; nothing else may be called after this."""

    def is_deleted(self) -> bool:
        """Whether its name is gone, so that nobody would find what is written to it."""

    def delete(self) -> None:
        """Remove its name."""


class OsFile:
    """A file of the operating system, without a buffer: what was appended survives this process."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self.descriptor = descriptor
        self.path = path

    def append(self, data: bytes | memoryview) -> int:
        return os.write(self.descriptor, data)

    def write_at(self, data: bytes, offset: int) -> None:
        while data:
            written = os.pwrite(self.descriptor, data, offset)
            data, offset = data[written:], offset + written

    def truncate(self, size: int) -> None:
        os.ftruncate(self.descriptor, size)
        os.lseek(self.descriptor, size, os.SEEK_SET)

    def sync(self) -> None:
        os.fsync(self.descriptor)

    def close(self) -> None:
        os.close(self.descriptor)

    def is_deleted(self) -> bool:
        return os.fstat(self.descriptor).st_nlink == 0

    def delete(self) -> None:
        os.unlink(self.path)


def create_file(folder: Path, names: Iterable[str]) -> OsFile:
    """Create the first of these files that does not exist.

    The folder is created again if it is gone, but not the folders above it: a disk that is not mounted must not be
    mistaken for one that is.

    Args:
        names: At least one.

    Raises:
        OSError: The file cannot be created, or all of them exist.
    """
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
    path = folder
    for name in names:
        path = folder / name
        with suppress(FileExistsError):
            return OsFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE), path)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def try_to_lock(descriptor: int) -> bool:
    """Lock a file against other processes; False if one of them has it. True if the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def error_name(error: OSError) -> str:
    """The short name of an error, such as ENOSPC."""
    return errno.errorcode.get(error.errno or 0, type(error).__name__)


def attempt(step: Callable[[], None]) -> OSError | None:
    """Run a step, and return its error instead of raising it."""
    try:
        step()
    except OSError as error:
        return error
    return None


def check_folder(text: str) -> Path:
    """The folder that an operator named, if files can be created in it or it can be created itself. Creates nothing.

    Raises:
        ConfigError: It cannot be used.
    """
    folder = Path(text)
    if not text or "\0" in text:
        raise ConfigError(f"{text!r} cannot be a folder")
    try:
        nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        usable = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    except OSError as error:
        raise ConfigError(f"{text!r} cannot be a folder: {error}") from error
    if not usable:
        what = "is not writable" if nearest.is_dir() else "is not a folder"
        raise ConfigError(f"{text!r} cannot be used: {str(nearest)!r} {what}")
    return folder
