"""Where a catalogue is: a folder on a disk, or below an address such as `s3://bucket/catalogue`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import attrs

from spark_analytics.errors import CatalogueError
from spark_analytics.flv.sources import file_system_of, is_uri

#: What delta-rs takes for another name, even in an address where it is escaped.
_MISREAD = re.compile(r"\\|%[0-9A-Fa-f]{2}")


@attrs.frozen
class StoredFile:
    """A file as a listing has it; its path is below the folder that was listed."""

    path: str
    size: int
    mtime: float


@attrs.define(frozen=True, slots=False)
class Place:
    """A folder.

    Attributes:
        address: An absolute path, or an URI; without a slash at the end.
    """

    address: str

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Place:
        """From what a person has written. Java has a current folder of its own, so a path is made absolute here.

        Raises:
            CatalogueError: It cannot be that of a catalogue.
        """
        text = os.fspath(path)
        if is_uri(text):
            return cls(text.rstrip("/"))
        absolute = str(Path(text.removeprefix("file://")).absolute())
        if _MISREAD.search(absolute):
            raise CatalogueError(
                f"{absolute} cannot have a catalogue: a backslash or a percent sign with two digits after it is not "
                "understood in the name of a folder; choose another one."
            )
        return cls(absolute)

    def __truediv__(self, name: str) -> Place:
        return Place(f"{self.address}/{name}")

    def __str__(self) -> str:
        return self.address

    def __fspath__(self) -> str:
        return str(self.local)

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine."""
        return not is_uri(self.address)

    @property
    def local(self) -> Path:
        """The same as a path of this machine."""
        assert self.is_local
        return Path(self.address)

    @property
    def storage_options(self) -> dict[str, str] | None:
        """What delta-rs must be told. It has the rest from the same variables of the environment as pyarrow."""
        if not self.is_local and os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://"):
            return {"AWS_ALLOW_HTTP": "true"}
        return None

    @cached_property
    def _system(self) -> tuple[Any, str]:
        """The file system of pyarrow, and the path in it."""
        if self.is_local:
            from pyarrow import fs

            return fs.LocalFileSystem(), self.address
        try:
            system, path = file_system_of(self.address)
        except (OSError, ValueError) as error:
            raise CatalogueError(f"{self} cannot be used: {error}") from error
        return system, path.rstrip("/")

    @property
    def file_system(self) -> Any:
        """The file system of pyarrow."""
        return self._system[0]

    @property
    def path(self) -> str:
        """Where it is in its file system."""
        return self._system[1]

    def make(self) -> None:
        """Make the folder, if it is one of this machine: others need none."""
        if self.is_local:
            self.local.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def create(self, name: str) -> Iterator[IO[bytes]]:
        """A new file below this folder. When the block has ended, it lasts; if the block fails, it is not there."""
        if not self.is_local:
            with self.file_system.open_output_stream(f"{self.path}/{name}") as stream:
                yield stream
            return
        path = self.local / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                path.unlink(missing_ok=True)
                raise
        self.sync(name)

    def sync(self, name: str = "") -> None:
        """Make the names of folders last, from that of a file up to this folder and the one above."""
        if self.is_local:
            folder = (self.local / name).parent
            for one in (folder, *folder.parents):
                sync_folder(one)
                if one == self.local.parent:
                    break

    def size_of(self, name: str) -> int | None:
        """Bytes of a file; None if it is not there."""
        if self.is_local:
            try:
                return (self.local / name).stat().st_size
            except (FileNotFoundError, NotADirectoryError):
                return None
        size: int | None = self.file_system.get_file_info(f"{self.path}/{name}").size
        return size

    def list_files(self) -> list[StoredFile]:
        """All files below this folder, however deep."""
        from pyarrow import fs

        selector = fs.FileSelector(self.path, recursive=True, allow_not_found=True)
        return [
            StoredFile(
                info.path[len(self.path) + 1 :], info.size, info.mtime_ns / 1e9 if info.mtime_ns else 0.0
            )
            for info in self.file_system.get_file_info(selector)
            if info.type == fs.FileType.File
        ]

    def delete(self, names: Iterable[str]) -> None:
        """Delete files, as far as they are there."""
        for name in names:
            if self.is_local:
                (self.local / name).unlink(missing_ok=True)
            else:
                self.file_system.delete_file(f"{self.path}/{name}")


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Make a file that somebody else has written last, and its name."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(path.parent)
