"""The files of one recorded stream, one after the other. Everything here happens in the writer's thread."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path

import attrs

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.events import RecordingEvent, RecordingFailed, RecordingFinished, RecordingStarted
from rtmprelay.flv.container import MAX_PAYLOAD_SIZE, tag_size
from rtmprelay.flv.names import split_key
from rtmprelay.flv.writer import FlvWriter
from rtmprelay.media import MediaFrame, MediaKind, milliseconds_between
from rtmprelay.recording.disk import OpenFile, RecordingFile, attempt, name_of, open_on_disk
from rtmprelay.recording.outage import Outages
from rtmprelay.recording.settings import RecordingSettings
from rtmprelay.recording.status import QUEUE_FULL, TOO_LARGE, WAITING_FOR_KEYFRAME, MessageAccount
from rtmprelay.streams.frames import METADATA_KEY, FrameRole, LiveFrame
from rtmprelay.streams.limits import StreamLimits


@attrs.frozen
class DiskSurroundings:
    """What the writing of files needs of the world."""

    settings: RecordingSettings
    #: Seconds that only go forward.
    monotonic: Callable[[], float]
    #: Seconds since 1970.
    wall_clock: Callable[[], float]
    #: Tells an event, from the writer's thread.
    report: Callable[[RecordingEvent], None]
    open_file: OpenFile = open_on_disk


@attrs.define(eq=False)
class _Current:
    """The file that is being written."""

    path: Path
    raw: RecordingFile
    writer: FlvWriter
    segment: int | None
    opened_at: float
    begin_ms: int
    has_pictures: bool = False
    messages: int = 0


class FileSequence:
    """Writes frames to files: the next one at a segment's end, and after a failure at the next keyframe.

    Attributes:
        account: What became of the messages that came this far.
        lost: Messages that did not: the other thread counts them.
        last_error: Why nothing is written now; None when it is.
    """

    def __init__(self, key: str, surroundings: DiskSurroundings) -> None:
        self._key = key
        self._surroundings = surroundings
        self._settings = surroundings.settings
        self._limits = StreamLimits()
        self.account = MessageAccount()
        self.lost = MessageAccount()
        self.last_error: str | None = None
        self._current: _Current | None = None
        self._startup: dict[Hashable, LiveFrame] = {}
        self._has_pictures = False
        self._waits_for_keyframe = False
        self._outages = Outages(surroundings.settings)
        self._files = 0
        # Where the last failure was, for those that ask while there is no file.
        self._path = surroundings.settings.folder

    # -- what others want to know ----------------------------------------------------------------------------

    @property
    def path(self) -> Path | None:
        """The file that is being written."""
        current = self._current
        return None if current is None else current.path

    @property
    def segment(self) -> int | None:
        """Its number."""
        current = self._current
        return None if current is None else current.segment

    @property
    def size(self) -> int:
        """Its bytes."""
        current = self._current
        return 0 if current is None else current.writer.size

    @property
    def duration(self) -> float:
        """Its seconds."""
        current = self._current
        return 0.0 if current is None else current.writer.facts.duration_ms / 1000

    def dropped_by_reason(self) -> dict[str, int]:
        """All messages of the recording that are in none of its files, by the reason."""
        return dict(Counter(self.account.by_reason) + Counter(self.lost.by_reason))

    # -- frames ----------------------------------------------------------------------------------------------

    def wait_for_keyframe(self) -> None:
        """What comes next cannot be decoded before a keyframe."""
        self._waits_for_keyframe = True

    def skip(self) -> None:
        """Frames are missing here because they came faster than the disk took them."""
        self._end("the disk was too slow")
        self._waits_for_keyframe = True
        self._note_failure(QUEUE_FULL, "frames came faster than the disk took them", at_once=True)

    def write(self, frames: Iterable[LiveFrame]) -> None:
        """Write frames, as few writes as possible."""
        run: list[LiveFrame] = []
        run_bytes = 0
        has_segments = self._settings.has_segments
        for frame in frames:
            role = frame.role
            if frame.size > MAX_PAYLOAD_SIZE:
                # RTMP has the same bound; a program that publishes by itself may not know it.
                self.account.drop(TOO_LARGE)
                continue
            if role is FrameRole.STARTUP:
                self._remember(frame)
                if self._current is None:
                    # It stands at the start of the next file.
                    self.account.written += 1
                    continue
            elif role <= FrameRole.INTER:
                self._has_pictures = True
                if self._current is not None:
                    self._current.has_pictures = True
            if has_segments and self._is_full(frame, run_bytes):
                self._append(run)
                run, run_bytes = [], 0
                self._end("the segment is full")
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
        """Whether the next segment begins with this frame."""
        current, settings = self._current, self._settings
        if current is None:
            return False
        if frame.role is not FrameRole.KEYFRAME and (
            current.has_pictures or frame.role is not FrameRole.AUDIO
        ):
            return False
        if settings.segment_size is not None and current.writer.size + waiting >= settings.segment_size:
            return True
        elapsed = milliseconds_between(current.begin_ms, frame.frame.timestamp_ms)
        return settings.segment_duration is not None and elapsed >= settings.segment_duration * 1000

    def _append(self, run: list[LiveFrame]) -> None:
        current = self._current
        if current is None or not run:
            return
        size_before = current.writer.size
        try:
            if current.raw.is_deleted():
                raise FileNotFoundError(errno.ENOENT, "the file or its folder was deleted")
            current.writer.append([frame.frame for frame in run])
        except OSError as error:
            written = current.writer.whole
            self.account.written += written
            self.account.bytes += current.writer.size - size_before
            current.messages += written
            self.account.drop(name_of(error), len(run) - written)
            self._fail(error)
            return
        self.account.written += len(run)
        self.account.bytes += current.writer.size - size_before
        current.messages += len(run)
        if not size_before:
            self._report_start(current)
        self._recover(current)

    # -- beginning and ending --------------------------------------------------------------------------------

    def _reason_not_to_begin(self, frame: LiveFrame) -> str | None:
        if self._outages.must_wait(self._surroundings.monotonic()):
            return self._outages.error
        if self._waits_for_keyframe:
            if frame.role is FrameRole.KEYFRAME or (
                frame.role is FrameRole.AUDIO and not self._expects_pictures()
            ):
                return None
            return WAITING_FOR_KEYFRAME
        return None

    def _expects_pictures(self) -> bool:
        return self._has_pictures or any(
            frame.frame.kind is MediaKind.VIDEO for frame in self._startup.values()
        )

    def _begin(self, frame: LiveFrame) -> str | None:
        """Open a file that begins with this frame; the reason if that fails."""
        surroundings, settings = self._surroundings, self._settings
        segment = self._files + 1 if settings.has_segments else None
        wall_time = surroundings.wall_clock()
        try:
            path, raw = surroundings.open_file(settings.folder, self._key, wall_time, segment)
        except OSError as error:
            self._path = Path(error.filename or settings.folder)
            self._fail(error)
            return name_of(error)
        writer = FlvWriter(
            raw,
            self._startup_for(frame.frame.timestamp_ms),
            _own_metadata(self._key, wall_time, segment),
            settings.metadata_space,
        )
        self._files += 1
        self._path = path
        self._waits_for_keyframe = False
        self._current = _Current(
            path, raw, writer, segment, surroundings.monotonic(), frame.frame.timestamp_ms
        )
        self._current.has_pictures = frame.role <= FrameRole.INTER
        return None

    def _startup_for(self, begin_ms: int) -> list[MediaFrame]:
        """Metadata and decoder configuration. In all files but the first they get the time of what follows them."""
        frames = [frame.frame for frame in self._startup.values()]
        if not self._files:
            return frames
        return [
            frame.frame
            if frame.startup_key == METADATA_KEY
            else attrs.evolve(frame.frame, timestamp_ms=begin_ms)
            for frame in self._startup.values()
        ]

    def _report_start(self, current: _Current) -> None:
        self._surroundings.report(
            RecordingStarted(stream=self._key, path=str(current.path), segment=current.segment)
        )

    def finish(self, reason: str) -> None:
        """Nothing more will come."""
        self._end(reason)

    def _end(self, reason: str) -> None:
        """Complete the current file, as far as the disk allows."""
        current, self._current = self._current, None
        if current is None:
            return
        writer = current.writer
        if not current.messages:
            # Nothing but a header: a failure at the very first write. Its number is free again.
            self._files -= 1
            for step in (current.raw.delete, writer.close):
                attempt(step)
            return
        error = attempt(writer.finish)
        if error is not None:
            reason = f"{reason}; its metadata is not complete ({name_of(error)})"
        attempt(writer.close)
        self._surroundings.report(
            RecordingFinished(
                stream=self._key,
                path=str(current.path),
                reason=reason,
                bytes=writer.size,
                duration=writer.facts.duration_ms / 1000,
                messages=current.messages,
                dropped_by_reason=self.dropped_by_reason(),
            )
        )

    # -- failures --------------------------------------------------------------------------------------------

    def _fail(self, error: OSError) -> None:
        name = name_of(error)
        self._end(f"the disk failed ({name})")
        self._waits_for_keyframe = True
        self._note_failure(name, error.strerror or str(error))

    def _note_failure(self, error: str, reason: str, at_once: bool = False) -> None:
        """Told once for each outage."""
        self.last_error = f"{error}: {reason} ({self._path})"
        if self._outages.failed(error, self._surroundings.monotonic(), at_once):
            self._surroundings.report(
                RecordingFailed(stream=self._key, path=str(self._path), error=error, reason=reason)
            )

    def _recover(self, current: _Current) -> None:
        self.last_error = None
        if self._outages.error is not None:
            self._outages.worked(current.opened_at, self._surroundings.monotonic())


def _own_metadata(key: str, wall_time: float, segment: int | None) -> dict[str, AmfValue]:
    """What the file says of itself: the name may be shortened, and files get renamed."""
    app, name = split_key(key)
    values: dict[str, AmfValue] = {
        "rtmprelay_app": app,
        "rtmprelay_name": name,
        "rtmprelay_started": wall_time,
    }
    return values if segment is None else {**values, "rtmprelay_segment": float(segment)}
