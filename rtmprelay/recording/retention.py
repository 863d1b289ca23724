"""Deletes the oldest recordings: those of a certain age, or those that are too many bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import attrs

from rtmprelay.flv.names import parse_recording_name


@attrs.frozen
class Deleted:
    """A recording that is gone."""

    path: Path
    bytes: int
    reason: str


@attrs.frozen
class _Found:
    path: Path
    size: int
    modified: float


def _recordings(folder: Path) -> Iterator[_Found]:
    """The recordings in a folder: regular files whose name is that of one. All else is none of our business."""
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
                    yield _Found(folder / entry.name, status.st_size, status.st_mtime)
            except OSError:
                # Somebody else deleted it meanwhile.
                continue


def delete_old(
    folder: Path,
    active: Collection[Path],
    now: float,
    keep: float | None,
    max_total_size: int | None,
    delete: Callable[[Path], None] = os.unlink,
) -> list[Deleted]:
    """Delete finished recordings that are too old, then the oldest ones until the rest is small enough.

    Args:
        active: Files that are being written. They count, and are never deleted.
    """
    found = sorted(_recordings(folder), key=lambda one: (one.modified, one.path))
    total = sum(one.size for one in found)
    deleted = []
    for one in found:
        if one.path in active:
            continue
        if keep is not None and now - one.modified > keep:
            reason = "too old"
        elif max_total_size is not None and total > max_total_size:
            reason = "too many bytes"
        else:
            continue
        try:
            delete(one.path)
        except OSError:
            # Not ours to delete, or gone already; the next look tells.
            continue
        total -= one.size
        deleted.append(Deleted(one.path, one.size, reason))
    return deleted
