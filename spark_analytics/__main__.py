"""`python -m spark_analytics COMMAND ...`."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn

from rtmprelay.errors import RtmpRelayError
from spark_analytics.engine import leave_pandas_out

#: Each command with what it does; the module of the same name in `spark_analytics.cli` does it.
COMMANDS = {
    "index": "read new and changed recordings into a catalogue",
    "find": "say which file and byte shows a stream at a moment, and cut it out",
    "incidents": "list gaps, freezes, damage and the like",
    "streams": "list the streams with what was recorded of them",
    "viewers": "say who watched, how long, and how that went",
    "destinations": "say how reliable each destination was",
    "outages": "say what was lost while a destination was out, and where it is recorded",
    "report": "write a page with plots: recordings, viewers, destinations",
    "sql": "answer any question about the tables",
    "versions": "list the versions of a catalogue, for --as-of",
    "compact": "join the small files of a catalogue, so that questions open few",
    "vacuum": "delete what only old versions of a catalogue need",
    "package": "write a file with this program for spark-submit --py-files",
}

#: What each extra installs; the smaller one is named where it is enough.
_EXTRAS = {
    **dict.fromkeys(("deltalake", "duckdb", "numpy", "pyarrow"), "catalogue"),
    **dict.fromkeys(("pandas", "py4j", "pyspark"), "spark"),
}


class _Parser(argparse.ArgumentParser):
    """Answers what it cannot use with one line."""

    def error(self, message: str) -> NoReturn:
        """Say it, and end."""
        self.exit(1, f"{self.prog}: {message} (see --help)\n")


def make_parser(names: Iterable[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """The options of these commands; to ask for one does not import what the others need."""
    wanted = set(names)
    parser = _Parser(
        prog="python -m spark_analytics", description="Index recordings with Spark, and ask about them."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name in wanted:
            importlib.import_module(f"spark_analytics.cli.{name}").add_arguments(command)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status: 0 if it did what it was asked, 1 if not."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        options = make_parser(arguments[:1]).parse_args(arguments)
        module = importlib.import_module(f"spark_analytics.cli.{options.command}")
        return int(module.run(options))
    except BrokenPipeError:
        # Whoever reads has seen enough; the interpreter must not complain when it closes the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        sys.stderr.write(
            f"This needs {error.name}, which is not installed: pip install 'rtmprelay[{extra}]'\n"
        )
    except RtmpRelayError as error:
        sys.stderr.write(f"{error}\n")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"{where}{error.strerror or error}\n")
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    return 1


if __name__ == "__main__":
    # Who is told to end cleans up, as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if "--verbose" not in sys.argv:
        # Libraries would show where they were interrupted.
        logging.getLogger().addHandler(logging.NullHandler())
    leave_pandas_out()
    sys.exit(main())
