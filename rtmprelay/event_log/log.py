"""The event log as a sink: every event becomes a line, and nobody waits for the disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from twisted.internet.defer import Deferred, TimeoutError, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from rtmprelay.event_bus import EventBus
from rtmprelay.event_log.disk import OpenFile, open_on_disk
from rtmprelay.event_log.file_sequence import FileSequence, Line
from rtmprelay.event_log.lines import encode_line
from rtmprelay.event_log.settings import EventLogSettings
from rtmprelay.event_log.upkeep import Upkeep
from rtmprelay.event_log.writer import EventLogWriter, LineQueue, WriterThread
from rtmprelay.events import Event, EventLogEvent, EventsLost, ServerAlive
from rtmprelay.interfaces import IEventSink

#: Runs a function in the reactor's thread.
CallInReactor = Callable[..., object]


@implementer(IEventSink)
class EventLog:
    """Writes the events of a relay, from `start` to `stop`, to files in a folder.

    Args:
        call_in_reactor: Runs a function in the reactor's thread; `reactor.callFromThread`. None is for tests, which
            let `writer` work themselves: then there is no thread.

    Attributes:
        writer: What touches the disk, while the log is on.
        lost: Events that found no room and have not been told of yet.
    """

    _log = Logger()

    def __init__(
        self,
        folder: Path,
        settings: EventLogSettings,
        events: EventBus,
        clock: IReactorTime,
        call_in_reactor: CallInReactor | None,
        open_file: OpenFile = open_on_disk,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._events = events
        self._clock = clock
        self._has_thread = call_in_reactor is not None
        self._call_in_reactor = call_in_reactor or _call
        self._open_file = open_file
        self._wall_clock = wall_clock
        self._instance: str | None = None
        self._number = 0
        self._queue = LineQueue(settings.queue_bytes)
        self._thread: WriterThread | None = None
        self._finished: Deferred[None] = Deferred()
        self.writer: EventLogWriter | None = None
        self.lost = 0
        self._last_beat = 0
        self._beating = LoopingCall(self._beat)
        self._beating.clock = clock
        events.add_sink(self)

    def start(self, instance: str) -> None:
        """Write events from now on.

        Args:
            instance: The name of this run of the server; each line has it.
        """
        self._instance = instance
        self._number = self.lost = 0
        self._make_folder()
        settings = self._settings
        monotonic = time.monotonic if self._has_thread else self._clock.seconds
        # All anew: a thread before may still hang on its disk.
        self._queue = LineQueue(settings.queue_bytes)
        upkeep = Upkeep(self._folder, settings, self._wall_clock, monotonic, self._report)
        files = FileSequence(
            self._folder, settings, self._open_file, monotonic, self._report, upkeep.finished
        )
        self.writer = EventLogWriter(self._queue, files, upkeep, self._wall_clock)
        if self._has_thread:
            self._start_thread(self.writer)
        self._last_beat = 0
        if settings.alive_interval > 0:
            self._beating.start(settings.alive_interval, now=False)

    def _start_thread(self, writer: EventLogWriter) -> None:
        finished = self._finished = Deferred()

        def ended(unwritten: int, failure: Failure | None) -> None:
            self._call_in_reactor(self._ended, finished, unwritten, failure)

        self._thread = WriterThread(writer, self._queue, self._settings, self._look_for_losses, ended)
        self._thread.start()

    def _make_folder(self) -> None:
        if self._has_thread:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                self._log.warn("The folder for the event log cannot be made: {error}", error=str(error))

    def _report(self, event: EventLogEvent) -> None:
        """Called in the writer's thread."""
        self._call_in_reactor(self._events.publish, event)

    def event_happened(self, time: float, event: Event) -> None:
        """Put it in the queue; if that is full, it is lost and counted."""
        if self._instance is None:
            return
        self._number += 1
        line = Line(time, encode_line(time, event, self._instance, self._number))
        if self._queue.put(line):
            if self._thread is not None:
                self._thread.added()
            return
        self.lost += 1
        if self.lost == 1:
            self._log.warn(
                "The event log's disk cannot keep up: events are lost from now on, and counted",
                folder=str(self._folder),
            )

    def _beat(self) -> None:
        if self._number == self._last_beat:
            self.event_happened(self._wall_clock(), ServerAlive())
        self._last_beat = self._number

    # -- losses ----------------------------------------------------------------------------------------------

    def _look_for_losses(self) -> None:
        """Called in the writer's thread, behind its work."""
        if self.lost and self._queue.has_room:
            self._call_in_reactor(self.tell_losses)

    def tell_losses(self) -> None:
        """Say how much was lost, once there is room for it."""
        lost, self.lost = self.lost, 0
        if lost:
            self._events.publish(EventsLost(count=lost))

    # -- the end ---------------------------------------------------------------------------------------------

    def stop(self) -> Deferred[None]:
        """Complete the file; fires when that is done, or the disk has had its time."""
        if self.lost and self._instance is not None:
            # For this one there is room.
            self._number += 1
            now, event = self._wall_clock(), EventsLost(count=self.lost)
            line = Line(now, encode_line(now, event, self._instance, self._number))
            self._queue.put(line, whatever_it_costs=True)
        self._instance = None
        if self._beating.running:
            self._beating.stop()
        thread, self._thread = self._thread, None
        writer, self.writer = self.writer, None
        if thread is None:
            if writer is not None:
                self._tell_unwritten(writer.finish())
            return succeed(None)
        thread.stop()
        return self._finished.addTimeout(self._settings.stop_timeout, self._clock).addErrback(
            self._tell_timeout
        )

    def _ended(self, finished: Deferred[None], unwritten: int, failure: Failure | None) -> None:
        if failure is not None:
            self._log.failure("The event log ends because of an error in the program", failure)
        self._tell_unwritten(unwritten)
        if not finished.called:
            finished.callback(None)

    def _tell_unwritten(self, unwritten: int) -> None:
        if unwritten:
            self._log.warn(
                "The last {count} events are not in the event log: its disk did not take them",
                count=unwritten,
            )

    def _tell_timeout(self, failure: Failure) -> None:
        failure.trap(TimeoutError)
        self._log.warn(
            "The event log was not completed within {timeout:g} s: its disk does not answer",
            timeout=self._settings.stop_timeout,
        )


def _call(function: Callable[..., object], *arguments: object) -> None:
    function(*arguments)
