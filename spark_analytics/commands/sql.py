"""`sql`: answers any question about the tables."""

from __future__ import annotations

import argparse
import sys

from spark_analytics.catalogue import Catalogue
from spark_analytics.commands.common import (
    add_catalogue_argument,
    add_spark_arguments,
    open_session,
    plain_errors,
)
from spark_analytics.output import add_format_argument, refuse_same_names, write_table
from spark_analytics.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command is told."""
    parser.add_argument("question", metavar="SELECT", help="a question in SQL; every table is a view")
    add_catalogue_argument(parser)
    add_format_argument(parser)
    add_spark_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    snapshot = Catalogue(options.catalogue).open()
    with Progress(sys.stderr, quiet=True) as progress:
        progress.say("starting Spark")
        with open_session(options) as spark:
            from spark_analytics.flv_source import register

            with plain_errors():
                register(spark)
                snapshot.register(spark)
                progress.say("asking", spark)
                rows = spark.sql(options.question)
                refuse_same_names(rows.columns, options.format)
                answer = rows.toArrow()
    write_table(sys.stdout, answer, options.format)
    return 0
