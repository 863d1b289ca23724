"""Directives that write reference pages from the code, so that they cannot say anything else than it does.

`.. twistd-options::` has the options of `twistd rtmprelay`, `.. command-line:: MODULE:FUNCTION` those of an argparse
parser with its commands, `.. relay-fields::` the fields of a destination in the relay configuration, `.. limit-list::`
all limits, `.. event-list::` all events, `.. plugin-list::` what `--auth` and `--hook` know, `.. interface:: NAME` a
zope interface, and `.. unreleased::` what is in docs/newsfragments. Those of argparse are in `command_lines`, those of
fields and events in `fields`.
"""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import attrs
from command_lines import CommandLine
from directive import FromCode, comments_of, indented, plain, table
from docutils.parsers.rst import directives
from fields import EventList, PullFields, RelayFields
from sphinx.application import Sphinx
from twisted.plugin import getPlugins
from zope.interface import Interface
from zope.interface.interface import InterfaceClass, Method

import rtmprelay_plugins
from rtmprelay import __version__
from rtmprelay.config import relay as config
from rtmprelay.config.options import Options
from rtmprelay.interfaces import IEventSinkFactory, IStreamAuthorizerFactory

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
    """A value as an operator would write it after `--limit NAME=`."""
    if value is None:
        return "none"
    for unit, size in (("M", 1024 * 1024), ("K", 1024)):
        if isinstance(value, int) and value >= 16 * 1024 and value % size == 0:
            return f"{value // size}{unit}"
    return f"{value:g}" if isinstance(value, float) else str(value)


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
    """Put them back after napoleon."""
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
