"""`compact`: joins the small files of a catalogue."""

from __future__ import annotations

import argparse
import sys

from spark_analytics.catalogue import Catalogue
from spark_analytics.cli.common import add_writer_arguments
from spark_analytics.store.upkeep import compact


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_writer_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Do it."""
    catalogue = Catalogue(options.catalogue)
    catalogue.open()
    with catalogue.change(options.wait) as change:
        done = compact(change)
        version = change.base.version
    for one in done:
        sys.stdout.write(f"{one.table}: {one.before} files ({one.size / 1e6:,.1f} MB) made {one.after}\n")
    if done:
        sys.stdout.write(
            f"{options.catalogue} is version {version} now; `vacuum` deletes the files of before\n"
        )
    else:
        sys.stdout.write("there are no small files to join\n")
    return 0
