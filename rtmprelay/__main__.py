"""`python -m rtmprelay demo`; the server itself is `twistd rtmprelay`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rtmprelay.demo import command


def make_parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m rtmprelay",
        description="Shows what rtmprelay does. The server itself is started with: twistd -n rtmprelay",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    command.add_arguments(
        commands.add_parser(
            "demo", help="relay a test stream and prove that it arrives", description=command.DESCRIPTION
        )
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status."""
    return command.run(make_parser().parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
