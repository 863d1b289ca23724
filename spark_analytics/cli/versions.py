"""`versions`: lists the versions of a catalogue."""

from __future__ import annotations

import argparse
import sys

from spark_analytics.catalogue import Catalogue
from spark_analytics.cli.output import add_format_argument, write_rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "--catalogue", default="catalogue", metavar="DIR", help="the catalogue (default: %(default)s)"
    )
    add_format_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    rows = [(one.version, one.published_at, one.what) for one in Catalogue(options.catalogue).versions()]
    write_rows(sys.stdout, ["version", "published_at", "what"], rows, options.format)
    return 0
