"""`viewers`: says who watched, how long, and how that went."""

from __future__ import annotations

import argparse

from spark_analytics.catalogue import Catalogue
from spark_analytics.commands.asking import in_time, scope_of, write_dicts
from spark_analytics.commands.common import add_catalogue_argument, add_time_arguments
from spark_analytics.output import add_format_argument


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command is told."""
    parser.add_argument("stream", nargs="?", metavar="APP/NAME", help="of this stream only")
    add_time_arguments(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--plays", action="store_true", help="list every single play")
    what.add_argument("--minutes", action="store_true", help="list how many watched, minute by minute")
    add_catalogue_argument(parser)
    add_format_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    from spark_analytics import audience_questions as questions
    from spark_analytics.known_names import refuse_unknown_stream

    scope = scope_of(options, options.stream)
    snapshot = Catalogue(options.catalogue).open()
    if options.stream is not None:
        refuse_unknown_stream(snapshot, options.stream)
    if options.plays:
        rows = questions.list_plays(snapshot, scope)
    elif options.minutes:
        rows = questions.list_audience(snapshot, scope)
    else:
        rows = questions.list_viewers(snapshot, scope)
    what = f" {options.stream}" if options.stream else ""
    return write_dicts(rows, options.format, snapshot, in_time(scope, f"nobody watched{what}"))
