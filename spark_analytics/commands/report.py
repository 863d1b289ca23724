"""`report`: writes one page with plots."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from spark_analytics.catalogue import Catalogue
from spark_analytics.commands.asking import add_time_arguments
from spark_analytics.commands.common import parse_time


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
    parser.add_argument("--title", metavar="TEXT", help="what the page calls the catalogue")
    add_time_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    from spark_analytics.report.data import gather
    from spark_analytics.report.page import render

    snapshot = Catalogue(options.catalogue).open()
    since = parse_time(options.since) if options.since else None
    until = parse_time(options.until) if options.until else None
    data = gather(snapshot, since, until, options.stream)
    page = render(data, options.title or Path(options.catalogue).resolve().name, datetime.now(UTC))
    if options.html == "-":
        sys.stdout.write(page)
    else:
        _replace(Path(options.html), page)
        sys.stdout.write(f"{options.html}: {len(page.encode()) / 1000:,.0f} kB\n")
    return 0


def _replace(path: Path, page: str) -> None:
    """Write the file as a whole: somebody may be looking at the one before."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(page)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
