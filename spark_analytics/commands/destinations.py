"""`destinations`: says how reliable each destination was."""

from __future__ import annotations

import argparse

from spark_analytics.catalogue import Catalogue
from spark_analytics.commands.asking import add_time_arguments, scope_of, write_dicts
from spark_analytics.commands.common import add_catalogue_argument
from spark_analytics.output import add_format_argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command is told."""
    parser.add_argument("destination", nargs="?", metavar="NAME", help="this one only")
    parser.add_argument("--by-day", action="store_true", help="a row for each day")
    add_time_arguments(parser)
    add_catalogue_argument(parser)
    add_format_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    from spark_analytics.audience_questions import list_destinations

    snapshot = Catalogue(options.catalogue).open()
    rows = list_destinations(snapshot, scope_of(options), options.by_day)
    if options.destination is not None:
        rows = [row for row in rows if row["destination"] == options.destination]
    return write_dicts(rows, options.format, snapshot, "nothing was sent to any destination")
