"""How options are read: from the command line and a settings file, with errors that say where and what to do."""

from __future__ import annotations

import getopt
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import attrs
from twisted.python.usage import Options, UsageError
from typing_extensions import override

from rtmprelay.config.settings_file import KnownOptions, SettingsFile, read_settings_file, suggestion
from rtmprelay.errors import ConfigError

#: Options that make no sense in a settings file; limits have a table there.
_NOT_IN_A_FILE = frozenset(
    {"config", "check-destinations", "help", "help-limits", "help-plugins", "limit", "version"}
)

#: What people try, and what it is called here.
_OTHER_NAMES = {
    "bind": "listen",
    "destination": "relay-to",
    "output": "record-dir",
    "port": "listen",
    "push": "relay-to",
    "token": "http-token",
}


class OptionsOrFile(Options):
    """Options that may also stand in the file that `--config` names."""

    #: What error messages name.
    command = "twistd rtmprelay"

    #: The options that may be given several times.
    repeatable: ClassVar[Sequence[str]] = ()

    #: What the settings file says, if there is one.
    settings_file: SettingsFile | None = None

    _arguments: Sequence[str] = ()

    def __init__(self) -> None:
        super().__init__()
        for name in self.repeatable:
            self[name] = []

    def opt_config(self, path: str) -> None:
        """A TOML file in which every option has its own name; the command line decides over it. SIGHUP reads it again."""

    @override
    def parseOptions(self, options: list[str] | None = None) -> None:
        """Parse the options. Bad ones end the program with a line for each, not with the whole help text."""
        given = list(sys.argv[1:] if options is None else options)
        self._arguments = given
        try:
            self.settings_file = self.read_settings_file(given)
        except ConfigError as mistakes:
            raise SystemExit("\n".join(f"rtmprelay: {line}" for line in str(mistakes).splitlines())) from None
        error = self._parse(given)
        if error is not None:
            raise SystemExit("\n".join(self._mistakes(given, error)))

    def _parse(self, given: Sequence[str]) -> UsageError | None:
        settings = self.settings_file
        try:
            super().parseOptions([*(settings.arguments(self.given(given)) if settings else ()), *given])
        except UsageError as error:
            return error
        return None

    def _named(self, given: Sequence[str]) -> list[tuple[str, str]]:
        """The options on the command line; what is wrong with them is found when they are parsed."""
        try:
            return getopt.getopt([*given], self.shortOpt, self.longOpt)[0]
        except getopt.GetoptError:
            return []

    def read_settings_file(self, given: Sequence[str]) -> SettingsFile | None:
        """The settings file that the command line names.

        Raises:
            ConfigError: With a line for each mistake in it.
        """
        paths = [path for name, path in self._named(given) if name == "--config"]
        return read_settings_file(Path(paths[-1]), self.known_options()) if paths else None

    def reread_settings_file(self) -> list[str]:
        """Read the settings file again; the options that have changed since the start.

        Raises:
            ConfigError: With a line for each mistake in it; then what was read before stays.
        """
        newer = self.read_settings_file(self._arguments)
        if newer is None or self.settings_file is None:
            return []
        changed = self.settings_file.changed_options(newer)
        # Only destinations can change while the server runs: the other settings stay those of the start.
        self.settings_file = attrs.evolve(self.settings_file, destinations=newer.destinations)
        return changed

    def given(self, arguments: Sequence[str]) -> set[str]:
        """The names of the options on the command line."""
        return {name.lstrip("-") for name, _ in self._named(arguments)}

    def known_options(self) -> KnownOptions:
        """The options that a settings file may have."""
        flags = {name for name in self.longOpt if not name.endswith("=")} - _NOT_IN_A_FILE
        others = {name.rstrip("=") for name in self.longOpt} - flags - _NOT_IN_A_FILE
        repeatable = others & set(self.repeatable)
        return KnownOptions(frozenset(flags), frozenset(others - repeatable), frozenset(repeatable))

    def _mistakes(self, given: Sequence[str], first: UsageError) -> list[str]:
        """A line for each bad value: settings of the file are left out one by one until nothing is wrong."""
        lines = []
        error: UsageError | None = first
        settings = self.settings_file
        while error is not None:
            setting = None if settings is None else settings.named_in(str(error))
            if setting is None or settings is None:
                lines.append(f"rtmprelay: {error}{self._hint(str(error))} (see {self.command} --help)")
                break
            lines.append(f"rtmprelay: {settings.path}, line {setting.line}: {error}")
            settings = settings.without(setting)
            without = type(self)()
            without.settings_file = settings
            error = without._parse(given)
        return lines

    def _hint(self, error: str) -> str:
        """What the operator may have meant by an option that does not exist."""
        unknown = re.fullmatch(r"option (--?)([\w-]+) not recognized", error)
        if unknown is None:
            return ""
        dashes, name = unknown.groups()
        if dashes == "-" and self.command.startswith("twistd"):
            return ": options of twistd itself, such as -n, stand before the word rtmprelay"
        if name in _OTHER_NAMES:
            return f"; did you mean '{_OTHER_NAMES[name]}'?"
        return suggestion(name, [name.rstrip("=") for name in self.longOpt])
