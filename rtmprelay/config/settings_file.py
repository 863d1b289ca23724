"""The settings file of `--config`: TOML, in which each option has its own name, and limits and destinations a place.

    listen = [":1935"]
    record-all = true

    [limits]
    max_connections = 2000

    [[destinations]]
    name = "YouTube"
    url = "rtmps://a.rtmps.youtube.com/live2"
    stream_key = "${YOUTUBE_KEY}"

It becomes arguments in front of those of the command line, so the command line decides.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import attrs

from rtmprelay.destinations.config_file import parse_relay_config
from rtmprelay.destinations.settings import DestinationSettings, refuse_duplicates
from rtmprelay.errors import ConfigError
from rtmprelay.files.secret_file import read_text

_LIMITS = "limits"
_DESTINATIONS = "destinations"

_TABLE = re.compile(r"\s*\[{1,2}\s*([A-Za-z0-9_.\"-]+)\s*\]{1,2}\s*(?:#.*)?")
_ASSIGNMENT = re.compile(r"\s*\"?([A-Za-z0-9_-]+)\"?\s*=")


@attrs.frozen
class KnownOptions:
    """The names of the options, by what they take."""

    flags: frozenset[str]
    single: frozenset[str]
    repeatable: frozenset[str]

    def __contains__(self, name: object) -> bool:
        return name in self.flags or name in self.single or name in self.repeatable

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.flags | self.single | self.repeatable))


@attrs.frozen
class Setting:
    """One option of the file, as arguments of the command line."""

    option: str
    #: None for a flag.
    value: str | None
    line: int

    @property
    def arguments(self) -> tuple[str, ...]:
        name = f"--{self.option}"
        return (name,) if self.value is None else (name, self.value)

    def is_named_in(self, message: str) -> bool:
        """Whether the error message of an option is about this one."""
        if not re.search(rf"--{re.escape(self.option)}\b(?!-)", message):
            return False
        # All limits are one option: the message names the limit.
        return self.option != "limit" or (self.value or "").partition("=")[0] in message


@attrs.frozen
class SettingsFile:
    """What a settings file says."""

    path: Path
    settings: tuple[Setting, ...]
    destinations: tuple[DestinationSettings, ...]

    def arguments(self, given: Collection[str] = ()) -> list[str]:
        """The arguments, apart from the options that the command line gives itself."""
        return [word for one in self.settings if one.option not in given for word in one.arguments]

    def without(self, unwanted: Setting) -> SettingsFile:
        return attrs.evolve(self, settings=tuple(one for one in self.settings if one is not unwanted))

    def updated(self, newer: SettingsFile, options: Collection[str]) -> SettingsFile:
        """With the destinations of a newer version of the file, and with its values for these options."""
        kept = [one for one in self.settings if one.option not in options]
        new = [one for one in newer.settings if one.option in options]
        return attrs.evolve(self, settings=(*kept, *new), destinations=newer.destinations)

    def named_in(self, message: str) -> Setting | None:
        """The setting that an error message is about."""
        candidates = [one for one in self.settings if one.is_named_in(message)]
        # Of several values of one option the message quotes the bad one.
        quoting = [one for one in candidates if one.value is not None and one.value in message]
        return next(iter([*quoting, *candidates]), None)

    def changed_options(self, newer: SettingsFile) -> list[str]:
        """The options that have other values in a newer version of the file."""
        before, after = ({(one.option, one.value) for one in version.settings} for version in (self, newer))
        return sorted({option for option, _ in before ^ after})


def read_settings_file(path: Path, known: KnownOptions) -> SettingsFile:
    """Read a settings file. Whether the values suit their options is for the options to say.

    Raises:
        ConfigError: With a line for each mistake.
    """
    text = read_text(path)
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # Numbers of thousands of digits are no TOMLDecodeError.
        raise ConfigError(f"{path}: it is not valid TOML: {error}") from None
    return _Reader(path, text, known).read(document)


class _Reader:
    """Collects the settings of one file, and all that is wrong with it."""

    def __init__(self, path: Path, text: str, known: KnownOptions) -> None:
        self._path = path
        self._lines = _line_numbers(text)
        self._known = known
        self._settings: list[Setting] = []
        self._mistakes: list[str] = []

    def read(self, document: Mapping[str, Any]) -> SettingsFile:
        for name, value in document.items():
            if name == _LIMITS:
                self._read_limits(value)
            elif name != _DESTINATIONS:
                self._read_option(name, value)
        destinations = self._read_destinations(document.get(_DESTINATIONS, []))
        if self._mistakes:
            raise ConfigError("\n".join(self._mistakes))
        return SettingsFile(self._path, tuple(self._settings), tuple(destinations))

    def _mistake(self, line: int, text: str) -> None:
        self._mistakes.append(f"{self._path}, line {line}: {text}")

    def _read_option(self, name: str, value: object) -> None:
        line = self._lines.get(("", name), 1)
        known = self._known
        if name not in known:
            self._mistake(line, f"there is no option {name[:60]!r}{suggestion(name, [*known])}")
        elif name in known.flags:
            if not isinstance(value, bool):
                self._mistake(line, f"{name} is either true or false")
            elif value:
                self._settings.append(Setting(name, None, line))
        elif name in known.repeatable and isinstance(value, list):
            for one in value:
                self._add(name, one, line)
        else:
            self._add(name, value, line)

    def _read_limits(self, value: object) -> None:
        if not isinstance(value, dict):
            self._mistake(self._lines.get(("", _LIMITS), 1), f"{_LIMITS} is a table: write [{_LIMITS}]")
            return
        for name, limit in value.items():
            self._add("limit", limit, self._lines.get((_LIMITS, name), 1), prefix=f"{name}=")

    def _add(self, name: str, value: object, line: int, prefix: str = "") -> None:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            expected = (
                "text or a number, or a list of them"
                if name in self._known.repeatable
                else "text or a number"
            )
            self._mistake(line, f"{prefix.rstrip('=') or name} must be {expected}")
        else:
            self._settings.append(Setting(name, f"{prefix}{value}", line))

    def _read_destinations(self, entries: object) -> list[DestinationSettings]:
        if not isinstance(entries, list):
            self._mistake(
                self._lines.get(("", _DESTINATIONS), 1),
                f"{_DESTINATIONS} is a list of tables: write [[{_DESTINATIONS}]]",
            )
            return []
        found: list[DestinationSettings] = []
        for number, entry in enumerate(entries):
            table = f"{_DESTINATIONS}[{number}]"
            line = self._lines.get((table, ""), self._lines.get(("", _DESTINATIONS), 1))
            try:
                text = json.dumps({_DESTINATIONS: [entry]}, default=str)
                found += parse_relay_config(text, folder=self._path.parent)
                refuse_duplicates(found)
            except ConfigError as error:
                # Alone in a list of its own, the entry was number 0.
                for mistake in str(error).replace(f"{_DESTINATIONS}[0]", table).split("; "):
                    self._mistake(self._line_of_field(table, mistake, line), mistake)
        return found

    def _line_of_field(self, table: str, mistake: str, line: int) -> int:
        """The line of the field that a mistake names; else that of its table."""
        lines = [self._lines.get((table, word)) for word in re.findall(r"[a-z_]+", mistake)]
        return next((one for one in lines if one is not None), line)


def _line_numbers(text: str) -> dict[tuple[str, str], int]:
    """The line of each table and key; the tables of a list are `name[0]`, `name[1]` ..."""
    found: dict[tuple[str, str], int] = {}
    counts: Counter[str] = Counter()
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if (match := _TABLE.fullmatch(line)) is not None:
            table = match[1].strip('"')
            if line.lstrip().startswith("[["):
                counts[table] += 1
                table = f"{table}[{counts[table] - 1}]"
            found.setdefault((table, ""), number)
        elif (match := _ASSIGNMENT.match(line)) is not None:
            found.setdefault((table, match[1]), number)
    return found


def suggestion(name: str, known: Sequence[str], dashes: str = "") -> str:
    """The end of an error message about an unknown name: the nearest known one, if it is near."""
    near = get_close_matches(name, known, n=1, cutoff=0.7)
    if not near:
        return ""
    return f"; did you mean {dashes}{near[0]}?" if dashes else f"; did you mean {near[0]!r}?"
