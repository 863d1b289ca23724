"""The options of argparse programs, command by command."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator

from directive import FromCode, indented


class CommandLine(FromCode):
    """What the `--help` of an argparse program says, command by command."""

    required_arguments = 1

    def lines(self) -> Iterator[str]:
        """Each command with its options."""
        module, _, function = self.arguments[0].partition(":")
        parser: argparse.ArgumentParser = getattr(importlib.import_module(module), function)()
        for command, of_command in subparsers(parser).items():
            program = f"{parser.prog} {command}"
            yield f".. program:: {program}"
            yield ""
            yield f".. rubric:: {program}"
            yield ""
            yield of_command.description or ""
            yield ""
            yield from arguments_of(of_command)


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a program."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def arguments_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Each option of a command with its help."""
    for action in parser._actions:
        if set(action.option_strings) & {"-h", "--help"}:
            continue
        takes = (
            parser._get_formatter()._format_args(action, argument_name(action)) if action.nargs != 0 else ""
        )
        names = [f"{name} {takes}".strip() for name in action.option_strings] or [takes]
        yield f".. option:: {', '.join(names)}"
        yield ""
        help_text = (action.help or "") % {**vars(action), "prog": parser.prog}
        yield from indented((help_text[:1].upper() + help_text[1:] + ".") if help_text else "")
        yield ""


def argument_name(action: argparse.Action) -> str:
    """What stands for the value of an argument."""
    if action.choices:
        return "|".join(map(str, action.choices))
    if isinstance(action.metavar, str):
        return action.metavar
    return action.dest.upper()
