"""`report`: writes one page with plots."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from spark_analytics.cli.common import add_as_of_argument, add_time_arguments, open_snapshot, window_of
from spark_analytics.cli.output import told_if_long
from spark_analytics.engine.duck import what_is_read
from spark_analytics.whole_file import whole_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command is told."""
    parser.add_argument(
        "catalogue", nargs="?", default="catalogue", metavar="CATALOGUE", help="default: %(default)s"
    )
    parser.add_argument("--html", required=True, metavar="FILE", help="the page; - for standard output")
    parser.add_argument(
        "--stream",
        action="append",
        default=[],
        metavar="APP/NAME",
        help="whose bitrate is shown, may be repeated",
    )
    parser.add_argument(
        "--title", metavar="TEXT", help="the title of the page; default: Streams in CATALOGUE"
    )
    add_time_arguments(parser)
    add_as_of_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    from spark_analytics.questions.api import refuse_unknown
    from spark_analytics.report.data import READ_TABLES, gather
    from spark_analytics.report.page import render

    window = window_of(options)
    snapshot = open_snapshot(options)
    with told_if_long(lambda: what_is_read(snapshot, READ_TABLES)):
        for key in options.stream:
            refuse_unknown(snapshot, key)
        data = gather(snapshot, window, options.stream)
        heading = options.title or f"Streams in {Path(options.catalogue).resolve().name}"
        page = render(data, heading, datetime.now(UTC))
    if options.html == "-":
        sys.stdout.write(page)
    else:
        # Somebody may be looking at the one before.
        with (
            whole_file(Path(options.html), replace=True) as descriptor,
            os.fdopen(descriptor, "w", encoding="utf-8", closefd=False) as file,
        ):
            file.write(page)
        sys.stdout.write(f"{options.html}: {len(page.encode()) / 1000:,.0f} kB\n")
    return 0
