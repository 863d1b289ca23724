"""The settings of recordings."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from pathlib import Path

import attrs

from rtmprelay.files.free_space import KeepFree
from rtmprelay.flv.file_metadata import DEFAULT_SPACE
from rtmprelay.quantities import MEBIBYTE

#: Seconds. A segment should hold a group of pictures, and a file for each frame would do harm.
SHORTEST_SEGMENT = 1.0
#: Bytes.
SMALLEST_SEGMENT = 2 * DEFAULT_SPACE


@attrs.frozen
class RecordingSettings:
    """Which streams are recorded, where to, and what that may cost."""

    #: Record every stream.
    record_all: bool = False
    #: Or those whose `app/name` matches one of these globs.
    match: tuple[str, ...] = ()
    folder: Path = Path("recordings")
    #: Begin a new file at the first keyframe after so many seconds; None for one file.
    segment_duration: float | None = None
    #: Or after so many bytes.
    segment_size: int | None = None
    #: Delete finished recordings that are older than so many seconds.
    keep: float | None = None
    #: Delete the oldest finished recordings when all together have more bytes than this.
    max_total_size: int | None = None
    #: Delete the oldest finished recordings of an app, by its name, when its own have more bytes than this.
    app_quotas: Mapping[str, int] = attrs.field(factory=dict)
    #: Write nothing while the disk has less free than this; None for no bound.
    keep_free: KeepFree | None = None
    #: Delete a recording that has fewer seconds of media than this when it ends; `twistd rtmprelay` says 1.
    shortest: float = 0.0
    #: Bytes of one stream that may wait for the disk: ten seconds at 25 Mbit/s, shared with the players' queues.
    queue_bytes: int = 32 * MEBIBYTE
    #: Messages of one stream that may wait: empty ones have no bytes and still cost memory.
    queue_messages: int = 65_536
    #: Seconds for which frames are gathered for one write. A crash of this process loses as much.
    flush_interval: float = 0.2
    #: Waiting bytes of all streams that are written at once. With less, many streams would cost many small writes.
    flush_bytes: int = 8 * MEBIBYTE
    #: Seconds until a disk that failed is tried again; doubled each time, up to `longest_retry`.
    retry_after: float = 1.0
    longest_retry: float = 30.0
    #: Seconds without a failure after which an outage is over.
    recovered_after: float = 10.0
    #: Seconds between two looks at the folder for recordings to delete.
    retention_interval: float = 60.0
    #: Seconds for which a stopping server waits for the disk.
    stop_timeout: float = 10.0
    #: Bytes at the start of each file for the metadata and the keyframe index.
    metadata_space: int = DEFAULT_SPACE

    def wants(self, stream_key: str, is_published_here: bool = True) -> bool:
        """Whether a stream is recorded as soon as it begins. What is fetched from elsewhere must be named."""
        return (self.record_all and is_published_here) or any(
            fnmatch.fnmatchcase(stream_key, glob) for glob in self.match
        )

    @property
    def has_segments(self) -> bool:
        return self.segment_duration is not None or self.segment_size is not None

    @property
    def has_retention(self) -> bool:
        """Whether recordings are deleted at all."""
        return self.keep is not None or self.max_total_size is not None or bool(self.app_quotas)
