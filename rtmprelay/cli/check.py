"""`rtmprelay check`: every setting with its value and where that is from; then every destination is tried out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from rtmprelay.config.options import Options
from rtmprelay.config.relay import DEFAULT_LISTEN
from rtmprelay.tap import try_destinations
from rtmprelay.web.settings import TOKEN_VARIABLE

#: Options whose values may hold secrets; `-` is shown instead.
_SECRET = frozenset({"http-token", "http-read-token"})

#: Their values are the name of a plugin, and an argument that may hold secrets.
_PLUGINS = frozenset({"auth", "hook"})


class CheckOptions(Options):
    command = "rtmprelay check"
    synopsis = f"Usage: rtmprelay check {Options.synopsis}"


def run(arguments: Sequence[str]) -> int:
    """Print the settings and try the destinations; 1 if one of them does not work."""
    options = CheckOptions()
    options.parseOptions([*arguments])
    rows = [*_rows(options, arguments)]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for option, value, origin in rows:
        sys.stdout.write(f"{option:{widths[0]}}  {value:{widths[1]}}  {origin}\n")
    destinations = options["config"].destinations
    if not any(destination.enabled for destination in destinations):
        sys.stdout.write("\nThere are no enabled destinations to try.\n")
        return 0
    sys.stdout.write("\n")
    sys.stdout.flush()
    try_destinations(destinations)


def _rows(options: Options, arguments: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Option, value and origin: the command line decides over the file, and the file over the default."""
    given = options.given(arguments)
    settings = options.settings_file
    lines = {one.option: one.line for one in settings.settings} if settings else {}
    for option in options.known_options():
        values = [value for value in _as_list(options[option]) if value not in (None, "", 0)]
        if option == "listen" and not values:
            values = [DEFAULT_LISTEN]
        if option in given:
            origin = "command line"
        elif (
            option == "http-token" and options["http-status"] and not values and TOKEN_VARIABLE in os.environ
        ):
            values, origin = ["environment"], f"{TOKEN_VARIABLE} in the environment"
        elif option in lines and settings is not None:
            origin = f"{settings.path}, line {lines[option]}"
        else:
            origin = "default"
        yield option, ", ".join(_shown(option, value) for value in values) or "-", origin
    yield from _limits(options)
    yield from _destinations(options)


def _limits(options: Options) -> Iterator[tuple[str, str, str]]:
    """The limits that were changed; `serve --help-limits` lists all."""
    settings = options.settings_file
    of_file = [one for one in settings.settings if one.option == "limit"] if settings is not None else []
    lines = {one.value: one.line for one in of_file}
    for limit in options["limit"]:
        name, _, value = limit.partition("=")
        where = f"{settings.path}, line {lines[limit]}" if settings and limit in lines else "command line"
        yield f"limit {name}", value, where


def _destinations(options: Options) -> Iterator[tuple[str, str, str]]:
    settings = options.settings_file
    destinations = options["config"].destinations
    # That is the order in which they are read.
    of_file = len(settings.destinations) if settings is not None else 0
    of_options = len(destinations) - len(options["relay-to"])
    for number, destination in enumerate(destinations):
        origin = str(options["relay-config"])
        if settings is not None and number < of_file:
            origin = str(settings.path)
        elif number >= of_options:
            origin = "relay-to"
        state = "" if destination.enabled else " (disabled)"
        yield f"destination {destination.name}", f"{destination.url}{state}", origin


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _shown(option: str, value: Any) -> str:
    if option in _SECRET and not str(value).startswith("file:"):
        return "(set, not shown)"
    if option in _PLUGINS:
        return f"{str(value).partition(':')[0]}:..."
    if option == "pull":
        glob, _, url = str(value).partition("=")
        return f"{glob}={_without_key(url)}"
    if option == "cluster" and "://" in str(value):
        return _without_user(str(value))
    if option == "relay-to":
        return _without_key(str(value))
    return "yes" if value is True or (value == 1 and option != "chunk-size") else str(value)


def _without_user(url: str) -> str:
    """An address without the user and the password in it."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _without_key(url: str) -> str:
    """The address of a destination up to the application."""
    scheme, _, rest = url.partition("://")
    host, _, path = rest.rpartition("@")[2].partition("/")
    return f"{scheme}://{host}/{path.partition('/')[0]}/..."
