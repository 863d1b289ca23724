"""What was found in a file as a whole: the results of its parts, how they are joined, and the row of `recordings` they make."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import numpy as np

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.flv.names import RecordingName, parse_recording_name
from rtmprelay.flv.scan import DamageKind
from spark_analytics.recordings.beginning import Beginning
from spark_analytics.recordings.discover import FoundFile
from spark_analytics.recordings.findings import DRIFT, Findings, Incident
from spark_analytics.recordings.part import Part, finish, join, usual_picture_step
from spark_analytics.recordings.plan import is_settled
from spark_analytics.recordings.rules import DRIFT_LEAST_MS, DRIFT_MS, INDEXER_VERSION
from spark_analytics.recordings.sound import has_jitter


@attrs.frozen(eq=False)
class PartResult:
    """What is known of a part of a file.

    Attributes:
        begin: Where its first tag begins; equal to `end` if none begins in it.
        end: Where the first tag of the next part begins.
        metadata: Some of what the metadata at the start of the file says.
        has_header: Whether the file has a file header, and whether it begins with those of one.
        error: Why it could not be read; then there is nothing else.
    """

    begin: int = 0
    end: int = 0
    part: Part = attrs.field(factory=Part)
    beginning: Beginning = attrs.field(factory=Beginning)
    metadata: dict[str, AmfValue] = attrs.field(factory=dict)
    has_header: bool = False
    has_signature: bool = False
    error: str | None = None

    def packed(self) -> bytes:
        """As bytes. Most of the steps are never made."""
        made = np.flatnonzero(self.part.steps)
        sparse = made.astype(np.int32), self.part.steps[made]
        bare = attrs.evolve(self, part=attrs.evolve(self.part, steps=np.empty(0, np.int64)))
        return pickle.dumps((bare, *sparse), pickle.HIGHEST_PROTOCOL)

    @classmethod
    def unpacked(cls, data: bytes) -> PartResult:
        """From bytes that a worker of this same program made."""
        result, made, counts = pickle.loads(data)
        steps = Part().steps
        steps[made] = counts
        result.part.steps = steps
        assert isinstance(result, PartResult)
        return result


def reason_of(error: Exception) -> str:
    """Why a file could not be read, in the words of a row."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}" if not isinstance(error, OSError) else str(error)


#: The number of rows that belong to no part, but to where parts meet.
BETWEEN_PARTS = -1


@attrs.define(eq=False)
class FileResult:
    """What is known of a whole file.

    Attributes:
        times_before: For each part but the first, the time of the last frame before it.
        at_edges: What was found where parts meet.
    """

    part: Part = attrs.field(factory=Part)
    beginning: Beginning = attrs.field(factory=Beginning)
    metadata: dict[str, AmfValue] = attrs.field(factory=dict)
    has_header: bool = False
    has_signature: bool = False
    error: str | None = None
    times_before: dict[int, int] = attrs.field(factory=dict)
    at_edges: Findings = attrs.field(factory=Findings)


def stitch(results: Sequence[PartResult]) -> FileResult:
    """Join the parts of a file, which are in order and all there."""
    for result in results:
        if result.error is not None:
            return FileResult(error=result.error)
    first = results[0]
    whole = FileResult(first.part, first.beginning, first.metadata, first.has_header, first.has_signature)
    if len(results) == 1:
        return whole
    if not _is_seamless(results):
        return FileResult(error="it changed while it was read")
    findings = whole.at_edges
    total = Part()
    for number, result in enumerate(results):
        if len(total.all.last):
            whole.times_before[number] = int(total.all.last.times[0])
        total = join(total, result.part, first.beginning, findings)
    finish(total, findings)
    whole.part = total
    return whole


def _is_seamless(results: Iterable[PartResult]) -> bool:
    """Whether each part begins where the one before it ends; if not, they are not parts of one and the same file."""
    end: int | None = None
    for result in results:
        if result.begin == result.end:
            continue
        if end is not None and result.begin != end:
            return False
        end = result.end
    return True


#: All that `status_of` says.
STATUSES = (
    "ok",
    "recovered",
    "truncated",
    "damaged",
    "growing",
    "header_only",
    "empty",
    "not_flv",
    "unreadable",
)

_TAIL = {DamageKind.TORN_TAIL.name.lower(), DamageKind.ZERO_TAIL.name.lower()}
_HARMLESS = {DamageKind.WRONG_SIZE.name.lower(), DamageKind.WRONG_TRAILER.name.lower()}

#: How large a file is that is a file header and nothing else.
_HEADER_SIZE = 13

#: Characters of the name of an app or a stream; on the wire they have fewer.
_LONGEST_NAME = 1024

#: No recording began before this or will begin after it: seconds since 1970.
_EARLIEST, _LATEST = 0.0, 7.9e9


@attrs.frozen
class Reading:
    """The run that reads files: what it is called, and when it began."""

    run: str
    now: datetime


def judged(file: FoundFile, result: FileResult, reading: Reading) -> tuple[dict[str, Any], list[Incident]]:
    """The row of a file, and what is wrong with all of it. Whatever it is, it must not end the job."""
    try:
        row = recording_row(file, result, reading)
        return row, drift_incident(row, result)
    except Exception as error:
        return recording_row(file, FileResult(error=reason_of(error)), reading), []


def recording_row(file: FoundFile, result: FileResult, reading: Reading) -> dict[str, Any]:
    """The row of a file, with `step_ms`, the usual step from picture to picture, and `frame_ms`, how long an audio
    frame is, which the other tables need.
    """
    part, counts = result.part, result.part.counts
    has_frames = len(part.all.first) > 0
    duration_ms = max(0, part.newest_ms) if has_frames else 0
    status = status_of(file, result, reading.now)
    app, stream, segment, started, source = _origin(file, result, duration_ms)
    app, stream = _as_text(app), _as_text(stream)
    # Frames are timed in milliseconds, and so are answers: what one of them says is asked for in the next question.
    started = started.replace(microsecond=started.microsecond // 1000 * 1000)
    step_ms = usual_picture_step(part)
    seconds = duration_ms / 1000
    picture = part.picture or _picture_in(result)
    sound = part.sound or result.beginning.sound
    video, audio = part.video_codecs.first, part.audio_codecs.first
    interval = counts.keyframe_step_ms / counts.keyframe_steps if counts.keyframe_steps else None
    return {
        "file_id": file.file_id,
        "path": file.path,
        "app": app,
        "stream": stream,
        "segment": segment,
        "started_at": started,
        "ended_at": started + timedelta(milliseconds=duration_ms),
        "start_source": source,
        "duration_ms": duration_ms,
        "size": file.size,
        "mtime_ns": file.mtime_ns,
        "status": status,
        "error": result.error,
        "complete": result.metadata.get("filesize") == file.size,
        "lost_bytes": file.size if status == "not_flv" else counts.lost_bytes,
        "damages": counts.damages,
        "video_codec": video.codec if video is not None else None,
        "audio_codec": audio.codec if audio is not None else None,
        "width": picture[0] if picture is not None else None,
        "height": picture[1] if picture is not None else None,
        "fps": round(1000 / step_ms, 3) if step_ms else None,
        "sample_rate": sound.rate,
        "channels": sound.channels,
        "video_kbps": counts.video_bytes / 125 / seconds if seconds and counts.video_frames else None,
        "audio_kbps": counts.audio_bytes / 125 / seconds if seconds and counts.audio_frames else None,
        "keyframe_interval_ms": interval,
        "tags": counts.tags,
        "script_tags": counts.script_tags,
        "video_frames": counts.video_frames,
        "audio_frames": counts.audio_frames,
        "keyframes": counts.keyframes,
        "video_bytes": counts.video_bytes,
        "audio_bytes": counts.audio_bytes,
        "dropped_frames": _dropped(part, step_ms),
        "audio_drift_ms_per_hour": _drift(result),
        "first_timestamp_ms": result.beginning.first_ms if has_frames else None,
        "run": reading.run,
        "vanished_at": None,
        "indexed_at": reading.now,
        "indexer_version": INDEXER_VERSION,
        "day": started.date(),
        "step_ms": step_ms,
        "frame_ms": _audio_frame_ms(result),
    }


def drift_incident(row: dict[str, Any], result: FileResult) -> list[Incident]:
    """That audio runs away from its samples, if it does."""
    frame_ms = row["frame_ms"]
    per_hour = row["audio_drift_ms_per_hour"]
    if frame_ms is None or per_hour is None:
        return []
    drift, _ = _skew(result.part, frame_ms)
    if abs(drift) < DRIFT_MS:
        return []
    detail = f"timestamps of audio run {'ahead of' if drift > 0 else 'behind'} its samples: {per_hour:+.0f} ms an hour"
    return [Incident(DRIFT, 0, None, round(abs(drift)), None, detail)]


def status_of(file: FoundFile, result: FileResult, now: datetime) -> str:
    """In one word, how a file is."""
    counts, kinds = result.part.counts, result.part.damage_kinds
    if result.error is not None:
        return "unreadable"
    if not file.size:
        return "empty"
    if not counts.tags and not result.has_signature:
        return "not_flv"
    if not is_settled(file, now.timestamp()) and result.metadata.get("filesize") != file.size:
        return "growing"
    if not counts.tags and file.size <= _HEADER_SIZE:
        return "header_only"
    if not result.has_header or kinds - _TAIL - _HARMLESS:
        return "damaged"
    if kinds & _TAIL:
        return "truncated"
    return "recovered" if kinds else "ok"


def _origin(
    file: FoundFile, result: FileResult, duration_ms: int
) -> tuple[str, str, int | None, datetime, str]:
    """App, stream, segment, start, and where the start is from. The recorder's own word counts most."""
    metadata = result.metadata
    name: RecordingName | None = parse_recording_name(file.name)
    app, stream, segment = metadata.get("rtmprelay_app"), metadata.get("rtmprelay_name"), None
    if not isinstance(app, str) or not isinstance(stream, str):
        app, stream = (name.app, name.name) if name is not None else ("", file.name.removesuffix(".flv"))
    number = metadata.get("rtmprelay_segment")
    if isinstance(number, float) and 0 <= number < 1e9:
        segment = int(number)
    elif name is not None:
        segment = name.segment
    started = metadata.get("rtmprelay_started")
    if isinstance(started, float) and _EARLIEST < started < _LATEST:
        return app, stream, segment, datetime.fromtimestamp(started, UTC), "metadata"
    if name is not None and _EARLIEST < name.started.timestamp() < _LATEST:
        return app, stream, segment, name.started, "name"
    ended = datetime.fromtimestamp(min(max(file.mtime_ns / 1e9, _EARLIEST), _LATEST), UTC)
    return app, stream, segment, ended - timedelta(milliseconds=duration_ms), "mtime"


def _as_text(name: str) -> str:
    """A name as a table can hold it, once for each row: a stranger may call his stream what is no text, or a novel."""
    return name[:_LONGEST_NAME].encode("utf-8", "replace").decode()


def _picture_in(result: FileResult) -> tuple[int, int] | None:
    width, height = result.metadata.get("width"), result.metadata.get("height")
    if isinstance(width, float) and isinstance(height, float) and 0 < width <= 65536 and 0 < height <= 65536:
        return int(width), int(height)
    return None


def _dropped(part: Part, step_ms: float | None) -> int | None:
    """How many more pictures the steps have room for; as in `seconds`, a quarter of one is no picture."""
    if not step_ms:
        return None
    total = int(np.arange(len(part.steps)) @ part.steps)
    return max(0, int(total / step_ms - int(part.steps.sum()) + 0.25))


def _audio_frame_ms(result: FileResult) -> float | None:
    """How long audio frames are; None if that changes, or is not known."""
    part = result.part
    if part.audio_codecs.has_changed or part.audio_configurations.has_changed:
        return None
    return result.beginning.sound.frame_ms


def _skew(part: Part, frame_ms: float) -> tuple[float, int]:
    """By how many milliseconds audio has run away from its samples, and in how many."""
    counts = part.counts
    if has_jitter(counts.audio_frames, counts.audio_early):
        return part.audio_seconds.skew_ms(frame_ms)
    return counts.audio_step_ms - counts.audio_slots * frame_ms, counts.audio_step_ms


def _drift(result: FileResult) -> float | None:
    frame_ms = _audio_frame_ms(result)
    if frame_ms is None:
        return None
    skew, milliseconds = _skew(result.part, frame_ms)
    return None if milliseconds < DRIFT_LEAST_MS else skew * 3_600_000 / milliseconds
