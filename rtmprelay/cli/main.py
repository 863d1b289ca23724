"""`rtmprelay COMMAND`: finds the command and runs it. `python -m rtmprelay` is the same."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from types import ModuleType

from rtmprelay import __version__

#: Each command with what it does. Its module has the same name, and is imported only when the command is run.
COMMANDS = {
    "serve": "run the server and relay here, until Ctrl-C",
    "check": "show all settings and where each is from, and try all destinations out",
    "init": "write a settings file in which every option is explained",
    "status": "show streams and destinations of a running relay, live",
    "recordings": "list, check or repair recordings",
    "demo": "relay a test stream on this machine and prove that it arrives",
    "completion": "print the script with which a shell completes all this",
}

#: These read the options of the server themselves.
SERVER_OPTIONS = ("serve", "check")

_EXAMPLES = """\
examples:
  rtmprelay serve
  rtmprelay serve --relay-to rtmps://a.rtmps.youtube.com/live2/KEY --record-all
  rtmprelay init relay.toml && rtmprelay check --config relay.toml && rtmprelay serve --config relay.toml

In the background, or with a log file: twistd rtmprelay, with the options of `rtmprelay serve`.
"""


def make_parser(complete: Collection[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """The parser of all commands but those that read the server's options.

    Args:
        complete: The commands whose arguments are wanted.
    """
    parser = argparse.ArgumentParser(
        prog="rtmprelay",
        description="An RTMP server and relay: one live stream in, many players and destinations out.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"rtmprelay {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        if name in complete and name not in SERVER_OPTIONS:
            _module(name).add_arguments(command)
    return parser


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"rtmprelay.cli.{command}")


def _unknown_command(words: Sequence[str]) -> str | None:
    """What is wrong with the first word, if it is neither a command nor an option of this one."""
    if not words or words[0] in COMMANDS or words[0] in ("-h", "--help", "--version"):
        return None
    if words[0].startswith("-"):
        return f"options stand after a command: rtmprelay serve {words[0]} ... (see rtmprelay --help)"
    near = get_close_matches(words[0], COMMANDS, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"there is no command {words[0]!r}{hint} (there are {', '.join(COMMANDS)})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status. Without a command, say which there are."""
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    if words and words[0] in SERVER_OPTIONS:
        status: int = _module(words[0]).run(words[1:])
        return status
    problem = _unknown_command(words)
    if problem is not None:
        sys.stderr.write(f"rtmprelay: {problem}\n")
        return 2
    parser = make_parser(words[:1])
    options = parser.parse_args(words)
    if options.command is None:
        parser.print_help()
        return 0
    status = _module(options.command).run(options)
    return status


def entry() -> None:
    """The console script."""
    try:
        status = main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = 130
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] == "rtmprelay":
            raise
        sys.stderr.write(
            f"rtmprelay: this Python ({sys.executable}) has no {missing.name.partition('.')[0]}: use the one that rtmprelay is"
            " installed in, such as venv/bin/rtmprelay, or install it with pip install .\n"
        )
        status = 1
    except BrokenPipeError:
        # `rtmprelay ... | head` has seen enough. Python would complain when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)
