"""`find`: says which file and byte shows a stream at a moment, and cuts it out."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from spark_analytics.cli.common import (
    add_catalogue_argument,
    add_engine_arguments,
    open_engine,
    parse_time,
)
from spark_analytics.cli.output import add_format_argument, told_if_long, write_rows
from spark_analytics.errors import CatalogueError

if TYPE_CHECKING:
    from spark_analytics.questions.ask import Engine

#: Of the answer.
COLUMNS = ("path", "byte_offset", "timestamp_ms", "keyframe_at", "seek_ms", "status", "vanished")

#: As much as anybody can mean: eleven days.
_MOST_SECONDS = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command is told."""
    parser.add_argument("stream", metavar="APP/NAME", help="the stream, such as live/test")
    parser.add_argument(
        "--at",
        required=True,
        metavar="TIME",
        help="2026-01-01T12:34:56 (UTC), today, yesterday, or 2h for two hours ago",
    )
    parser.add_argument("--cut", metavar="OUT.flv", help="write what follows to a file that plays by itself")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="how much of it, from that time on (default: %(default)s)"
    )
    add_catalogue_argument(parser)
    add_engine_arguments(parser)
    add_format_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    at = parse_time(options.at)
    if not 0 < options.seconds <= _MOST_SECONDS:
        raise CatalogueError(
            f"--seconds {options.seconds:g}: write more than 0, and at most {_MOST_SECONDS}."
        )
    if options.cut == "-":
        raise CatalogueError("--cut -: a clip needs a file, because its index is written last; name one.")
    with open_engine(options) as engine:
        return _find(engine, options, at)


def _find(engine: Engine, options: argparse.Namespace, at: datetime) -> int:
    from spark_analytics.questions.api import find_moment, keyframes_of, recordings_of

    moment = find_moment(engine, options.stream, at)
    row = (
        moment.path,
        moment.byte_offset,
        moment.timestamp_ms,
        moment.wall,
        (at - moment.wall) // timedelta(milliseconds=1),
        moment.recording["status"],
        moment.recording["vanished_at"] is not None,
    )
    write_rows(sys.stdout, COLUMNS, [row], options.format)
    if options.cut is None:
        return 0
    if moment.recording["vanished_at"] is not None:
        raise CatalogueError(f"{moment.path} is not there any more, and cannot be cut.")
    from spark_analytics.recordings.clips import ClipPlan, cut_clip

    until = at + timedelta(seconds=options.seconds)
    plan = ClipPlan(recordings_of(engine, options.stream), until, partial(keyframes_of, engine))
    with told_if_long(f"cutting {options.seconds:g} s"):
        clip = cut_clip(plan.parts(moment), until, Path(options.cut))
    files = "one recording" if len(clip.sources) == 1 else f"{len(clip.sources)} recordings"
    sys.stderr.write(f"{clip.path}: {clip.duration_ms / 1000:.3f} s, {clip.size} bytes, from {files}\n")
    return 0
