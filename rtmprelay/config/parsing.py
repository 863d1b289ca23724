"""How options are read: from the command line and a settings file, with errors that say where and what to do."""

from __future__ import annotations

import getopt
import re
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from twisted.python.usage import Options, UsageError
from typing_extensions import override

from rtmprelay.config.help import grouped_help
from rtmprelay.config.settings_file import KnownOptions, SettingsFile, read_settings_file, suggestion
from rtmprelay.errors import ConfigError

#: Options that make no sense in a settings file; limits have a table there.
_NOT_IN_A_FILE = frozenset(
    {"config", "check-destinations", "help", "help-limits", "help-plugins", "limit", "version"}
)

#: More are not told at once.
_MOST_MISTAKES = 20

#: How errors say which of the values of a repeated option is wrong.
_NUMBER = re.compile(r"\(number (\d+)\)")

#: Of options that are Twisted's own.
_HELP = {"help": "Print this, and exit.", "version": "Print the version, and exit."}

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

    #: What the help says before the options.
    longdesc: ClassVar[str] = ""

    #: The options that may change while the server runs.
    changeable: ClassVar[Sequence[str]] = ()

    #: What the settings file says, if there is one.
    settings_file: SettingsFile | None = None

    #: Whether plugins are made; not when a file that has changed is only examined.
    makes_plugins = True

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
            raise SystemExit("\n".join(self.mistakes(given, error)))

    @override
    def getUsage(self, width: int | None = None) -> str:
        """The help, in groups. Twisted's own lists the options by the alphabet."""
        texts = {
            name: " ".join(str(self.docs.get(name) or _HELP[name]).split())
            for long in self.longOpt
            for name in [long.rstrip("=")]
        }
        columns = width or shutil.get_terminal_size().columns
        description = "\n".join(textwrap.wrap(self.longdesc, columns))
        return "\n".join([description, "", *grouped_help(texts, self.defaults, self.command, columns)])

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

    def reread_settings_file(self) -> tuple[list[str], list[str]]:
        """Read the settings file again. The result names the options that were changed, and those that need a restart.

        Raises:
            ConfigError: With a line for each mistake in it; then what was read before stays.
        """
        newer = self.read_settings_file(self._arguments)
        if newer is None or self.settings_file is None:
            return [], []
        fresh = type(self)()
        fresh.makes_plugins = False
        fresh.settings_file = newer
        error = fresh._parse(self._arguments)
        if error is not None:
            raise ConfigError("\n".join(fresh.mistakes(self._arguments, error)))
        changed = self.settings_file.changed_options(newer)
        applied = [option for option in changed if option in self.changeable]
        for option in applied:
            self[option] = fresh[option]
        self.settings_file = self.settings_file.updated(newer, self.changeable)
        decided = self.given(self._arguments)
        return (
            [option for option in applied if option not in decided],
            [option for option in changed if option not in applied and option not in decided],
        )

    def all_given(self) -> set[str]:
        """The names of the options on the command line and in the settings file."""
        settings = self.settings_file.settings if self.settings_file is not None else ()
        return self.given(self._arguments) | {one.option for one in settings}

    def given(self, arguments: Sequence[str]) -> set[str]:
        """The names of the options on the command line."""
        return {name.lstrip("-") for name, _ in self._named(arguments)}

    def known_options(self) -> KnownOptions:
        """The options that a settings file may have."""
        flags = {name for name in self.longOpt if not name.endswith("=")} - _NOT_IN_A_FILE
        others = {name.rstrip("=") for name in self.longOpt} - flags - _NOT_IN_A_FILE
        repeatable = others & set(self.repeatable)
        return KnownOptions(frozenset(flags), frozenset(others - repeatable), frozenset(repeatable))

    def mistakes(self, given: Sequence[str], first: UsageError) -> list[str]:
        """A line for each mistake: what is wrong is left out, one by one, until nothing is.

        What is missing only because it was wrong, and has been left out, is no mistake of its own.
        """
        of_file: list[str] = []
        of_line: list[str] = []
        left_out: Counter[str] = Counter()
        words = list(given)
        settings = self.settings_file
        error: UsageError | None = first
        while error is not None and len(of_file) + len(of_line) < _MOST_MISTAKES:
            text = str(error)
            setting = None if settings is None else settings.named_in(text)
            fewer = self._without_mistake(words, text)
            about, *others = re.findall(r"--[\w-]+", text) or [""]
            follows = any(left_out[other] for other in others)
            if setting is not None and settings is not None and (fewer is None or not _names(text, words)):
                if not follows:
                    of_file.append(f"rtmprelay: {settings.path}, line {setting.line}: {text}")
                settings = settings.without(setting)
            else:
                if not follows:
                    of_line.append(f"rtmprelay: {_counted_from(text, left_out[about])}{self._hint(text)}")
                if fewer is None:
                    break
                words = fewer
            left_out[about] += 1
            without = type(self)()
            without.makes_plugins = self.makes_plugins
            without.settings_file = settings
            error = without._parse(words)
        if of_line:
            of_line[-1] += f" (see {self.command} --help)"
        return of_file + of_line

    def _without_mistake(self, words: list[str], error: str) -> list[str] | None:
        """The words of the command line without the one that an error is about; None if that is not known."""
        unknown = re.match(r"option (--?[\w-]+) (?:not recognized|requires argument|must not have)", error)
        if unknown is not None:
            for number, word in enumerate(words):
                if word.partition("=")[0] == unknown[1] or word[:2] == unknown[1]:
                    has_value = words[number + 1 : number + 2] and not words[number + 1].startswith("-")
                    return words[:number] + words[number + (2 if has_value and "=" not in word else 1) :]
            return None
        named = self._named(words)
        about = [pair for pair in named if _is_about(error, pair[0])]
        # Of several values of one option the message quotes the bad one, or gives its number.
        wrong = next((pair for pair in about if pair[1] and pair[1] in error), None)
        number_of = _NUMBER.search(error)
        if wrong is None and number_of is not None and int(number_of[1]) <= len(about):
            wrong = about[int(number_of[1]) - 1]
        wrong = wrong or next(iter(about), None)
        if wrong is None:
            return None
        position = next(number for number, pair in enumerate(named) if pair is wrong)
        kept = named[:position] + named[position + 1 :]
        takes_value = {one.rstrip("=") for one in self.longOpt if one.endswith("=")}
        return [word for name, value in kept for word in _words(name, value, name.lstrip("-") in takes_value)]

    def _hint(self, error: str) -> str:
        """What the operator may have meant by an option that does not exist."""
        if error == "Wrong number of arguments.":
            return " Everything is said with options: their names begin with --"
        unknown = re.fullmatch(r"option (--?)([\w-]+) not recognized", error)
        if unknown is None:
            return ""
        dashes, name = unknown.groups()
        if dashes == "-" and self.command.startswith("twistd"):
            return ": options of twistd itself, such as -n, stand before the word rtmprelay"
        if dashes == "-":
            return ": there are no short options, and it runs in the foreground anyway"
        if name in _OTHER_NAMES:
            return f"; did you mean --{_OTHER_NAMES[name]}?"
        return suggestion(name, [one.rstrip("=") for one in self.longOpt], "--")


def _counted_from(error: str, left_out: int) -> str:
    """The number of a wrong value as it was typed: the wrong ones before it have been left out."""
    return _NUMBER.sub(lambda number: f"(number {int(number[1]) + left_out})", error)


def _is_about(error: str, option: str) -> bool:
    """Whether the first option that an error names is this one."""
    named = re.search(r"--[\w-]+", error)
    return named is not None and named[0] == option


def _names(error: str, words: Sequence[str]) -> bool:
    """Whether the option that an error is about is on the command line."""
    return any(_is_about(error, word.partition("=")[0]) for word in words)


def _words(name: str, value: str, takes_value: bool) -> list[str]:
    return [name, value] if takes_value else [name]
