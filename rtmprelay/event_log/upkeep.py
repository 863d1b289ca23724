"""Compresses and deletes finished event logs, a little at a time between two writes."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path

import attrs

from rtmprelay.event_log.names import compressed, is_compressed, is_event_log, unfinished
from rtmprelay.event_log.settings import EventLogSettings
from rtmprelay.events import EventLogDeleted, EventLogEvent, EventLogFailed
from rtmprelay.files.disk import FILE_MODE, error_name, sync_folder, try_to_lock
from rtmprelay.quantities import MEBIBYTE

#: Bytes that are compressed in one step: lines wait meanwhile.
_STEP = MEBIBYTE

#: Much smaller than with the fastest level, and not much slower.
_LEVEL = 6

#: Seconds for which another server's new file is left alone: it may not be locked yet.
_YOUNG = 60.0


class Upkeep:
    """Looks after the folder, in steps of some milliseconds. Failures here never keep lines from being written."""

    def __init__(
        self,
        folder: Path,
        settings: EventLogSettings,
        wall_clock: Callable[[], float],
        monotonic: Callable[[], float],
        report: Callable[[EventLogEvent], None],
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._report = report
        self._to_compress: list[Path] = []
        self._compressing: Generator[None, None, None] | None = None
        self._compressing_path = folder
        self._has_reported = False
        self._next_look: float | None = None

    def finished(self, path: Path) -> None:
        if self._settings.gzip:
            self._to_compress.append(path)
        if self._settings.max_total_size is not None:
            # It may be one too many.
            self._next_look = None

    def step(self, active: Path | None) -> bool:
        """Do one step. Returns whether there is more to do now.

        Args:
            active: The file that is being written.
        """
        now = self._monotonic()
        if self._next_look is None or now >= self._next_look:
            self._next_look = now + self._settings.upkeep_interval
            self._look(active)
        if self._compressing is None and self._to_compress:
            self._compressing_path = self._to_compress.pop(0)
            self._compressing = compress(self._compressing_path)
        if self._compressing is not None:
            self._continue(self._compressing)
        return self._compressing is not None or bool(self._to_compress)

    def _continue(self, compressing: Generator[None, None, None]) -> None:
        try:
            next(compressing)
        except StopIteration:
            self._compressing = None
        except FileNotFoundError:
            # Another server that shares the folder compressed it first, or somebody deleted it.
            self._compressing = None
        except OSError as error:
            # The file stays as it is. A later look finds it again.
            self._compressing = None
            if not self._has_reported:
                self._has_reported = True
                reason = f"it is not compressed: {error.strerror or error}"
                path = str(self._compressing_path)
                self._report(EventLogFailed(path=path, error=error_name(error), reason=reason))

    def close(self) -> None:
        """Give up what is half done; the next start does it again."""
        if self._compressing is not None:
            self._compressing.close()
        self._compressing = None
        self._to_compress.clear()

    def _look(self, active: Path | None) -> None:
        """Find files that earlier runs did not compress, and files that are too old."""
        in_use = {active, *self._to_compress}
        if self._compressing is not None:
            in_use.add(self._compressing_path)
        found = sorted(_event_logs(self._folder), key=lambda one: (one.modified, one.path))
        total, most = sum(one.size for one in found), self._settings.max_total_size
        for one in found:
            path, age = one.path, self._wall_clock() - one.modified
            if path in in_use:
                continue
            if self._settings.keep is not None and age > self._settings.keep:
                total -= self._delete(path, "too old")
            elif most is not None and total > most:
                total -= self._delete(path, "too many bytes")
            elif self._settings.gzip and not is_compressed(path.name) and age > _YOUNG:
                self._to_compress.append(path)

    def _delete(self, path: Path, reason: str) -> int:
        """Delete a file that nobody writes. Returns how many bytes that freed."""
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if not try_to_lock(descriptor):
                    return 0
                size = os.fstat(descriptor).st_size
                os.unlink(path)
            finally:
                os.close(descriptor)
            self._report(EventLogDeleted(path=str(path), bytes=size, reason=reason))
            return size
        return 0


@attrs.frozen
class _FoundLog:
    path: Path
    size: int
    modified: float


def _event_logs(folder: Path) -> Iterator[_FoundLog]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if is_event_log(entry.name) and entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    yield _FoundLog(folder / entry.name, status.st_size, status.st_mtime)


def compress(path: Path) -> Generator[None, None, None]:
    """Compress a file, one step for each `next`. At any moment the plain or the compressed file is complete.

    Raises:
        OSError: The plain file stays as it is.
    """
    with path.open("rb") as source:
        if not try_to_lock(source.fileno()):
            return
        target, temporary = compressed(path), unfinished(path)
        # If the target exists, a server was killed after the rename: only the plain file has to go.
        if not target.exists():
            try:
                yield from _write_compressed(source.fileno(), temporary, path.name)
                os.rename(temporary, target)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink()
                raise
            sync_folder(path.parent)
        path.unlink()


def _write_compressed(source: int, target: Path, name: str) -> Generator[None, None, None]:
    status = os.fstat(source)
    with open(target, "wb", opener=lambda path, flags: os.open(path, flags, FILE_MODE)) as raw:
        with gzip.GzipFile(name, "wb", _LEVEL, raw, mtime=status.st_mtime) as out:
            while data := os.read(source, _STEP):
                out.write(data)
                yield
        raw.flush()
        os.fsync(raw.fileno())
    # Files are deleted by the age of their last event.
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
