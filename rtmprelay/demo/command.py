"""The options of `python -m rtmprelay demo`, and the reactor that it runs in."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from twisted.logger import ILogObserver, globalLogBeginner, textFileLogObserver
from twisted.python.failure import Failure

from rtmprelay.demo.display import Display, display_for
from rtmprelay.demo.run import Demo, DemoSettings
from rtmprelay.demo.verdict import DemoVerdict

_MAX_DESTINATIONS = 50


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 1 <= seconds <= 30 * 86400:
        raise argparse.ArgumentTypeError(f"{text} is not from 1 to {30 * 86400}")
    return seconds


def _destinations(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= _MAX_DESTINATIONS:
        raise argparse.ArgumentTypeError(f"{text} is not from 1 to {_MAX_DESTINATIONS}")
    return number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=_seconds, metavar="N", help="end after N seconds (default: on Ctrl-C)"
    )
    parser.add_argument(
        "--destinations",
        type=_destinations,
        default=2,
        metavar="N",
        help="number of servers that get the stream (default: 2)",
    )
    parser.add_argument(
        "--record-dir", type=Path, metavar="DIR", help="keep the recording in DIR (default: it is deleted)"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the result as JSON, and everything else to stderr"
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="append the log of all servers to FILE")
    parser.add_argument(
        "--spoil",
        metavar="RECEIVER",
        help="change one byte of what RECEIVER got, to see that the comparison notices: destination-1, player, recording ...",
    )


def run(options: argparse.Namespace, out: TextIO = sys.stdout) -> int:
    """Run the demo; return the exit status."""
    with ExitStack() as stack:
        folder = options.record_dir
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rtmprelay-demo-")))
        settings = DemoSettings(
            folder=folder,
            seconds=options.seconds,
            destinations=options.destinations,
            keeps_recording=options.record_dir is not None,
            spoiled=options.spoil,
        )
        if options.spoil is not None and options.spoil not in settings.receiver_names:
            names = ", ".join(settings.receiver_names)
            sys.stderr.write(f"--spoil: there is no {options.spoil!r}; there are: {names}\n")
            return 1
        try:
            folder.mkdir(parents=True, exist_ok=True)
            log = None if options.log is None else stack.enter_context(options.log.open("a"))
        except OSError as error:
            sys.stderr.write(f"{error.filename}: {error.strerror}\n")
            return 1
        display = display_for(sys.stderr if options.json else out)
        verdict = _in_reactor(settings, display, log)
        if verdict is None:
            return 1
        if options.json:
            out.write(json.dumps(verdict.as_json(), indent=2) + "\n")
        else:
            display.say("", *verdict.lines())
        return 0 if verdict.passed else 1


def _in_reactor(settings: DemoSettings, display: Display, log: TextIO | None) -> DemoVerdict | None:
    """Run a reactor until the demo is over."""
    from twisted.internet import reactor as the_reactor

    reactor: Any = the_reactor
    # Log lines would break the table; `--log` keeps them.
    observers: list[ILogObserver] = [] if log is None else [textFileLogObserver(log)]
    globalLogBeginner.beginLoggingTo(observers, redirectStandardIO=False)
    outcomes: list[DemoVerdict | Failure] = []

    def begin() -> None:
        demo = Demo(settings, display, reactor)
        _finish_on_signals(demo, reactor)
        running = demo.start().addBoth(outcomes.append)
        running.addBoth(lambda _: reactor.stop())

    reactor.callWhenRunning(begin)
    reactor.run()
    outcome = outcomes[0] if outcomes else None
    if isinstance(outcome, Failure):
        outcome.printTraceback(file=sys.stderr)
        return None
    return outcome


def _finish_on_signals(demo: Demo, reactor: Any) -> None:
    """The first Ctrl-C ends the demo properly, the second one at once."""

    def handle(number: int, frame: object) -> None:
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, signal.SIG_DFL)
        reactor.callFromThread(demo.finish)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
