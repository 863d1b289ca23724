"""Where the bytes of a recording come from: blocks that are read one after the other.

Files are not mapped into memory: the system looks up each page then, which takes longer than to copy them, and it ends a
process that looks at a file of which a part is gone, or that the disk does not give.
"""

from __future__ import annotations

import importlib
import mmap
import os
from typing import Any, Protocol
from urllib.parse import unquote

import attrs
import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

#: How much is read at a time: of a local file not more than stays in the caches while it is looked at, from elsewhere
#: more, because asking takes time.
LOCAL_BLOCK = 4 * 1024 * 1024
REMOTE_BLOCK = 8 * 1024 * 1024


@attrs.frozen
class Window:
    """A part of a file in memory.

    Attributes:
        buffer: The bytes, as plain Python wants them.
        array: The same bytes, as numpy wants them.
        begin: Where in the file they are.
    """

    buffer: bytes | memoryview
    array: Bytes
    begin: int

    @property
    def end(self) -> int:
        """Where in the file the bytes after them are."""
        return self.begin + len(self.array)


_NO_WINDOW = Window(b"", np.empty(0, np.uint8), 0)


class ByteSource(Protocol):
    """A file of a fixed size; whatever is appended meanwhile is not looked at."""

    size: int

    def window(self, begin: int, least: int) -> Window:
        """At least so many bytes from here on, fewer only at the end of the file."""

    def read(self, begin: int, size: int) -> bytes:
        """A few bytes, without moving the window."""

    def close(self) -> None:
        """Let it go."""


class FileChangedError(OSError):
    """A file is not what it was when it was listed."""


class BlockFile:
    """A file that is read in blocks, from anything that has `size` and `read_at`.

    What else it may have is `block_at`, which gives a block until the next one is asked for.
    """

    def __init__(self, file: Any, size: int, path: str, block_size: int) -> None:
        if file.size() < size:
            file.close()
            raise FileChangedError(f"{path} became shorter while it was read")
        self.size = size
        self._file = file
        self._block_at = getattr(file, "block_at", file.read_at)
        self._path = path
        self._block_size = block_size
        self._window = _NO_WINDOW

    def window(self, begin: int, least: int) -> Window:
        """A block; the last one if it will do."""
        begin = max(0, begin)
        wanted = min(least, self.size - begin)
        if not self._window.begin <= begin <= begin + wanted <= self._window.end:
            size = min(max(wanted, self._block_size), self.size - begin)
            data = self._whole(self._block_at(size, begin), size)
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
        return bytes(self._whole(self._file.read_at(end - begin, begin), end - begin))

    def _whole(self, data: bytes | memoryview, size: int) -> bytes | memoryview:
        if len(data) < size:
            raise FileChangedError(f"{self._path} became shorter while it was read")
        return data

    def close(self) -> None:
        """Let it go, and what it gave as well."""
        self._window = _NO_WINDOW
        self._file.close()


#: Memory of files that are closed. To take new memory for each block would take longer than to read it.
_spare_memory: list[Bytes] = []


class _LocalFile:
    """A file of this machine."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self._memory: Bytes | None = None

    def size(self) -> int:
        """Bytes."""
        return os.fstat(self._descriptor).st_size

    def read_at(self, size: int, begin: int) -> bytes:
        """A few bytes; fewer if the file ends."""
        return bytes(self._fill(memoryview(bytearray(size)), begin))

    def block_at(self, size: int, begin: int) -> memoryview:
        """Many bytes, in the same memory as those before; fewer if the file ends."""
        if self._memory is None:
            self._memory = _spare_memory.pop() if _spare_memory else aligned_memory(LOCAL_BLOCK)
        if len(self._memory) < size:
            self._memory = aligned_memory(size)
        return self._fill(self._memory.data[:size], begin)

    def _fill(self, memory: memoryview, begin: int) -> memoryview:
        filled = 0
        while filled < len(memory):
            count = os.preadv(self._descriptor, [memory[filled:]], begin + filled)
            if not count:
                break
            filled += count
        return memory[:filled]

    def close(self) -> None:
        """Let it go."""
        os.close(self._descriptor)
        if self._memory is not None and not _spare_memory:
            _spare_memory.append(self._memory)
        self._memory = None


def aligned_memory(size: int) -> Bytes:
    """Memory that begins with a page. Some processors take nearly twice as long to copy a file to just after that, which is
    where large arrays usually are.
    """
    memory = np.empty(size + mmap.PAGESIZE, np.uint8)
    return memory[-memory.ctypes.data % mmap.PAGESIZE :][:size]


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
        found, path = fsspec.url_to_fs(unquote(uri))
        system = fs.PyFileSystem(fs.FSSpecHandler(found))
    return system, path


def open_source(path: str, size: int) -> ByteSource:
    """Open a recording.

    Args:
        path: A path of this machine, or an URI as pyarrow knows it (`s3://`, `hdfs://`, `gs://` ...).
        size: How many bytes of it count: what it had when it was listed.

    Raises:
        OSError: It cannot be read, or is shorter now.
    """
    if is_uri(path):
        system, inner = file_system_of(path)
        return BlockFile(system.open_input_file(inner), size, path, REMOTE_BLOCK)
    return BlockFile(_LocalFile(path.removeprefix("file://")), size, path, LOCAL_BLOCK)
