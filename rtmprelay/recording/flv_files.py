"""The files of one recorded stream, one after the other. Everything here happens in the writer's thread."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import attrs
from typing_extensions import override

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.events import (
    RecordingDeleted,
    RecordingEvent,
    RecordingFailed,
    RecordingFinished,
    RecordingStarted,
)
from rtmprelay.files.backoff import Outage
from rtmprelay.files.disk import MAX_COPIES, OsFile, WritableFile, attempt, create_file, error_name
from rtmprelay.files.file_sequence import CurrentFile, DiskFailure, FileSequence
from rtmprelay.files.free_space import FreeSpace
from rtmprelay.flv.container import MAX_PAYLOAD_SIZE, tag_size
from rtmprelay.flv.names import RecordingName, split_key
from rtmprelay.flv.writer import FlvWriter
from rtmprelay.media import MediaFrame, MediaKind, milliseconds_between
from rtmprelay.recording.settings import RecordingSettings
from rtmprelay.recording.status import QUEUE_FULL, TOO_LARGE, WAITING_FOR_KEYFRAME, MessageAccount
from rtmprelay.streams.frames import METADATA_KEY, FrameRole, LiveFrame
from rtmprelay.streams.limits import StreamLimits

#: The reason that is reported when a file ends and the next segment follows.
_SEGMENT_FULL = "the segment is full"


def create_recording(folder: Path, key: str, wall_time: float, segment: int | None) -> OsFile:
    """Create a file for a stream, inside the folder and under a name that was free.

    Raises:
        OSError: The file cannot be created.
    """
    app, name = split_key(key)
    wanted = RecordingName(app, name, datetime.fromtimestamp(int(wall_time), UTC), segment)
    copies = (attrs.evolve(wanted, copy=copy) for copy in range(1, MAX_COPIES + 1))
    return create_file(folder, (copy.file_name for copy in copies))


#: Creates a file in a folder for a stream, a time since 1970, and the number of a segment.
CreateRecording = Callable[[Path, str, float, "int | None"], WritableFile]


@attrs.frozen
class RecordingContext:
    """What the recordings of a relay share."""

    settings: RecordingSettings
    monotonic: Callable[[], float]
    #: Seconds since 1970.
    wall_clock: Callable[[], float]
    #: Publishes an event from the writer's thread.
    report: Callable[[RecordingEvent], None]
    create_file: CreateRecording = create_recording
    #: Says when the disk is too full.
    space: FreeSpace | None = None


@attrs.define(eq=False)
class _Recording(CurrentFile):
    writer: FlvWriter
    segment: int | None
    begin_ms: int
    has_video: bool


class FlvFiles(FileSequence[_Recording]):
    """Writes frames to files. The next file begins when a segment is full, and after a failure at the next keyframe.

    Attributes:
        account: Messages that reached the writer's thread, and what happened to them.
        lost: Messages that were dropped before that. The reactor's thread counts them.
    """

    def __init__(self, key: str, context: RecordingContext) -> None:
        settings = context.settings
        outage = Outage(settings.retry_after, settings.longest_retry, settings.recovered_after)
        super().__init__(settings.folder, outage, context.monotonic, self._report_outage)
        self._key = key
        self._context = context
        self._settings = settings
        self._limits = StreamLimits()
        self.account = MessageAccount()
        self.lost = MessageAccount()
        self._startup: dict[Hashable, LiveFrame] = {}
        self._has_video = False
        self._waits_for_keyframe = False
        # Files with a frame in them.
        self._files = 0

    # -- read in other threads -------------------------------------------------------------------------------

    @property
    def segment(self) -> int | None:
        """The number of the current file, if the recording has segments."""
        current = self._current
        return None if current is None else current.segment

    @property
    def size(self) -> int:
        """Bytes in the current file."""
        current = self._current
        return 0 if current is None else current.writer.size

    @property
    def duration(self) -> float:
        """Seconds of media in the current file."""
        current = self._current
        return 0.0 if current is None else current.writer.facts.duration_ms / 1000

    def dropped_by_reason(self) -> dict[str, int]:
        """All messages of the recording that are in none of its files, by reason."""
        return dict(Counter(self.account.by_reason) + Counter(self.lost.by_reason))

    # -- frames ----------------------------------------------------------------------------------------------

    def wait_for_keyframe(self) -> None:
        """Write no video before the next keyframe: it cannot be decoded."""
        self._waits_for_keyframe = True

    def skip(self) -> None:
        """Frames are missing here, because they came faster than the disk took them."""
        self.finish("the disk was too slow")
        self._waits_for_keyframe = True
        self._note_failure(QUEUE_FULL, "frames came faster than the disk took them", retry_at_once=True)

    def write(self, frames: Iterable[LiveFrame]) -> None:
        """Write frames, in as few writes as possible."""
        run: list[LiveFrame] = []
        run_bytes = 0
        has_segments = self._settings.has_segments
        for frame in frames:
            role = frame.role
            if frame.size > MAX_PAYLOAD_SIZE:
                # RTMP has the same limit, but an embedding program that publishes frames may not know it.
                self.account.drop(TOO_LARGE)
                continue
            if role is FrameRole.STARTUP:
                self._remember(frame)
                if self._current is None:
                    # The next file begins with it.
                    self.account.written += 1
                    continue
            elif role <= FrameRole.INTER:
                self._has_video = True
                if self._current is not None:
                    self._current.has_video = True
            if has_segments and self._is_full(frame, run_bytes):
                self._append(run)
                run, run_bytes = [], 0
                self.finish(_SEGMENT_FULL)
            if self._current is None:
                refusal = self._reason_not_to_begin(frame) or self._begin(frame)
                if refusal is not None:
                    self.account.drop(refusal)
                    continue
            run.append(frame)
            if has_segments:
                run_bytes += tag_size(frame.frame.payload)
        self._append(run)

    def _remember(self, frame: LiveFrame) -> None:
        limits = self._limits
        if frame.startup_key in self._startup or (
            len(self._startup) < limits.startup_frames and frame.size <= limits.startup_bytes
        ):
            self._startup[frame.startup_key] = frame

    def _is_full(self, frame: LiveFrame, waiting: int) -> bool:
        """Whether the next segment begins with this frame.

        Args:
            waiting: Bytes that will be written to the current file before it.
        """
        current, settings = self._current, self._settings
        if current is None:
            return False
        if frame.role is not FrameRole.KEYFRAME and (current.has_video or frame.role is not FrameRole.AUDIO):
            return False
        if settings.segment_size is not None and current.writer.size + waiting >= settings.segment_size:
            return True
        elapsed = milliseconds_between(current.begin_ms, frame.frame.timestamp_ms)
        return settings.segment_duration is not None and elapsed >= settings.segment_duration * 1000

    def _append(self, run: list[LiveFrame]) -> None:
        current = self._current
        if current is None or not run:
            return
        writer = current.writer
        size_before = writer.size
        written = 0
        try:
            self._check_space()
            if current.file.is_deleted():
                raise FileNotFoundError(errno.ENOENT, "the file or its folder was deleted")
            try:
                writer.append([frame.frame for frame in run])
            finally:
                written = writer.whole
        except OSError as error:
            self.account.drop(error_name(error), len(run) - written)
            self._note_written(current, written, writer.size - size_before)
            self._failed(error)
        else:
            self._note_written(current, written, writer.size - size_before)
            self._worked()

    def _note_written(self, current: _Recording, count: int, size: int) -> None:
        self.account.written += count
        self.account.bytes += size
        is_first = not current.entries
        current.entries += count
        if is_first and count:
            self._files += 1
            self._context.report(
                RecordingStarted(stream=self._key, path=str(current.file.path), segment=current.segment)
            )

    # -- beginning and ending --------------------------------------------------------------------------------

    def _reason_not_to_begin(self, frame: LiveFrame) -> str | None:
        if self._must_wait():
            return self._outage.error
        if not self._waits_for_keyframe or frame.role is FrameRole.KEYFRAME:
            return None
        if frame.role is FrameRole.AUDIO and not self._expects_video():
            return None
        return WAITING_FOR_KEYFRAME

    def _expects_video(self) -> bool:
        return self._has_video or any(frame.frame.kind is MediaKind.VIDEO for frame in self._startup.values())

    def _begin(self, frame: LiveFrame) -> str | None:
        """Open a file that begins with this frame. Returns the error if that fails, or None."""
        context, settings = self._context, self._settings
        segment = self._files + 1 if settings.has_segments else None
        wall_time = context.wall_clock()
        try:
            self._check_space()
            file = self._opened(lambda: context.create_file(settings.folder, self._key, wall_time, segment))
        except OSError as error:
            self._failed(error)
            return error_name(error)
        begin_ms = frame.frame.timestamp_ms
        writer = FlvWriter(
            file,
            self._startup_frames(begin_ms),
            _own_metadata(self._key, wall_time, segment),
            settings.metadata_space,
        )
        has_video = frame.role <= FrameRole.INTER
        self._waits_for_keyframe = False
        self._current = _Recording(
            file=file, writer=writer, segment=segment, begin_ms=begin_ms, has_video=has_video
        )
        return None

    def _check_space(self) -> None:
        if self._context.space is not None:
            self._context.space.check()

    def _startup_frames(self, begin_ms: int) -> list[MediaFrame]:
        """Metadata and decoder configuration. In all files but the first they have the time of the frame after them."""
        return [
            frame.frame
            if not self._files or frame.startup_key == METADATA_KEY
            else attrs.evolve(frame.frame, timestamp_ms=begin_ms)
            for frame in self._startup.values()
        ]

    @override
    def _complete(self, current: _Recording) -> None:
        current.writer.finish()

    @override
    def _finished(self, current: _Recording, reason: str, problem: OSError | None) -> None:
        may_be_short = self._files > 1 or reason == _SEGMENT_FULL
        if problem is not None:
            reason = f"{reason}; its metadata is not complete ({error_name(problem)})"
        writer = current.writer
        self._context.report(
            RecordingFinished(
                stream=self._key,
                path=str(current.file.path),
                reason=reason,
                bytes=writer.size,
                duration=writer.facts.duration_ms / 1000,
                messages=current.entries,
                dropped_by_reason=self.dropped_by_reason(),
            )
        )
        if writer.facts.duration_ms < self._settings.shortest * 1000 and not may_be_short:
            self._delete_short(current)

    def _delete_short(self, current: _Recording) -> None:
        """Delete a recording with hardly any media: it was only an attempt to publish."""
        if attempt(current.file.delete) is None:
            reason = f"it has less than {self._settings.shortest:g} s of media"
            self._context.report(
                RecordingDeleted(path=str(current.file.path), bytes=current.writer.size, reason=reason)
            )

    # -- failures --------------------------------------------------------------------------------------------

    @override
    def _failed(self, error: OSError) -> None:
        self._waits_for_keyframe = True
        super()._failed(error)

    def _report_outage(self, failure: DiskFailure) -> None:
        self._context.report(
            RecordingFailed(
                stream=self._key, path=str(failure.path), error=failure.error, reason=failure.reason
            )
        )


def _own_metadata(key: str, wall_time: float, segment: int | None) -> dict[str, AmfValue]:
    """Where a file comes from: its name may be shortened, and files are renamed."""
    app, name = split_key(key)
    values: dict[str, AmfValue] = {
        "rtmprelay_app": app,
        "rtmprelay_name": name,
        "rtmprelay_started": wall_time,
    }
    return values if segment is None else {**values, "rtmprelay_segment": float(segment)}
