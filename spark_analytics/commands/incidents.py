"""`incidents`: lists what went wrong."""

from __future__ import annotations

import argparse
import sys

from spark_analytics.catalogue import Catalogue
from spark_analytics.commands.common import add_catalogue_argument, parse_time
from spark_analytics.output import add_format_argument, write_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command is told."""
    parser.add_argument("--since", metavar="TIME", help="2026-01-01T12:34:56 (UTC), or 1d for a day ago")
    parser.add_argument("--until", metavar="TIME", help="the same")
    parser.add_argument("--stream", metavar="APP/NAME", help="of this stream only")
    parser.add_argument("--kind", action="append", default=[], help="of this kind only, may be repeated")
    add_catalogue_argument(parser)
    add_format_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    from spark_analytics.questions import list_incidents

    since = parse_time(options.since) if options.since else None
    until = parse_time(options.until) if options.until else None
    snapshot = Catalogue(options.catalogue).open()
    write_table(
        sys.stdout, list_incidents(snapshot, since, until, options.stream, options.kind), options.format
    )
    return 0
