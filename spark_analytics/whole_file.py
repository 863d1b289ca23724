"""Writes files that appear as a whole, or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spark_analytics.errors import CatalogueError

#: What file systems say that have no hard links, such as those of memory cards and of many network drives.
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@contextmanager
def whole_file(path: Path, replace: bool = False) -> Iterator[int]:
    """The descriptor of a new file, which gets its name at the end; if something goes wrong before, nothing is left.

    Args:
        replace: Whether a file of that name may be there. Who reads that one at the moment is not disturbed.

    Raises:
        CatalogueError: There is a file of that name, or it is a folder, or there is no such folder.
        OSError: It cannot be written.
    """
    taken = CatalogueError(f"{path} is there already: choose another name, or delete it.")
    if path.is_dir():
        raise CatalogueError(f"{path} cannot be written: it is a folder.")
    if not replace and path.exists():
        raise taken
    if not path.parent.is_dir():
        raise CatalogueError(f"{path} cannot be written: there is no folder {path.parent}.")
    temporary = path.parent / f".{secrets.token_hex(8)}.tmp"
    with _errors_of(path):
        # Unlike those of `tempfile`, it gets the rights that any new file has here.
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        try:
            yield descriptor
        finally:
            os.close(descriptor)
        with _errors_of(path):
            if replace:
                os.replace(temporary, path)
            else:
                _name(temporary, path, taken)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """Errors name the file that was asked for: nobody knows the temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _name(temporary: Path, path: Path, taken: CatalogueError) -> None:
    """Give a file its name, unless somebody else was faster."""
    try:
        try:
            os.link(temporary, path)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            # The name is taken first, by an empty file.
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            os.replace(temporary, path)
    except FileExistsError:
        raise taken from None
