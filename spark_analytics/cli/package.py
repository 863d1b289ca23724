"""`package`: writes a file for `spark-submit --py-files`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command is told."""
    parser.add_argument("out", metavar="OUT.zip", help="the file to write")


def run(options: argparse.Namespace) -> int:
    """Do it."""
    from spark_analytics.engine.spark import write_package

    names = write_package(Path(options.out))
    main = Path(__file__).parent.parent / "__main__.py"
    sys.stdout.write(f"{options.out}: {len(names)} files\n")
    sys.stdout.write(f"spark-submit --py-files {options.out} {main} index ...\n")
    return 0
