"""`destinations`: says how reliable each destination was."""

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
    parser.add_argument("destination", nargs="?", metavar="NAME", help="this one only")
    parser.add_argument("--by-day", action="store_true", help="a row for each day")
    add_time_arguments(parser)
    add_catalogue_argument(parser)
    add_engine_arguments(parser)
    add_format_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    from spark_analytics.questions.api import list_destinations, refuse_unknown_destination

    scope = scope_of(options)
    with open_engine(options) as engine:
        if options.destination is not None:
            refuse_unknown_destination(engine, options.destination)
        rows = list_destinations(engine, scope, options.by_day)
    nothing = "the event logs have nothing that was sent to a destination"
    if options.destination is not None:
        rows = [row for row in rows if row["destination"] == options.destination]
        nothing = f"nothing was sent to {options.destination}"
    return write_dicts(rows, options.format, engine.snapshot, in_time(scope, nothing))
