"""`outages`: says what was lost while a destination was out, by whom, and where it is recorded."""

from __future__ import annotations

import argparse

from spark_analytics.catalogue import Catalogue
from spark_analytics.commands.asking import in_time, scope_of, write_dicts
from spark_analytics.commands.common import add_catalogue_argument, add_time_arguments
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
    from spark_analytics.known_names import refuse_unknown_destination, refuse_unknown_stream

    scope = scope_of(options, options.stream)
    snapshot = Catalogue(options.catalogue).open()
    if options.stream is not None:
        refuse_unknown_stream(snapshot, options.stream)
    if options.destination is not None:
        refuse_unknown_destination(snapshot, options.destination)
    rows = list_outages(snapshot, scope, options.destination)
    return write_dicts(rows, options.format, snapshot, in_time(scope, "the event logs have no such outage"))
