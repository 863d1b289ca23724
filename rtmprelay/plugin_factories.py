"""Factories of plugins, and the arguments that plugins take.

The factories are cheap to list: what they make is imported when it is made. A module in `rtmprelay_plugins` that
imports a library which is not installed cannot be listed at all. A module that contains only these factories can, and
the error comes when somebody uses the plugin.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Collection, Mapping
from typing import Any

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from rtmprelay.errors import ConfigError
from rtmprelay.interfaces import IEventSinkFactory, IStreamAuthorizerFactory


@attrs.frozen
class _LazyFactory:
    """What both kinds of factories have in common.

    Attributes:
        name: The plugin's name on the command line.
        help: One line that says what the plugin does.
        argument_format: What the argument looks like, such as PATH.
        maker: The function that makes the plugin from the argument and the reactor, as `package.module:function`.
    """

    name: str
    help: str
    argument_format: str
    maker: str

    def make(self, argument: str, reactor: object) -> Any:
        """Import the function and call it."""
        module, _, function = self.maker.partition(":")
        try:
            make = getattr(importlib.import_module(module), function)
        except ImportError as error:
            raise ConfigError(f"it cannot be used, because something is not installed: {error}") from error
        return make(argument, reactor)


@implementer(IPlugin, IStreamAuthorizerFactory)
class AuthorizerPlugin(_LazyFactory):
    """A plugin for `--auth`."""


@implementer(IPlugin, IEventSinkFactory)
class EventSinkPlugin(_LazyFactory):
    """A plugin for `--hook`."""


@attrs.frozen
class PluginOptions:
    """The options in the argument of a plugin, by name."""

    _values: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """An option as it was written; None if it was not given."""
        return self._values.get(name)

    def texts(self, name: str) -> list[str]:
        """The items of an option that is a list, `a,b,c`."""
        return [part for part in self._values.get(name, "").split(",") if part]

    def number(self, name: str, default: float, least: float, most: float) -> float:
        """An option that is a number from `least` to `most`."""
        text = self._values.get(name)
        if text is None:
            return default
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not least <= number <= most:
            raise ConfigError(
                f"the option {name} is {text!r}: a number from {least:g} to {most:g} is expected"
            )
        return number

    def count(self, name: str, default: int, least: int, most: int) -> int:
        """An option that is a whole number from `least` to `most`."""
        text = self._values.get(name)
        if text is None:
            return default
        if not text.isdecimal() or not text.isascii() or len(text) > 9 or not least <= int(text) <= most:
            raise ConfigError(
                f"the option {name} is {text!r}: a whole number from {least} to {most} is expected"
            )
        return int(text)


def split_options(argument: str, known: Collection[str]) -> tuple[str, PluginOptions]:
    """Split `ARGUMENT#name=value&name=value`.

    Args:
        known: The names of the options that the plugin has.
    """
    argument, _, written = argument.partition("#")
    values: dict[str, str] = {}
    for part in written.split("&") if written else ():
        name, equals, value = part.partition("=")
        if name not in known:
            raise ConfigError(f"unknown option {name!r}; known options: {', '.join(sorted(known))}")
        if not equals or not value:
            raise ConfigError(f"the option {name} has no value: {name}=VALUE is expected")
        if name in values:
            raise ConfigError(f"the option {name} is there twice")
        values[name] = value
    return argument, PluginOptions(values)
