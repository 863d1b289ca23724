"""`outages`: says what was lost while a destination was out, by whom, and where it is recorded."""

from __future__ import annotations

import argparse

from spark_analytics.catalogue import Catalogue
from spark_analytics.commands.asking import add_time_arguments, scope_of, write_dicts
from spark_analytics.commands.common import add_catalogue_argument
from spark_analytics.output import add_format_argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command is told."""
    parser.add_argument("stream", nargs="?", metavar="APP/NAME", help="of this stream only")
    parser.add_argument("--destination", metavar="NAME", help="of this destination only")
    add_time_arguments(parser)
    add_catalogue_argument(parser)
    add_format_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    from spark_analytics.audience_questions import list_outages

    snapshot = Catalogue(options.catalogue).open()
    rows = list_outages(snapshot, scope_of(options, options.stream), options.destination)
    return write_dicts(rows, options.format, snapshot, "there was no outage")
