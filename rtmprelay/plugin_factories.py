"""Factories for plugins that are cheap to list, and the arguments of plugins."""

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
    """Has what both kinds of factories have.

    Attributes:
        name: What the option calls it.
        help: What it does, in a line.
        argument_format: What the argument looks like.
        maker: Where the function is that makes it from the argument and the reactor, as `package.module:function`.
    """

    name: str
    help: str
    argument_format: str
    maker: str

    def make(self, argument: str, reactor: object) -> Any:
        """Make it."""
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
    """Options by name, as they were written."""

    _values: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """An option as it is; None if it was not given."""
        return self._values.get(name)

    def texts(self, name: str) -> list[str]:
        """The parts of an option that is a list, `a,b,c`."""
        return [part for part in self._values.get(name, "").split(",") if part]

    def number(self, name: str, default: float, least: float, most: float) -> float:
        """An option that is a number within bounds."""
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
        """An option that is a whole number within bounds."""
        text = self._values.get(name)
        if text is None:
            return default
        if not text.isdecimal() or not text.isascii() or len(text) > 9 or not least <= int(text) <= most:
            raise ConfigError(
                f"the option {name} is {text!r}: a whole number from {least} to {most} is expected"
            )
        return int(text)


def split_options(argument: str, known: Collection[str]) -> tuple[str, PluginOptions]:
    """The argument itself, and the options behind its `#`.

    Args:
        known: The names that there are.
    """
    argument, _, written = argument.partition("#")
    values: dict[str, str] = {}
    for part in written.split("&") if written else ():
        name, equals, value = part.partition("=")
        if name not in known:
            raise ConfigError(f"there is no option {name!r}: {', '.join(sorted(known))} are known")
        if not equals or not value:
            raise ConfigError(f"the option {name} has no value: {name}=VALUE is expected")
        if name in values:
            raise ConfigError(f"the option {name} is there twice")
        values[name] = value
    return argument, PluginOptions(values)
