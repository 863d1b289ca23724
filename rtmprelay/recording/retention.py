"""Deletes recordings that are too old, and the oldest ones when all together, or those of an app, are too large.

Each app has an equal share of the room for all: a publisher that fills a folder with junk pushes out recordings of its own app only.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
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
    app: str


def _recordings(folder: Path) -> Iterator[_FoundFile]:
    """The regular files in a folder that have the name of a recording. Everything else is left alone."""
    try:
        entries = os.scandir(folder)
    except OSError:
        return
    with entries:
        for entry in entries:
            name = parse_recording_name(entry.name)
            if name is None:
                continue
            try:
                if entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    yield _FoundFile(folder / entry.name, status.st_size, status.st_mtime, name.app)
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
    app_quotas: Mapping[str, int] | None = None,
) -> list[DeletedFile]:
    """Delete finished recordings that are too old, then the oldest ones until the rest is small enough.

    The app that has the most bytes loses recordings first.

    Args:
        active: Files that are being written. They count, and are never deleted.
    """
    found = sorted(_recordings(folder), key=lambda file: (file.modified, file.path))
    sizes: Counter[str] = Counter()
    for file in found:
        sizes[file.app] += file.size
    deleted: list[DeletedFile] = []

    def remove(file: _FoundFile, reason: str) -> bool:
        found.remove(file)
        try:
            delete(file.path)
        except OSError:
            # It is gone already, or permission is missing: the next look tries again.
            return False
        sizes[file.app] -= file.size
        deleted.append(DeletedFile(file.path, file.size, reason))
        return True

    def oldest(app: str) -> _FoundFile | None:
        return next((file for file in found if file.app == app and file.path not in active), None)

    for file in list(found):
        if keep is not None and now - file.modified > keep and file.path not in active:
            remove(file, "too old")
    for app, quota in (app_quotas or {}).items():
        while sizes[app] > quota and (file_of_app := oldest(app)) is not None:
            remove(file_of_app, f"the app {app!r} has too many bytes")
    candidates = set(sizes)
    while max_total_size is not None and sizes.total() > max_total_size and candidates:
        largest = max(candidates, key=lambda app: (sizes[app], app))
        victim = oldest(largest)
        if victim is None:
            candidates.discard(largest)
        else:
            remove(victim, "too many bytes")
    return deleted
