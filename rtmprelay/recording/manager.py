"""All recordings of a relay: starts and ends them, and knows their state."""

from __future__ import annotations

import time
from collections.abc import Callable

from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from rtmprelay.event_bus import EventBus
from rtmprelay.events import RecordingEvent
from rtmprelay.files.free_space import FreeSpace
from rtmprelay.files.writer_thread import CallInReactor, WriterThread, call_directly
from rtmprelay.outputs.base import OnePerStream
from rtmprelay.recording.flv_files import CreateRecording, FlvFiles, RecordingContext, create_recording
from rtmprelay.recording.recorder import Recorder
from rtmprelay.recording.settings import RecordingSettings
from rtmprelay.recording.status import RecordingStatus, RecordingTotals
from rtmprelay.recording.writer import RecordingWriter
from rtmprelay.streams.live_stream import LiveStream, StreamOrigin
from rtmprelay.streams.registry import StreamRegistry


class RecordingManager:
    """Starts a recorder for each stream that is recorded, and ends it with the publisher.

    Args:
        call_in_reactor: `reactor.callFromThread`. None for no thread: tests call `writer.work` themselves.
    """

    _log = Logger()

    def __init__(
        self,
        settings: RecordingSettings,
        registry: StreamRegistry,
        events: EventBus,
        clock: IReactorTime,
        call_in_reactor: CallInReactor | None,
        create_file: CreateRecording = create_recording,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self._registry = registry
        self._events = events
        self._clock = clock
        self._has_thread = call_in_reactor is not None
        self._call_in_reactor = call_in_reactor or call_directly
        monotonic = time.monotonic if self._has_thread else clock.seconds
        space = FreeSpace(settings.folder, settings.keep_free, monotonic)
        self._context = RecordingContext(settings, monotonic, wall_clock, self._report, create_file, space)
        self.writer = RecordingWriter(settings, self._call_in_reactor, self._report, wall_clock, monotonic)
        self._thread = self._new_thread()
        self._chosen: set[str] = set()
        self._recorders = OnePerStream(registry, self._new_recorder, clock)
        # Those whose files are not complete: recorders that have ended stay here until the writer is done.
        self._unfinished: set[Recorder] = set()
        self._finished_totals = RecordingTotals()
        self._was_stopped = False

    def _report(self, event: RecordingEvent) -> None:
        """Called in the writer's thread."""
        self._call_in_reactor(self._events.publish, event)

    def _new_thread(self) -> WriterThread:
        return WriterThread(
            "rtmprelay-recording",
            self.writer,
            self.settings.flush_interval,
            self.settings.flush_bytes,
            self._thread_ended,
        )

    def _thread_ended(self, failure: Failure | None) -> None:
        """Called in the writer's thread."""
        if failure is not None:
            self._call_in_reactor(self._log.failure, "A bug: nothing is recorded any more", failure)

    # -- start and stop --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Record from now on, including streams that are live already."""
        settings = self.settings
        if self._was_stopped:
            # The last thread may still be at work.
            self._thread = self._new_thread()
        if self._has_thread and (settings.record_all or settings.match):
            self._make_folder()
            if settings.has_retention:
                self._thread.start()
        self._recorders.start()

    def _make_folder(self) -> None:
        try:
            self.settings.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._log.warn("The folder for recordings cannot be created: {error}", error=str(error))

    def stop(self) -> Deferred[None]:
        """End all recordings; fires when their files are complete, or after `stop_timeout`."""
        self._was_stopped = True
        self._recorders.stop("the server stops")
        return Deferred.fromCoroutine(self._stop(self._thread))

    async def _stop(self, thread: WriterThread) -> None:
        try:
            await self._when_all_finished().addTimeout(self.settings.stop_timeout, self._clock)
        except TimeoutError:
            self._log.warn(
                "{count} recordings were not completed within {timeout:g} s: the disk does not answer",
                count=len(self._unfinished),
                timeout=self.settings.stop_timeout,
            )
        if self._has_thread:
            thread.stop()

    def _when_all_finished(self) -> Deferred[None]:
        """One Deferred and not a list of them: a list that times out fails with FirstError, not with TimeoutError."""
        done: Deferred[None] = Deferred()

        def check(_: object) -> None:
            if not self._unfinished and not done.called:
                done.callback(None)

        for recorder in self._unfinished:
            recorder.finished.addCallback(check)
        check(None)
        return done

    def record(self, key: str) -> None:
        """Record this stream from now on, and each time it is published."""
        if not self._chosen and self._has_thread:
            self._make_folder()
        self._chosen.add(key)
        stream = self._registry.get(key)
        if stream is not None and stream.publisher is not None:
            self._recorders.stream_started(stream)

    def stop_recording(self, key: str) -> Deferred[None]:
        """Stop now; fires when the file is complete.

        A stream that the settings name is recorded again at its next publish.
        """
        self._chosen.discard(key)
        recorder = self._recorders.end(key, "stopped on request")
        # Not the recorder's own Deferred: a caller may cancel this one.
        result: Deferred[None] = Deferred()

        def finished(_: None) -> None:
            if not result.called:
                result.callback(None)

        if recorder is None:
            finished(None)
        else:
            recorder.finished.addCallback(finished)
        return result

    def statuses(self) -> list[RecordingStatus]:
        """The state of each recording that has not ended."""
        return [recorder.status() for recorder in self._recorders]

    def __len__(self) -> int:
        return len(self._unfinished)

    def bytes_queued(self) -> int:
        """Bytes that wait for the disk, of all recordings together."""
        return sum(recorder.bytes_queued for recorder in self._unfinished)

    def totals(self) -> RecordingTotals:
        """What all recordings have written and dropped, ended ones included."""
        totals = RecordingTotals()
        totals.add(self._finished_totals)
        for recorder in self._unfinished:
            totals.add(recorder.status())
        return totals

    def _new_recorder(self, stream: LiveStream) -> Recorder | None:
        is_published_here = stream.origin is StreamOrigin.PUBLISHED
        if stream.key not in self._chosen and not self.settings.wants(stream.key, is_published_here):
            return None
        thread = self._thread
        files = FlvFiles(stream.key, self._context)
        recorder = Recorder(stream, files, self.settings, thread.added, thread.hurry)
        recorder.finished.addCallback(lambda _: self._finished(recorder))
        self._unfinished.add(recorder)
        self.writer.add(recorder)
        if self._has_thread:
            thread.start()
        return recorder

    def _finished(self, recorder: Recorder) -> None:
        self._unfinished.discard(recorder)
        self._finished_totals.add(recorder.status())
