"""`jsonl`: every event as a line of JSON, appended to one file that other programs may rotate."""

from __future__ import annotations

import os
import stat
import time as system_time
from contextlib import suppress
from pathlib import Path
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from typing_extensions import override
from zope.interface import implementer

from rtmprelay.clock import steady
from rtmprelay.errors import ConfigError
from rtmprelay.events import Event, EventLogFailed, EventsLost, ServerStarted
from rtmprelay.events.lines import encode_line, new_instance
from rtmprelay.files.disk import OsFile
from rtmprelay.files.file_sequence import DiskFailure
from rtmprelay.files.line_files import Line, LineFiles, LineSettings
from rtmprelay.files.line_writer import LineWriter
from rtmprelay.files.writer_thread import CallInReactor, call_directly
from rtmprelay.hooks.event_queue import chosen_events
from rtmprelay.interfaces import IEventSink, IReloadable
from rtmprelay.plugin_factories import split_options

#: The file may have any size: other programs rotate it. A stopping relay has five seconds for everything.
_SETTINGS = LineSettings(max_file_size=2**62, upkeep_interval=86_400.0, stop_timeout=2.0)


class AppendFile(OsFile):
    """A file under a fixed name, which may be moved away, emptied or replaced while it is open."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor, path)
        self._appended = 0
        #: Set to have the name opened again before the next line.
        self.reopen = False

    @override
    def append(self, data: bytes | memoryview) -> int:
        taken = super().append(data)
        self._appended += taken
        return taken

    @override
    def truncate(self, size: int) -> None:
        """Remove what was appended after the first `size` bytes. Others may have emptied the file meanwhile."""
        torn = self._appended - size
        os.ftruncate(self.descriptor, max(0, os.fstat(self.descriptor).st_size - torn))
        self._appended = size

    @override
    def sync(self) -> None:
        # A pipe cannot be synced.
        with suppress(OSError):
            super().sync()

    @override
    def is_deleted(self) -> bool:
        """Whether the name belongs to another file now, or to none: the next lines go there."""
        if self.reopen:
            return True
        try:
            found = os.stat(self.path)
        except OSError:
            return True
        return not os.path.samestat(found, os.fstat(self.descriptor))

    @override
    def delete(self) -> None:
        """Nothing to do: the file was there before, and stays."""


def open_for_appending(path: Path) -> AppendFile:
    """Open a file, or create it. A line that a crash tore is ended, so that the next line is whole.

    Raises:
        OSError: It cannot be opened.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        status = os.fstat(descriptor)
        is_file = stat.S_ISREG(status.st_mode) and status.st_size > 0
        if is_file and os.pread(descriptor, 1, status.st_size - 1) != b"\n":
            os.write(descriptor, b"\n")
    except OSError:
        os.close(descriptor)
        raise
    return AppendFile(descriptor, path)


@implementer(IEventSink, IReloadable)
class JsonlHook(Service):
    """Appends events to a file. A disk that is slow, full or gone slows nothing down.

    Args:
        call_in_reactor: `reactor.callFromThread`. None for no thread: tests call `writer.work` themselves.

    Attributes:
        writer: Writes the lines; None before the first event and after the stop.
    """

    _log = Logger()

    def __init__(
        self,
        path: Path,
        events: frozenset[str],
        clock: IReactorTime,
        call_in_reactor: CallInReactor | None,
    ) -> None:
        self._path = path
        self._events = events
        self._clock = clock
        self._call_in_reactor = call_in_reactor
        self._current: AppendFile | None = None
        self._instance = ""
        self._number = 0
        self.writer: LineWriter | None = None

    def event_happened(self, time: float, event: Event) -> None:
        if self.writer is None and self.running:
            # The instance is the same as in the event log.
            self._start(event.instance if isinstance(event, ServerStarted) else new_instance())
        if event.name in self._events:
            self._write(time, event)

    def reload(self) -> None:
        """Open the file again before the next line."""
        if self._current is not None:
            self._current.reopen = True

    @override
    def stopService(self) -> Deferred[None]:
        super().stopService()
        writer, self.writer = self.writer, None
        if writer is None:
            return succeed(None)
        return writer.stop(lambda lost: self._line(system_time.time(), EventsLost(count=lost)))

    def _start(self, instance: str) -> None:
        self._instance, self._number = instance, 0
        monotonic = self._clock.seconds if self._call_in_reactor is None else system_time.monotonic
        folder = self._path.parent
        files = LineFiles(folder, _SETTINGS, self._open, monotonic, self._report_failure_from_thread)
        self.writer = LineWriter(
            self._path,
            files,
            _SETTINGS,
            self._clock,
            system_time.time,
            self._call_in_reactor,
            self._report_lost,
        )
        self.writer.start()

    def _write(self, time: float, event: Event) -> None:
        if self.writer is not None:
            self.writer.put(self._line(time, event))

    def _line(self, time: float, event: Event) -> Line:
        self._number += 1
        return Line(time, encode_line(time, event, self._instance, self._number))

    # What goes wrong here is logged and written to this file, and is no event for other hooks.

    def _report_failure(self, failure: DiskFailure) -> None:
        self._log.warn(
            "Events cannot be written to {path}: {reason}", path=str(self._path), reason=failure.reason
        )
        event = EventLogFailed(path=str(failure.path), error=failure.error, reason=failure.reason)
        self._write(system_time.time(), event)

    def _report_lost(self, count: int) -> None:
        self._log.warn(
            "{count} events are not in {path}: its disk could not keep up", path=str(self._path), count=count
        )
        self._write(system_time.time(), EventsLost(count=count))

    # -- in the writer's thread ------------------------------------------------------------------------------

    def _open(self, time: float) -> AppendFile:
        self._current = open_for_appending(self._path)
        return self._current

    def _report_failure_from_thread(self, failure: DiskFailure) -> None:
        (self._call_in_reactor or call_directly)(self._report_failure, failure)


def make_jsonl(argument: str, reactor: Any) -> JsonlHook:
    """The sink for `PATH[#events=publish_*,...]`."""
    name, options = split_options(argument, {"events"})
    if not name:
        raise ConfigError("the name of the file is missing: jsonl:PATH is expected")
    path = Path(name).absolute()
    if path.is_dir():
        raise ConfigError(f"{str(path)!r} is a folder: the name of a file is expected")
    if not path.parent.is_dir():
        raise ConfigError(f"the folder {str(path.parent)!r} does not exist")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError(f"{str(path)!r} cannot be written")
    return JsonlHook(path, chosen_events(options.texts("events")), steady(reactor), reactor.callFromThread)
