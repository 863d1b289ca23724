"""Finds the plugins in `rtmprelay_plugins` and makes those that `--auth` and `--hook` name."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, Protocol

from twisted.plugin import getPlugins
from twisted.python.modules import getModule
from zope.interface import Interface

import rtmprelay_plugins
from rtmprelay.config.settings_file import suggestion
from rtmprelay.errors import ConfigError
from rtmprelay.interfaces import (
    IEventSink,
    IEventSinkFactory,
    IStreamAuthorizer,
    IStreamAuthorizerFactory,
)


class PluginFactory(Protocol):
    """What `IStreamAuthorizerFactory` and `IEventSinkFactory` have in common."""

    name: str
    help: str
    argument_format: str

    def make(self, argument: str, reactor: object) -> Any: ...


def _factories(interface: type[Interface]) -> dict[str, PluginFactory]:
    """All factories of a kind by name. If two have the same name, the first one on Python's path counts."""
    found: dict[str, PluginFactory] = {}
    plugins: Iterable[Any] = getPlugins(interface, rtmprelay_plugins)
    for factory in plugins:
        found.setdefault(factory.name, factory)
    return found


def _make(specification: str, interface: type[Interface], reactor: object) -> Any:
    name, _, argument = specification.partition(":")
    factories = _factories(interface)
    factory = factories.get(name)
    if factory is None:
        known = ", ".join(sorted(factories)) or "none"
        if name in ("http", "https"):
            raise ConfigError(f"write http:{specification}: the name of the plugin comes before its argument")
        broken = "".join(f"; {one}" for one in broken_modules())
        raise ConfigError(
            f"unknown plugin {name!r}{suggestion(name, [*factories])}; known plugins: {known} (see --help-plugins){broken}"
        )
    try:
        return factory.make(argument, reactor)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def make_authorizer(specification: str, reactor: object) -> IStreamAuthorizer:
    """The authorizer for `NAME:ARGUMENT`."""
    made: IStreamAuthorizer = _make(specification, IStreamAuthorizerFactory, reactor)
    return made


def make_event_sink(specification: str, reactor: object) -> IEventSink:
    """The event sink for `NAME:ARGUMENT`."""
    made: IEventSink = _make(specification, IEventSinkFactory, reactor)
    return made


def plugins_help() -> str:
    """All plugins with their arguments, and the modules that cannot be imported, as text."""
    lines = ["Authorizers, for --auth:", *_lines(_factories(IStreamAuthorizerFactory).values())]
    lines += ["", "Event sinks, for --hook:", *_lines(_factories(IEventSinkFactory).values())]
    broken = broken_modules()
    if broken:
        lines += ["", "Modules that cannot be used:", *(f"  {one}" for one in broken)]
    return "\n".join(lines) + "\n"


def broken_modules() -> list[str]:
    """The modules of `rtmprelay_plugins` that cannot be imported, with the reason: Twisted skips them silently."""
    broken = []
    for module in getModule(rtmprelay_plugins.__name__).iterModules():
        try:
            importlib.import_module(module.name)
        except Exception as error:
            broken.append(f"{module.name} cannot be imported: {type(error).__name__}: {error}")
    return sorted(broken)


def _lines(factories: Iterable[PluginFactory]) -> list[str]:
    lines = []
    for factory in sorted(factories, key=lambda one: one.name):
        lines.append(f"  {factory.name}:{factory.argument_format}")
        lines.append(f"      {factory.help}")
    return lines or ["  none"]
