"""`rtmprelay recordings list|check|repair`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import attrs

from rtmprelay.flv import __main__ as flv
from rtmprelay.flv.names import RecordingName, parse_recording_name
from rtmprelay.quantities import rounded_size

#: What `--record-dir` has as its default.
DEFAULT_FOLDER = Path("recordings")


@attrs.frozen
class Found:
    """A recording in a folder."""

    name: RecordingName
    path: Path
    bytes: int
    modified: datetime


def recordings_in(folder: Path) -> Iterator[Found]:
    """The recordings in a folder, the oldest first."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = parse_recording_name(entry.name)
            if name is not None and entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                modified = datetime.fromtimestamp(status.st_mtime, UTC)
                found.append(Found(name, folder / entry.name, status.st_size, modified))
    yield from sorted(found, key=lambda one: (one.name.started, one.path.name))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True, metavar="list|check|repair")
    listing = commands.add_parser(
        "list", help="what is in a folder", description="What is in a folder of recordings."
    )
    listing.add_argument("folder", nargs="?", type=Path, default=DEFAULT_FOLDER, metavar="FOLDER")
    flv.add_commands(commands)


def run(options: argparse.Namespace) -> int:
    if options.action != "list":
        return flv.run(options.action, options.files)
    try:
        found = [*recordings_in(options.folder)]
    except OSError as error:
        sys.stderr.write(f"{options.folder}: {error.strerror}\n")
        return 1
    for one in found:
        started = f"{one.name.started:%Y-%m-%d %H:%M:%S}"
        sys.stdout.write(f"{started}  {rounded_size(one.bytes):>9}  {one.name.key}  {one.path}\n")
    total = rounded_size(sum(one.bytes for one in found))
    recordings = "1 recording" if len(found) == 1 else f"{len(found)} recordings"
    sys.stdout.write(f"{recordings}, {total}; times are UTC\n")
    return 0
