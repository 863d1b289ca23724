"""`sql`: answers any question about the tables."""

from __future__ import annotations

import argparse
import sys

from spark_analytics.cli.common import add_catalogue_argument, add_engine_arguments, open_engine
from spark_analytics.cli.output import add_format_argument, refuse_same_names, say_if_empty, write_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("question", metavar="SELECT", help="a question in SQL; every table is a view")
    add_catalogue_argument(parser)
    add_engine_arguments(parser)
    add_format_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    with open_engine(options) as engine:
        answer = engine.ask(options.question)
    refuse_same_names(answer.column_names, options.format)
    write_table(sys.stdout, answer, options.format)
    say_if_empty(answer.num_rows, options.format)
    return 0
