"""All recordings of a relay: which streams are recorded, and how that goes."""

from __future__ import annotations

import time
from collections.abc import Callable

from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from rtmprelay.event_bus import EventBus
from rtmprelay.events import RecordingEvent
from rtmprelay.interfaces import IStreamObserver
from rtmprelay.recording.disk import OpenFile, open_on_disk
from rtmprelay.recording.file_sequence import DiskSurroundings, FileSequence
from rtmprelay.recording.recorder import Recorder
from rtmprelay.recording.settings import RecordingSettings
from rtmprelay.recording.status import RecordingStatus, RecordingTotals
from rtmprelay.recording.writer import CallInReactor, RecordingWriter, WriterThread
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.merging import Pace
from rtmprelay.streams.registry import StreamRegistry


@implementer(IStreamObserver)
class RecordingManager:
    """Starts a recorder for each stream that is to be recorded, and ends it with the publisher.

    Args:
        call_in_reactor: Runs a function in the reactor's thread; `reactor.callFromThread`. None is for tests, which
            let `writer` work themselves: then there is no thread.
    """

    _log = Logger()

    def __init__(
        self,
        settings: RecordingSettings,
        registry: StreamRegistry,
        events: EventBus,
        clock: IReactorTime,
        call_in_reactor: CallInReactor | None,
        open_file: OpenFile = open_on_disk,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self._registry = registry
        self._events = events
        self._clock = clock
        self._has_thread = call_in_reactor is not None
        self._call_in_reactor = call_in_reactor or _call
        monotonic = time.monotonic if self._has_thread else clock.seconds
        self._surroundings = DiskSurroundings(settings, monotonic, wall_clock, self._report, open_file)
        self.writer = RecordingWriter(settings, self._call_in_reactor, self._report, wall_clock, monotonic)
        self._thread = WriterThread(self.writer, settings)
        self._chosen: set[str] = set()
        self._recorders: dict[str, Recorder] = {}
        self._ending: set[Recorder] = set()
        self._ended = RecordingTotals()
        self._running = False
        self._was_stopped = False
        registry.add_observer(self)

    def _report(self, event: RecordingEvent) -> None:
        """Called in the writer's thread."""
        self._call_in_reactor(self._events.publish, event)

    # -- steering --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Record from now on, also what is live already."""
        self._running = True
        settings = self.settings
        if self._was_stopped:
            # The thread before may still be at work.
            self._thread = WriterThread(self.writer, settings)
        if settings.record_all or settings.match:
            self._make_folder()
            if settings.has_retention and self._has_thread:
                self._thread.start()
        for stream in self._registry:
            if stream.publisher is not None:
                self.stream_started(stream)

    def _make_folder(self) -> None:
        try:
            self.settings.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._log.warn("The folder for recordings cannot be made: {error}", error=str(error))

    def stop(self) -> Deferred[None]:
        """End all recordings; fires when their files are complete, or the disk has had its time."""
        self._running = False
        self._was_stopped = True
        for key in list(self._recorders):
            self._end(key, "the server stops")
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        try:
            await self._when_all_finished().addTimeout(self.settings.stop_timeout, self._clock)
        except TimeoutError:
            self._log.warn(
                "{count} recordings were not completed within {timeout:g} s: the disk does not answer",
                count=len(self._ending),
                timeout=self.settings.stop_timeout,
            )
        if self._has_thread:
            self._thread.stop()

    def _when_all_finished(self) -> Deferred[None]:
        """One Deferred and not a list of them: a list that times out fails with FirstError, not with TimeoutError."""
        done: Deferred[None] = Deferred()

        def check(_: object) -> None:
            if not self._ending and not done.called:
                done.callback(None)

        for recorder in self._ending:
            recorder.finished.addCallback(check)
        check(None)
        return done

    def record(self, key: str) -> None:
        """Record this stream, from now on and each time it is published."""
        if not self._chosen and self._has_thread:
            self._make_folder()
        self._chosen.add(key)
        stream = self._registry.get(key)
        if stream is not None and stream.publisher is not None:
            self.stream_started(stream)

    def stop_recording(self, key: str) -> Deferred[None]:
        """Stop now; fires when the file is complete. What the settings want is recorded again at the next publish."""
        self._chosen.discard(key)
        recorder = self._end(key, "stopped on request")
        finished: Deferred[None] = Deferred()
        if recorder is None:
            finished.callback(None)
            return finished
        return self._when_finished(recorder)

    def statuses(self) -> list[RecordingStatus]:
        """How all recordings are now."""
        return [recorder.status() for recorder in self._recorders.values()]

    def totals(self) -> RecordingTotals:
        """What all recordings so far have taken and lost, with those that have ended."""
        totals = RecordingTotals()
        totals.include(self._ended)
        for recorder in (*self._recorders.values(), *self._ending):
            totals.add(recorder.status())
        return totals

    def _finished(self, recorder: Recorder) -> None:
        self._ending.discard(recorder)
        self._ended.add(recorder.status())

    # -- streams ---------------------------------------------------------------------------------------------

    def stream_started(self, stream: LiveStream) -> None:
        """Record a stream, if it is to be."""
        key = stream.key
        wanted = key in self._chosen or self.settings.wants(key)
        if not self._running or not wanted or key in self._recorders:
            return
        files = FileSequence(key, self._surroundings)
        recorder = self._recorders[key] = Recorder(stream, files, self.settings, self._thread.added)
        recorder.finished.addCallback(lambda _: self._finished(recorder))
        self.writer.add(recorder)
        if self._has_thread:
            self._thread.start()
            # It may be waiting for the first recording without a limit.
            self._thread.hurry()
        stream.subscribe(recorder, Pace.AT_ONCE)

    def stream_stopped(self, stream: LiveStream, clean: bool) -> None:
        """The publisher has gone."""
        self._end(stream.key, "the publisher ended" if clean else "the publisher was lost")

    def _end(self, key: str, reason: str) -> Recorder | None:
        recorder = self._recorders.pop(key, None)
        if recorder is not None:
            self._ending.add(recorder)
            self._registry.leave(recorder.stream, recorder)
            recorder.end(reason)
            self._thread.hurry()
        return recorder

    @staticmethod
    def _when_finished(recorder: Recorder) -> Deferred[None]:
        """A Deferred of the caller's own: one that gives up must not take it from the others."""
        result: Deferred[None] = Deferred()

        def tell(value: None) -> None:
            if not result.called:
                result.callback(None)

        recorder.finished.addCallback(tell)
        return result


def _call(function: Callable[..., object], *arguments: object) -> None:
    function(*arguments)
