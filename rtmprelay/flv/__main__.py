"""`python -m rtmprelay.flv check FILE...` and `repair FILE...`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from rtmprelay.errors import RtmpRelayError
from rtmprelay.flv.repair import Inspection, Progress, inspect, repair

#: Smaller files are done before a progress bar would be seen.
_PROGRESS_MIN_SIZE = 64 * 1024 * 1024

_BAR_WIDTH = 40


class ProgressBar:
    """Shows on a terminal how much of a file is done."""

    def __init__(self, out: TextIO, name: str, size: int) -> None:
        self._out = out
        self._name = name
        self._size = size
        self._shown: int | None = None
        self._enabled = size >= _PROGRESS_MIN_SIZE and out.isatty()

    def __call__(self, position: int) -> None:
        """The file is done up to this position."""
        if not self._enabled:
            return
        percent = 100 * position // self._size
        if percent != self._shown:
            self._shown = percent
            filled = _BAR_WIDTH * percent // 100
            bar = "#" * filled + "." * (_BAR_WIDTH - filled)
            self._out.write(f"\r{self._name} [{bar}] {percent:3d} %")
            self._out.flush()

    def close(self) -> None:
        """Clear the line for the next output."""
        if self._shown is not None:
            self._out.write("\r\x1b[K")
            self._out.flush()


def _describe(found: Inspection) -> list[str]:
    """The result as lines, the summary first."""
    seconds = found.facts.duration_ms / 1000
    lines = [f"{found.tags} whole tags, {found.facts.keyframes} keyframes, {seconds:.3f} s"]
    for loss in found.losses:
        damage = loss.damage
        time = "an unknown time" if loss.milliseconds is None else f"{loss.milliseconds} ms"
        lines.append(f"{damage.kind.value}: {damage.size} bytes from byte {damage.begin} on, {time} lost")
    lines += found.complaints
    return lines


def _verdict(command: str, found: Inspection) -> str:
    if found.is_fine:
        return "fine"
    lost = f"{found.lost_bytes} bytes and {found.lost_ms} ms lost"
    if command == "repair":
        return f"repaired, {lost}"
    return f"damaged, {lost}" if found.losses else "unfinished, nothing lost"


def _run_one(command: str, path: Path, work: Callable[[Path, Progress], Inspection]) -> bool:
    bar = ProgressBar(sys.stderr, path.name, path.stat().st_size)
    try:
        found = work(path, bar)
    finally:
        bar.close()
    first, *others = _describe(found)
    sys.stdout.write(f"{path}: {_verdict(command, found)} ({first})\n")
    for line in others:
        sys.stdout.write(f"  {line}\n")
    return found.is_fine or command == "repair"


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rtmprelay.flv", description="Check FLV recordings, or repair them in place."
    )
    add_commands(parser.add_subparsers(dest="command", required=True))
    return parser


def add_commands(commands: Any) -> None:
    """Add `check` and `repair` to the commands of a parser."""
    for name, text in (
        ("check", "report what is wrong, and change nothing"),
        ("repair", "cut torn tails, remove damaged parts, rebuild the metadata and the keyframe index"),
    ):
        commands.add_parser(name, help=text, description=text).add_argument(
            "files", nargs="+", metavar="FILE", help="a recording"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; exit status 0 if all files are fine or were repaired, 1 otherwise."""
    options = make_parser().parse_args(arguments)
    return run(options.command, options.files)


def run(command: str, files: Sequence[str]) -> int:
    """Check or repair files; the exit status."""
    good = True
    for name in files:
        path = Path(name)
        try:
            good &= _run_one(command, path, repair if command == "repair" else inspect)
        except (OSError, RtmpRelayError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            sys.stderr.write(f"{path}: {reason}\n")
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
