"""`vacuum`: deletes what only old versions of a catalogue need."""

from __future__ import annotations

import argparse
import sys
from datetime import timedelta

from rtmprelay.errors import ConfigError
from rtmprelay.quantities import read_duration
from spark_analytics.catalogue import Catalogue
from spark_analytics.cli.common import add_writer_arguments
from spark_analytics.errors import CatalogueError
from spark_analytics.store.upkeep import vacuum


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_writer_arguments(parser)
    parser.add_argument(
        "--keep",
        default="7d",
        metavar="TIME",
        help="versions of this time stay readable, such as 12h or 7d (default: %(default)s)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be deleted")


def run(options: argparse.Namespace) -> int:
    """Do it."""
    try:
        keep = timedelta(seconds=read_duration(options.keep))
    except ConfigError as error:
        raise CatalogueError(f"--keep: {error}") from None
    catalogue = Catalogue(options.catalogue)
    catalogue.open()
    with catalogue.change(options.wait) as change:
        done = vacuum(change, keep, dry_run=options.dry_run)
    says = "would be deleted" if options.dry_run else "deleted"
    sys.stdout.write(f"{done.files} files ({done.size / 1e6:,.1f} MB) {says}\n")
    sys.stdout.write(f"versions from {done.oldest} on can be read\n")
    return 0
