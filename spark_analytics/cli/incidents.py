"""`incidents`: lists what went wrong."""

from __future__ import annotations

import argparse
import sys

from spark_analytics.cli.common import (
    add_catalogue_argument,
    add_engine_arguments,
    add_time_arguments,
    open_engine,
    window_of,
)
from spark_analytics.cli.output import add_format_argument, say_if_empty, write_table
from spark_analytics.recordings.findings import KINDS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command is told."""
    add_time_arguments(parser)
    parser.add_argument("--stream", metavar="APP/NAME", help="of this stream only")
    parser.add_argument(
        "--kind",
        action="append",
        default=[],
        choices=KINDS,
        metavar="KIND",
        help=f"of this kind only, may be repeated: {', '.join(KINDS)}",
    )
    add_catalogue_argument(parser)
    add_engine_arguments(parser)
    add_format_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    from spark_analytics.questions.api import list_incidents, refuse_unknown

    window = window_of(options)
    with open_engine(options) as engine:
        if options.stream is not None:
            refuse_unknown(engine, options.stream)
        rows = list_incidents(engine, window, options.stream, options.kind)
    write_table(sys.stdout, rows, options.format)
    say_if_empty(rows.num_rows, options.format)
    return 0
