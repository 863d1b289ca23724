"""Directives that write reference pages from the code, so that they cannot say anything else than it does.

`.. twistd-options::` has the options of `twistd rtmprelay`, `.. command-line:: MODULE:FUNCTION` those of an argparse
parser with its commands, `.. relay-fields::` the fields of a destination in the relay configuration, `.. limit-list::`
all limits, `.. event-list::` all events, `.. plugin-list::` what `--auth` and `--hook` know, `.. interface:: NAME` a
zope interface, and `.. unreleased::` what is in docs/newsfragments.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, get_args

import attrs
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective
from twisted.plugin import getPlugins
from zope.interface import Interface
from zope.interface.interface import InterfaceClass, Method

import rtmprelay_plugins
from rtmprelay import __version__, events
from rtmprelay.config import relay as config
from rtmprelay.config.options import Options
from rtmprelay.destinations import config_file
from rtmprelay.interfaces import IEventSinkFactory, IStreamAuthorizerFactory
from rtmprelay.pulls import config_file as pull_entries

#: What the options of `twistd rtmprelay` take; Twisted does not know it.
_VALUES = {
    "listen": "ENDPOINT",
    "chunk-size": "N",
    "config": "FILE",
    "merge-window": "TIME",
    "node-name": "NAME",
    "cluster": "ADDRESS",
    "node-url": "URL",
    "cluster-secret": "file:PATH",
    "cluster-when-lost": "ANSWER",
    "drain-for": "TIME",
    "relay-config": "FILE",
    "http-status": "ENDPOINT",
    "http-token": "TOKEN",
    "record-dir": "DIR",
    "segment-duration": "TIME",
    "segment-size": "SIZE",
    "keep-recordings": "TIME",
    "max-recordings-size": "SIZE",
    "event-log": "DIR",
    "event-log-size": "SIZE",
    "max-event-log-size": "SIZE",
    "keep-event-log": "TIME",
    "ban": "COUNT/TIME",
    "recheck": "TIME",
    "http-read-token": "TOKEN",
    "keep-free": "SIZE",
    "app-quota": "APP=SIZE",
    "log-level": "LEVEL",
    "log-format": "FORMAT",
    "auth": "PLUGIN:ARGUMENT",
    "hook": "PLUGIN:ARGUMENT",
    "limit": "NAME=VALUE",
    "relay-to": "URL",
    "pull": "GLOB=URL",
    "record": "GLOB",
    "http-cors": "ORIGIN",
    "trusted-proxy": "CIDR",
    "http-media": "ENDPOINT",
    "hls": "GLOB",
    "hls-part": "TIME",
    "hls-variants": "PATTERN",
    "hls-segment": "TIME",
    "hls-window": "TIME",
    "hls-dir": "DIR",
    "hls-sign-key": "file:PATH",
}


def indented(text: str) -> list[str]:
    """Lines as the content of a directive."""
    return [f"   {line}" if line else "" for line in inspect.cleandoc(text).splitlines()]


def plain(text: str) -> str:
    """Text of the code as it is: in the pages a star or a bar would begin something."""
    return re.sub(r"([*|:\\])", r"\\\1", text)


@functools.cache
def comments_of(module: str) -> dict[tuple[str, str], str]:
    """The `#:` comments of a module, by class and attribute."""
    found = ModuleAnalyzer.for_module(module).find_attr_docs()
    return {place: " ".join(lines).strip() for place, lines in found.items()}


def table(head: tuple[str, ...], rows: list[tuple[str, ...]], widths: str) -> Iterator[str]:
    """A table, row by row."""
    yield ".. list-table::"
    yield f"   :header-rows: 1\n   :widths: {widths}"
    for row in [head, *rows]:
        yield ""
        for number, cell in enumerate(row):
            yield f"   {'*' if number == 0 else ' '} - {cell}"
    yield ""


class FromCode(SphinxDirective):
    """A directive whose content is made from the code."""

    def lines(self) -> Iterator[str]:
        """The content, as reStructuredText."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Read what was made."""
        return self.parse_text_to_nodes("\n".join(self.lines()), allow_section_headings=True)


@attrs.frozen
class TwistdOption:
    """One option of `twistd rtmprelay`."""

    name: str
    takes: str | None
    text: str
    default: object = None


def twistd_options() -> list[TwistdOption]:
    """All options, in the order of the alphabet."""
    found = [
        TwistdOption(name, _VALUES.get(name, "VALUE"), text, default)
        for name, _short, default, text, *_ in Options.optParameters
    ]
    found += [TwistdOption(name, None, text) for name, _short, text in Options.optFlags]
    for attribute, method in inspect.getmembers(Options, inspect.isfunction):
        if attribute.startswith("opt_") and method.__module__.startswith("rtmprelay."):
            name = attribute.removeprefix("opt_").replace("_", "-")
            takes = len(inspect.signature(method).parameters) > 1
            found.append(
                TwistdOption(name, _VALUES.get(name, "VALUE") if takes else None, method.__doc__ or "")
            )
    return sorted(found, key=lambda option: option.name)


class TwistdOptions(FromCode):
    """What `twistd rtmprelay --help` says."""

    def lines(self) -> Iterator[str]:
        """Each option with its help and its default."""
        yield ".. program:: twistd rtmprelay"
        yield ""
        for option in twistd_options():
            yield f".. option:: --{option.name}" + (f" {option.takes}" if option.takes else "")
            yield ""
            yield from indented(plain(option.text))
            if option.default is not None:
                yield ""
                yield f"   Default: ``{option.default}``"
            yield ""


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


class RelayFields(FromCode):
    """What a destination in the relay configuration can say."""

    entry: type[attrs.AttrsInstance] = config_file._DestinationEntry

    def lines(self) -> Iterator[str]:
        """Each field with its type, its default and its meaning."""
        entry = self.entry
        meanings = comments_of(entry.__module__)
        rows = [
            (
                f"``{field.name}``",
                type_name(field).removesuffix(" or null"),
                default_of(field),
                meanings[entry.__name__, field.name],
            )
            for field in attrs.fields(entry)
        ]
        yield from table(("field", "type", "default", "meaning"), rows, "22 14 14 50")


class PullFields(RelayFields):
    """What a pull in the relay configuration can say."""

    entry = pull_entries._PullEntry


def default_of(field: attrs.Attribute[Any]) -> str:
    """What holds if the file does not say it, in JSON."""
    default = field.default
    if default is attrs.NOTHING:
        return "must be there"
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        default = default.factory()
    if isinstance(default, float):
        default = int(default) if default.is_integer() else default
    return "none" if default is None else f"``{json.dumps(default)}``"


#: Fields of a group of limits that are none.
NOT_LIMITS = {
    ("HttpSettings", "listen"),
    ("HttpSettings", "media_listen"),
    ("HttpSettings", "token"),
    ("HttpSettings", "read_token"),
    ("HttpSettings", "recordings"),
}


class LimitList(FromCode):
    """All limits that `--limit` knows."""

    def lines(self) -> Iterator[str]:
        """Each limit as `--limit` takes it, and what it bounds; first those of one connection."""
        whole = config.RelayConfig()
        groups = (
            whole.connection_limits,
            whole.admission_limits,
            whole.guess_limits,
            whole.stream_limits,
            whole.queue_limits,
            whole.memory_limits,
            whole.http,
            whole.hls_limits,
        )
        rows = []
        for group in groups:
            meanings = comments_of(type(group).__module__)
            for field in attrs.fields(type(group)):
                if not isinstance(getattr(group, field.name), int | float | None):
                    continue
                if (type(group).__name__, field.name) in NOT_LIMITS:
                    continue
                value = as_limit(getattr(group, field.name))
                rows.append((f"``{field.name}``", f"``{value}``", meanings[type(group).__name__, field.name]))
        alone = "max_publisher_kbps"
        meaning = comments_of(config.__name__)["RelayConfig", alone]
        rows.append((f"``{alone}``", f"``{as_limit(getattr(whole, alone))}``", meaning))
        yield from table(("name", "default", "what it bounds"), rows, "30 12 58")


def as_limit(value: float | None) -> str:
    """A value as an operator would write it behind `--limit NAME=`."""
    if value is None:
        return "none"
    for unit, size in (("M", 1024 * 1024), ("K", 1024)):
        if isinstance(value, int) and value >= 16 * 1024 and value % size == 0:
            return f"{value // size}{unit}"
    return f"{value:g}" if isinstance(value, float) else str(value)


class EventList(FromCode):
    """All events of `rtmprelay.events`."""

    def lines(self) -> Iterator[str]:
        """Each event with its meaning, its level, what the log says, and its fields."""
        groups = get_args(events.AnyEvent)
        for kind in [kind for group in groups for kind in events.event_types() if issubclass(kind, group)]:
            yield f"``{kind.name}``" + (" (warning)" if kind.level == "warn" else "")
            yield from indented(kind.__doc__ or "")
            yield ""
            # How numbers are rounded does not matter here.
            sentence = re.sub(r"\{(\w+)[^}]*\}", r"{\1}", kind.sentence)
            yield f"   The log says: *{plain(sentence)}*"
            yield ""
            for field in attrs.fields(kind):
                comment = event_field_comment(kind, field.name)
                yield f"   - ``{field.name}``: {type_name(field)}" + (f". {comment}" if comment else "")
            yield ""


def event_field_comment(kind: type[events.Event], field: str) -> str | None:
    """The `#:` comment of a field, which may be in the class of the event's group."""
    for owner in kind.__mro__:
        comment = comments_of(owner.__module__).get((owner.__name__, field)) if owner is not object else None
        if comment is not None:
            return comment
    return None


def type_name(field: attrs.Attribute[Any]) -> str:
    """The type of a field in JSON's words."""
    names = {
        "str": "text",
        "int": "whole number",
        "float": "number",
        "bool": "true or false",
        "None": "null",
        "list[str]": "list of text",
        "dict[str, Any]": "object",
    }
    parts = str(field.type).split(" | ")
    return " or ".join(names.get(part, f"``{part}``") for part in parts)


class PluginList(FromCode):
    """What `--auth` and `--hook` can be given."""

    def lines(self) -> Iterator[str]:
        """Each plugin with its argument and what it does."""
        for option, kind in (("--auth", IStreamAuthorizerFactory), ("--hook", IEventSinkFactory)):
            for plugin in sorted(getPlugins(kind, rtmprelay_plugins), key=lambda plugin: plugin.name):
                yield f"``{option} {plugin.name}:{plugin.argument_format}``".replace(":``", "``")
                yield from indented(plugin.help)
                yield ""


class InterfacePage(FromCode):
    """A zope interface: what it wants."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"no-index": directives.flag}

    def lines(self) -> Iterator[str]:
        """Its meaning, its attributes and its methods."""
        module, _, name = self.arguments[0].rpartition(".")
        interface: InterfaceClass = getattr(importlib.import_module(module), name)
        assert interface is not Interface
        yield f".. py:class:: {module}.{name}"
        yield ""
        yield from indented(interface.__doc__ or "")
        yield ""
        for member, description in interface.namesAndDescriptions():
            if isinstance(description, Method):
                yield f"   .. py:method:: {member}{description.getSignatureString()}"
            else:
                yield f"   .. py:attribute:: {member}"
            yield ""
            yield from (f"   {line}" if line else "" for line in indented(description.__doc__ or ""))
            yield ""


class Unreleased(FromCode):
    """What towncrier would write about the next version."""

    def lines(self) -> Iterator[str]:
        """The draft."""
        project = Path(__file__).parents[2]
        draft = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", __version__]
        made = subprocess.run(
            [*draft, "--date", "not released yet"], cwd=project, capture_output=True, text=True, check=True
        )
        yield from made.stdout.splitlines()


#: Stands for a colon where napoleon would take what is before one for a type.
_HIDDEN_COLON = "\ue000"


def hide_colons(
    _app: Sphinx, what: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    """Our attributes and properties have types of their own: a colon in what is said of them is just one."""
    if what in {"attribute", "property", "data"}:
        lines[:] = [line.replace(":", _HIDDEN_COLON) for line in lines]


def show_colons(
    _app: Sphinx, _what: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    """Behind napoleon, put them back."""
    lines[:] = [line.replace(_HIDDEN_COLON, ":") for line in lines]


def tidy_signature(
    _app: Sphinx,
    _what: str,
    _name: str,
    _object: object,
    _options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """attrs says NOTHING for a default that is made anew each time."""
    return (signature and signature.replace("= NOTHING", "= ...").replace("=NOTHING", "=..."), returns)


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the directives known."""
    app.add_directive("twistd-options", TwistdOptions)
    app.add_directive("command-line", CommandLine)
    app.add_directive("relay-fields", RelayFields)
    app.add_directive("pull-fields", PullFields)
    app.add_directive("limit-list", LimitList)
    app.add_directive("event-list", EventList)
    app.add_directive("plugin-list", PluginList)
    app.add_directive("interface", InterfacePage)
    app.add_directive("unreleased", Unreleased)
    app.connect("autodoc-process-signature", tidy_signature)
    # As a type an interface is known by its name, not as <InterfaceClass twisted.internet...>.
    InterfaceClass.__repr__ = lambda interface: interface.__name__  # type: ignore[method-assign]
    # Napoleon is called with priority 500.
    app.connect("autodoc-process-docstring", hide_colons, priority=400)
    app.connect("autodoc-process-docstring", show_colons, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
