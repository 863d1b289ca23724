"""Deletes recordings that are too old, and the oldest ones when all together are too large."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import attrs

from rtmprelay.flv.names import parse_recording_name


@attrs.frozen
class DeletedFile:
    """A recording that was deleted, and why."""

    path: Path
    bytes: int
    reason: str


@attrs.frozen
class _FoundFile:
    path: Path
    size: int
    modified: float


def _recordings(folder: Path) -> Iterator[_FoundFile]:
    """The regular files in a folder that have the name of a recording. Everything else is left alone."""
    try:
        entries = os.scandir(folder)
    except OSError:
        return
    with entries:
        for entry in entries:
            if parse_recording_name(entry.name) is None:
                continue
            try:
                if entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    yield _FoundFile(folder / entry.name, status.st_size, status.st_mtime)
            except OSError:
                # Somebody else has just deleted it.
                continue


def delete_old(
    folder: Path,
    active: Collection[Path],
    now: float,
    keep: float | None,
    max_total_size: int | None,
    delete: Callable[[Path], None] = os.unlink,
) -> list[DeletedFile]:
    """Delete finished recordings that are too old, then the oldest ones until the rest is small enough.

    Args:
        active: Files that are being written. They count, and are never deleted.
    """
    found = sorted(_recordings(folder), key=lambda file: (file.modified, file.path))
    total = sum(file.size for file in found)
    deleted = []
    for file in found:
        if file.path in active:
            continue
        if keep is not None and now - file.modified > keep:
            reason = "too old"
        elif max_total_size is not None and total > max_total_size:
            reason = "too many bytes"
        else:
            continue
        try:
            delete(file.path)
        except OSError:
            # It is gone already, or permission is missing: the next look tries again.
            continue
        total -= file.size
        deleted.append(DeletedFile(file.path, file.size, reason))
    return deleted
