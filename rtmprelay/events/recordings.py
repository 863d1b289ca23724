"""Events of recordings."""

from __future__ import annotations

import attrs

from rtmprelay.events.base import Event


@attrs.frozen(kw_only=True)
class RecordingEvent(Event):
    """About a file of a recording."""

    path: str


@attrs.frozen(kw_only=True)
class RecordingStarted(RecordingEvent):
    """The relay began to write a file."""

    name = "recording_started"
    sentence = "Recording of {stream} to {path} started"
    stream: str
    #: The number of the segment, if the recording is cut into segments.
    segment: int | None


@attrs.frozen(kw_only=True)
class RecordingFinished(RecordingEvent):
    """A file is complete."""

    name = "recording_finished"
    sentence = "Recording of {stream} to {path} finished: {reason} ({bytes} bytes, {duration:.1f} s)"
    stream: str
    reason: str
    bytes: int
    duration: float
    messages: int
    #: Messages of the stream that were not recorded so far, by reason.
    dropped_by_reason: dict[str, int]


@attrs.frozen(kw_only=True)
class RecordingFailed(RecordingEvent):
    """A recording could not be written. Reported once, and again only after the disk has worked for a while."""

    name = "recording_failed"
    level = "warn"
    sentence = "Recording of {stream} to {path} failed ({error}): {reason}"
    stream: str
    #: The name of the errno, or `queue_full` if the disk is too slow.
    error: str
    reason: str


@attrs.frozen(kw_only=True)
class RecordingDeleted(RecordingEvent):
    """An old recording was deleted to make room."""

    name = "recording_deleted"
    sentence = "Recording {path} deleted: {reason} ({bytes} bytes)"
    bytes: int
    reason: str
