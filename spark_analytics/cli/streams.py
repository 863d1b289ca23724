"""`streams`: lists the streams with what was recorded of them."""

from __future__ import annotations

import argparse
import sys

from spark_analytics.cli.common import add_catalogue_argument, add_engine_arguments, open_engine
from spark_analytics.cli.output import add_format_argument, say_if_empty, write_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command is told."""
    add_catalogue_argument(parser)
    add_engine_arguments(parser)
    add_format_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    from spark_analytics.questions.api import list_streams

    with open_engine(options) as engine:
        rows = list_streams(engine)
    write_table(sys.stdout, rows, options.format)
    say_if_empty(rows.num_rows, options.format)
    return 0
