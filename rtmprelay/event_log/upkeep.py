"""What becomes of finished event logs: compressed, and deleted when they are old. A little at a time."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path

from rtmprelay.event_log.disk import name_of, sync_folder, try_to_lock
from rtmprelay.event_log.names import compressed, is_compressed, is_event_log, unfinished
from rtmprelay.event_log.settings import EventLogSettings
from rtmprelay.events import EventLogDeleted, EventLogEvent, EventLogFailed

#: Bytes that are compressed between two looks at the events that wait.
_STEP = 1024 * 1024

#: A good deal smaller than the fastest level gives, and not much slower.
_LEVEL = 6

#: Seconds for which a file that is not ours is left alone: its server may be about to lock it.
_YOUNG = 60.0


class Upkeep:
    """Looks after the folder, in steps that take some milliseconds. No failure here is anybody's trouble."""

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
        self._path = folder
        self._has_told = False
        self._next_look: float | None = None

    def finished(self, path: Path) -> None:
        """A file is complete."""
        if self._settings.gzip:
            self._to_compress.append(path)

    def step(self, active: Path | None) -> bool:
        """Do a little; whether there is more to do now.

        Args:
            active: The file that is being written.
        """
        now = self._monotonic()
        if self._next_look is None or now >= self._next_look:
            self._next_look = now + self._settings.upkeep_interval
            self._look(active)
        if self._compressing is None and self._to_compress:
            self._path = self._to_compress.pop(0)
            self._compressing = compress(self._path)
        if self._compressing is not None:
            self._go_on(self._compressing)
        return self._compressing is not None or bool(self._to_compress)

    def _go_on(self, compressing: Generator[None, None, None]) -> None:
        try:
            next(compressing)
        except StopIteration:
            self._compressing = None
        except FileNotFoundError:
            # Another server that shares the folder was faster, or somebody deleted it.
            self._compressing = None
        except OSError as error:
            # It stays as it is, and is tried again at a later look.
            self._compressing = None
            if not self._has_told:
                self._has_told = True
                reason = f"it is not compressed: {error.strerror or error}"
                self._report(EventLogFailed(path=str(self._path), error=name_of(error), reason=reason))

    def close(self) -> None:
        """The server stops: what is half done is done anew the next time."""
        if self._compressing is not None:
            self._compressing.close()
        self._compressing = None
        self._to_compress.clear()

    def _look(self, active: Path | None) -> None:
        """Find what servers before left behind, and what is too old."""
        in_work = {active, *self._to_compress}
        if self._compressing is not None:
            in_work.add(self._path)
        for path, modified in sorted(_event_logs(self._folder)):
            age = self._wall_clock() - modified
            if path in in_work:
                continue
            if self._settings.keep is not None and age > self._settings.keep:
                self._delete(path)
            elif self._settings.gzip and not is_compressed(path.name) and age > _YOUNG:
                self._to_compress.append(path)

    def _delete(self, path: Path) -> None:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if not try_to_lock(descriptor):
                    return
                size = os.fstat(descriptor).st_size
                os.unlink(path)
            finally:
                os.close(descriptor)
            self._report(EventLogDeleted(path=str(path), bytes=size))


def _event_logs(folder: Path) -> Iterator[tuple[Path, float]]:
    """The event logs in a folder, and when they were last changed."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if is_event_log(entry.name) and entry.is_file(follow_symlinks=False):
                    yield folder / entry.name, entry.stat(follow_symlinks=False).st_mtime


def compress(path: Path) -> Generator[None, None, None]:
    """Compress a file, a step at each `next`. At any moment the plain file or the compressed one is complete.

    Raises:
        OSError: It stays as it is.
    """
    with path.open("rb") as source:
        if not try_to_lock(source.fileno()):
            return
        target, temporary = compressed(path), unfinished(path)
        if not target.exists():
            try:
                yield from _write_compressed(source.fileno(), temporary, path.name)
                os.rename(temporary, target)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink()
                raise
            sync_folder(path.parent)
        # If it was there, a server before was killed right here.
        path.unlink()


def _write_compressed(source: int, target: Path, name: str) -> Generator[None, None, None]:
    status = os.fstat(source)
    with target.open("wb") as raw:
        with gzip.GzipFile(name, "wb", _LEVEL, raw, mtime=status.st_mtime) as out:
            while data := os.read(source, _STEP):
                out.write(data)
                yield
        raw.flush()
        os.fsync(raw.fileno())
    # Its age is that of its last event.
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
