"""`streams`: lists the streams with what was recorded of them."""

from __future__ import annotations

import argparse
import sys

from spark_analytics.catalogue import Catalogue
from spark_analytics.commands.common import add_catalogue_argument
from spark_analytics.output import add_format_argument, write_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command is told."""
    add_catalogue_argument(parser)
    add_format_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    from spark_analytics.questions import list_streams

    snapshot = Catalogue(options.catalogue).open()
    write_table(sys.stdout, list_streams(snapshot), options.format)
    return 0
