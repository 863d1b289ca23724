"""`outages`: says what was lost while a destination was out, by whom, and where it is recorded."""

from __future__ import annotations

import argparse

from spark_analytics.cli.common import (
    add_catalogue_argument,
    add_engine_arguments,
    add_time_arguments,
    in_time,
    open_engine,
    scope_of,
    write_dicts,
)
from spark_analytics.cli.output import add_format_argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command is told."""
    parser.add_argument("stream", nargs="?", metavar="APP/NAME", help="of this stream only")
    parser.add_argument("--destination", metavar="NAME", help="of this destination only")
    add_time_arguments(parser)
    add_catalogue_argument(parser)
    add_engine_arguments(parser)
    add_format_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    from spark_analytics.questions.api import list_outages, refuse_unknown_destination, refuse_unknown_stream

    scope = scope_of(options, options.stream)
    with open_engine(options) as engine:
        if options.stream is not None:
            refuse_unknown_stream(engine, options.stream)
        if options.destination is not None:
            refuse_unknown_destination(engine, options.destination)
        rows = list_outages(engine, scope, options.destination)
    nothing = in_time(scope, "the event logs have no such outage")
    return write_dicts(rows, options.format, engine.snapshot, nothing)
