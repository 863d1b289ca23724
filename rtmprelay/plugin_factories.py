"""Factories for plugins that are cheap to list: what they make is imported when it is made, and not before.

A module in `rtmprelay_plugins` that needs a library which is not there would vanish as a whole. One that has only
these in it does not; the error comes when somebody wants the plugin, and says what is missing.
"""

from __future__ import annotations

import importlib
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
