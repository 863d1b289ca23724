"""The thread that writes the event log, and what it does there."""

from __future__ import annotations

import threading
from collections.abc import Callable

from twisted.python.failure import Failure

from rtmprelay.event_log.file_sequence import FileSequence, Line
from rtmprelay.event_log.settings import EventLogSettings
from rtmprelay.event_log.upkeep import Upkeep


class LineQueue:
    """Lines on their way to the writer, bounded in bytes. What the writer has in its hands counts until it is written."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._lines: list[Line] = []
        #: Bytes that wait, and how many of them nobody has taken yet.
        self.size = self.untaken = 0

    def put(self, line: Line, whatever_it_costs: bool = False) -> bool:
        """Add a line; False if there is no room for it."""
        with self._lock:
            if self.size + len(line.data) > self._most_bytes and not whatever_it_costs:
                return False
            self._lines.append(line)
            self.size += len(line.data)
            self.untaken += len(line.data)
        return True

    def take(self) -> list[Line]:
        """All lines."""
        with self._lock:
            lines, self._lines = self._lines, []
            self.untaken = 0
        return lines

    def written(self, size: int) -> None:
        """So many bytes are on the disk."""
        with self._lock:
            self.size -= size

    @property
    def has_room(self) -> bool:
        """Whether half of it is free."""
        return 2 * self.size <= self._most_bytes


class EventLogWriter:
    """Does all that touches the disk, in `work`: whoever calls it chooses the thread."""

    def __init__(
        self,
        queue: LineQueue,
        files: FileSequence,
        upkeep: Upkeep,
        wall_clock: Callable[[], float],
    ) -> None:
        self._queue = queue
        self._files = files
        self._upkeep = upkeep
        self._wall_clock = wall_clock

    def work(self) -> bool:
        """Write everything that waits, and look after the folder; whether to come back at once."""
        # Before the lines of the new day, or a file of the day before would stay open until then.
        self._write()
        self._files.day_is_over(self._wall_clock())
        return self._upkeep.step(self._files.path)

    def finish(self) -> int:
        """Write what there is and complete the file; how many lines the disk did not take."""
        self._write(last_chance=True)
        self._files.finish()
        self._upkeep.close()
        unwritten = len(self._files.waiting)
        self._queue.written(sum(len(line.data) for line in self._files.waiting))
        self._files.waiting.clear()
        return unwritten

    def _write(self, last_chance: bool = False) -> None:
        self._queue.written(self._files.write(self._queue.take(), last_chance))


class WriterThread:
    """Lets a writer work in a thread of its own: soon after an event came, at once when much waits, seldom when idle."""

    def __init__(
        self,
        writer: EventLogWriter,
        queue: LineQueue,
        settings: EventLogSettings,
        worked: Callable[[], object],
        ended: Callable[[int, Failure | None], object],
    ) -> None:
        """Args:
        worked: Called in the thread each time behind the work.
        ended: Called in the thread at its end, with the number of lines that could not be written, and the failure
            if it was one that ended it.
        """
        self._writer = writer
        self._queue = queue
        self._settings = settings
        self._worked = worked
        self._ended = ended
        self._condition = threading.Condition()
        self._urgent = False
        self._stopping = False
        self._idle = False
        # A disk that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="rtmprelay-event-log", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """Work once more, and end. Does not wait."""
        with self._condition:
            self._stopping = True
            self._condition.notify()

    def added(self) -> None:
        """There is something to write."""
        much = self._queue.untaken >= self._settings.flush_bytes
        if self._idle or (much and not self._urgent):
            with self._condition:
                self._urgent = much
                self._condition.notify()

    def _run(self) -> None:
        try:
            self._work()
            unwritten, failure = self._writer.finish(), None
        except Exception:
            # A bug of ours. What comes now fills the queue, is counted as lost, and harms nobody.
            unwritten, failure = 0, Failure()
        self._ended(unwritten, failure)

    def _work(self) -> None:
        more_to_do = False
        while not self._stopping:
            if not more_to_do:
                self._wait()
            more_to_do = self._writer.work()
            self._worked()

    def _wait(self) -> None:
        """Until there is something to write, and then a little longer for more of it."""
        settings = self._settings
        with self._condition:
            # Said before the queue is looked at: whoever adds a line looks in the other order.
            self._idle = True
            if not self._queue.size and not self._stopping:
                # Now and then, for what happens by itself: a new day, old files.
                self._condition.wait(settings.upkeep_interval)
            self._idle = False
            if self._queue.size and not self._urgent and not self._stopping:
                self._condition.wait(settings.flush_interval)
            self._urgent = False
