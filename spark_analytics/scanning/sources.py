"""Where the bytes of a recording come from: a mapped file, or blocks that are read one after the other."""

from __future__ import annotations

import importlib
import mmap
import os
from contextlib import suppress
from typing import Any, Protocol

import attrs
import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

#: How much is read at a time where a file cannot be mapped.
BLOCK_SIZE = 8 * 1024 * 1024


@attrs.frozen
class Window:
    """A part of a file in memory.

    Attributes:
        buffer: The bytes, as plain Python wants them.
        array: The same bytes, as numpy wants them.
        begin: Where in the file they are.
    """

    buffer: bytes | mmap.mmap
    array: Bytes
    begin: int

    @property
    def end(self) -> int:
        """Where in the file the bytes behind them are."""
        return self.begin + len(self.array)


class ByteSource(Protocol):
    """A file of a fixed size; whatever is appended meanwhile is not looked at."""

    size: int

    def window(self, begin: int, least: int) -> Window:
        """At least so many bytes from here on, fewer only at the end of the file."""

    def read(self, begin: int, size: int) -> bytes:
        """A few bytes, without moving the window."""

    def close(self) -> None:
        """Let it go."""


class MappedFile:
    """A local file as a part of the memory. Only for files that nobody is writing to: if one becomes shorter meanwhile,
    the system ends the process.
    """

    def __init__(self, path: str, size: int) -> None:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size < size:
                raise FileChangedError(f"{path} became shorter while it was read")
            self._map = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        self.size = size
        self._array: Bytes | None = np.frombuffer(self._map, np.uint8)

    def window(self, begin: int, least: int) -> Window:
        """All of it."""
        assert self._array is not None
        return Window(self._map, self._array, 0)

    def read(self, begin: int, size: int) -> bytes:
        """A few bytes."""
        return self._map[max(0, begin) : max(0, begin + size)]

    def close(self) -> None:
        """Let it go; as soon as the last array that shows a part of it is gone."""
        self._array = None
        with suppress(BufferError):
            self._map.close()


class FileChangedError(OSError):
    """A file is not what it was when it was listed."""


class BlockFile:
    """A file that is read in blocks, from anything that has `size` and `read_at`."""

    def __init__(self, file: Any, size: int, path: str, block_size: int = BLOCK_SIZE) -> None:
        if file.size() < size:
            file.close()
            raise FileChangedError(f"{path} became shorter while it was read")
        self.size = size
        self._file = file
        self._path = path
        self._block_size = block_size
        self._window = Window(b"", np.empty(0, np.uint8), 0)

    def window(self, begin: int, least: int) -> Window:
        """A block; the last one if it will do."""
        begin = max(0, begin)
        wanted = min(least, self.size - begin)
        if not self._window.begin <= begin <= begin + wanted <= self._window.end:
            data = self._read(begin, min(max(wanted, self._block_size), self.size - begin))
            self._window = Window(data, np.frombuffer(data, np.uint8), begin)
        return self._window

    def read(self, begin: int, size: int) -> bytes:
        """A few bytes."""
        begin, end = max(0, begin), max(0, min(begin + size, self.size))
        if begin >= end:
            return b""
        window = self._window
        if window.begin <= begin and end <= window.end:
            return bytes(window.buffer[begin - window.begin : end - window.begin])
        return self._read(begin, end - begin)

    def _read(self, begin: int, size: int) -> bytes:
        data: bytes = self._file.read_at(size, begin)
        if len(data) < size:
            raise FileChangedError(f"{self._path} became shorter while it was read")
        return data

    def close(self) -> None:
        """Let it go."""
        self._file.close()


class _LocalFile:
    """A local file that is read as others are."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def size(self) -> int:
        """Bytes."""
        return os.fstat(self._descriptor).st_size

    def read_at(self, size: int, begin: int) -> bytes:
        """All of that many bytes, unless the file ends."""
        parts: list[bytes] = []
        while size > 0:
            part = os.pread(self._descriptor, size, begin)
            if not part:
                break
            parts.append(part)
            size -= len(part)
            begin += len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Let it go."""
        os.close(self._descriptor)


def is_uri(path: str) -> bool:
    """Whether a path names a file system that is not this machine's."""
    return "://" in path and not path.startswith("file://")


#: What Hadoop calls the file systems that pyarrow knows by another name.
_OTHER_NAMES = {"s3a": "s3", "s3n": "s3"}


def file_system_of(uri: str) -> tuple[Any, str]:
    """The file system that an URI names, and the path in it. What pyarrow does not know, fsspec may, if it is installed:
    `webhdfs://`, `sftp://` and many others.

    Raises:
        OSError: It cannot be reached.
        ValueError: Nobody knows it.
    """
    from pyarrow import fs

    scheme, sign, rest = uri.partition("://")
    try:
        system, path = fs.FileSystem.from_uri(_OTHER_NAMES.get(scheme, scheme) + sign + rest)
    except ValueError:
        try:
            fsspec = importlib.import_module("fsspec.core")
        except ImportError:
            raise ValueError(
                f"pyarrow has no file system for {scheme}://, and fsspec is not installed"
            ) from None
        found, path = fsspec.url_to_fs(uri)
        system = fs.PyFileSystem(fs.FSSpecHandler(found))
    return system, path


def open_source(path: str, size: int, settled: bool = True) -> ByteSource:
    """Open a recording.

    Args:
        path: A path of this machine, or an URI as pyarrow knows it (`s3://`, `hdfs://`, `gs://` ...).
        size: How many bytes of it count: what it had when it was listed.
        settled: Whether nobody writes to it any more.

    Raises:
        OSError: It cannot be read, or is shorter now.
    """
    if is_uri(path):
        system, inner = file_system_of(path)
        return BlockFile(system.open_input_file(inner), size, path)
    local = path.removeprefix("file://")
    if settled and size:
        return MappedFile(local, size)
    return BlockFile(_LocalFile(local), size, path)
