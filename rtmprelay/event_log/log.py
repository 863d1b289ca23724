"""The event log as an event sink: every event becomes a line, and the reactor never waits for the disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from zope.interface import implementer

from rtmprelay.event_bus import EventBus
from rtmprelay.event_log.names import create_event_log
from rtmprelay.event_log.settings import EventLogSettings
from rtmprelay.event_log.upkeep import Upkeep
from rtmprelay.events import AnyEvent, Event, EventLogFailed, EventsLost, ServerAlive
from rtmprelay.events.lines import encode_line
from rtmprelay.files.disk import WritableFile
from rtmprelay.files.file_sequence import DiskFailure
from rtmprelay.files.line_files import Line, LineFiles
from rtmprelay.files.line_writer import LineWriter
from rtmprelay.files.writer_thread import CallInReactor, call_directly
from rtmprelay.interfaces import IEventSink


@implementer(IEventSink)
class EventLog:
    """Writes the events of a relay, from `start` to `stop`, to files in a folder.

    Args:
        call_in_reactor: `reactor.callFromThread`. None for no thread: tests call `writer.work` themselves.

    Attributes:
        writer: Writes the lines; None while the log is stopped.
    """

    _log = Logger()

    def __init__(
        self,
        folder: Path,
        settings: EventLogSettings,
        events: EventBus,
        clock: IReactorTime,
        call_in_reactor: CallInReactor | None,
        create_file: Callable[[Path, float], WritableFile] = create_event_log,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._events = events
        self._clock = clock
        self._call_in_reactor = call_in_reactor
        self._create_file = create_file
        self._wall_clock = wall_clock
        self._instance = ""
        self._number = 0
        self._number_at_last_beat = 0
        self._beat = LoopingCall(self._report_alive)
        self._beat.clock = clock
        self.writer: LineWriter | None = None
        events.add_sink(self)

    def start(self, instance: str) -> None:
        """Write events from now on.

        Args:
            instance: The name of this run of the server. Every line contains it.
        """
        settings = self._settings
        self._instance = instance
        self._number = self._number_at_last_beat = 0
        self._make_folder()
        monotonic = self._clock.seconds if self._call_in_reactor is None else time.monotonic
        upkeep = Upkeep(self._folder, settings, self._wall_clock, monotonic, self._publish_from_thread)
        files = LineFiles(
            self._folder,
            settings,
            lambda time: self._create_file(self._folder, time),
            monotonic,
            self._report_failure,
            upkeep.finished,
        )
        # A new one for each start: the thread of the last one may still hang on its disk.
        self.writer = LineWriter(
            self._folder,
            files,
            settings,
            self._clock,
            self._wall_clock,
            self._call_in_reactor,
            self._report_lost,
            upkeep,
        )
        self.writer.start()
        if settings.alive_interval > 0:
            self._beat.start(settings.alive_interval, now=False)

    def stop(self) -> Deferred[None]:
        """Complete the file; fires when that is done, or after `stop_timeout`."""
        writer, self.writer = self.writer, None
        if self._beat.running:
            self._beat.stop()
        if writer is None:
            return succeed(None)
        return writer.stop(lambda lost: self._line(self._wall_clock(), EventsLost(count=lost)))

    def event_happened(self, time: float, event: Event) -> None:
        if self.writer is not None:
            self.writer.put(self._line(time, event))

    def _line(self, time: float, event: Event) -> Line:
        self._number += 1
        return Line(time, encode_line(time, event, self._instance, self._number))

    def _report_alive(self) -> None:
        if self._number == self._number_at_last_beat:
            self.event_happened(self._wall_clock(), ServerAlive())
        self._number_at_last_beat = self._number

    def _report_lost(self, count: int) -> None:
        # The bus brings it back to this log, where there is room again.
        self._events.publish(EventsLost(count=count))

    def _make_folder(self) -> None:
        if self._call_in_reactor is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._log.warn("The folder for the event log cannot be created: {error}", error=str(error))

    # -- in the writer's thread ------------------------------------------------------------------------------

    def _report_failure(self, failure: DiskFailure) -> None:
        self._publish_from_thread(
            EventLogFailed(path=str(failure.path), error=failure.error, reason=failure.reason)
        )

    def _publish_from_thread(self, event: AnyEvent) -> None:
        (self._call_in_reactor or call_directly)(self._events.publish, event)
