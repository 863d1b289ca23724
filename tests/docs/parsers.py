"""Commands of the pages, read by the parsers that they are for."""

from __future__ import annotations

import argparse
import configparser
import importlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from twisted.python.usage import Options as UsageOptions
from twisted.scripts._twistd_unix import ServerOptions

from rtmprelay.cli.main import SERVER_OPTIONS
from rtmprelay.config.options import Options
from tests.docs.pages import DOCS, ROOT

EXAMPLES = DOCS / "examples"

#: Programs with a parser of argparse: where it is made.
ARGPARSE = {
    "rtmprelay": ("rtmprelay.cli.main", "make_parser"),
    "rtmprelay.flv": ("rtmprelay.flv.__main__", "make_parser"),
    "spark_analytics": ("spark_analytics.__main__", "make_parser"),
    "rtmprelay.bench": ("rtmprelay.bench.__main__", "_parser"),
}

#: Modules that are run with words of their own, which are not ours to check.
OTHER_MODULES = frozenset({"venv", "build"})

#: What those who change the project run; it comes with an extra, and .ci/run runs it.
DEVELOPER_TOOLS = {
    "pytest": "test",
    "ruff": "test",
    "mypy": "test",
    "trial": "twisted",
    "sphinx-build": "docs",
    "towncrier": "docs",
    "twine": "docs",
}


class UnreadableError(AssertionError):
    """The program would refuse this."""


def setup_cfg() -> configparser.ConfigParser:
    """The metadata of this package."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config


# -- whole commands ------------------------------------------------------------------------------------------


def read_twistd(words: Sequence[str]) -> None:
    """Let twistd read its options, and then ours, which looks at files and makes plugins; nothing is started."""
    # There is no user of that name here.
    known = ["0" if before in {"--uid", "--gid"} else word for before, word in pairwise(words)]
    try:
        ServerOptions().parseOptions(known)
    except SystemExit as end:
        if end.code not in (0, None):
            raise UnreadableError(f"{' '.join(words)}: {end.code}") from end


def read_options(words: Sequence[str]) -> None:
    """Let `twistd rtmprelay` read these options."""
    read_twistd(["twistd", "-n", "rtmprelay", *words])


def read_rtmprelay(words: Sequence[str]) -> None:
    """`rtmprelay COMMAND`: the parser of the command reads the rest. The settings file need not be there."""
    known = [word for word in words[1:] if word != "--config" and not word.endswith(".toml")]
    if known[0] in SERVER_OPTIONS:
        read_options(known[1:])
    else:
        read_argparse("rtmprelay", known)


def read_argparse(module: str, words: Sequence[str]) -> None:
    """Let a program of ours read its words."""
    where, name = ARGPARSE[module]
    parser: argparse.ArgumentParser = getattr(importlib.import_module(where), name)()
    try:
        parser.parse_args(list(words))
    except SystemExit as end:
        if end.code not in (0, None):
            raise UnreadableError(f"python -m {module} {' '.join(words)}") from end


def read_python(words: Sequence[str]) -> None:
    """`python -m MODULE`: its parser reads the rest. `python -c PROGRAM` is run."""
    kind, what, *rest = words[1:]
    if kind == "-c":
        done = subprocess.run([sys.executable, "-c", what], capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr.decode()
    elif what in ARGPARSE:
        read_argparse(what, rest)
    elif what == "rtmprelay.access.authorizers.hash_key":
        assert not rest, "it takes no arguments"
    elif what.startswith("tests."):
        assert importlib.util.find_spec(what) is not None
    else:
        assert what in OTHER_MODULES, what


def read_pip(words: Sequence[str]) -> None:
    """What is installed is this package, with extras that it has, or something that an extra brings."""
    config = setup_cfg()
    extras = config["options.extras_require"]
    assert words[1] == "install"
    for word in words[2:]:
        if word.startswith("-"):
            continue
        name, _, wanted = word.rstrip("]").partition("[")
        for extra in filter(None, wanted.split(",")):
            assert extra in extras, f"there is no extra {extra}"
        known = {".", "rtmprelay"} | set(re.findall(r"^[\w-]+", "\n".join(extras.values()), re.MULTILINE))
        assert name in known, f"{word}: nothing here asks for it"


def read_docker(words: Sequence[str]) -> None:
    """Structural, as there may be no daemon: files and ports are those of the Dockerfile, and our options are read."""
    if words[1] == "build":
        assert (ROOT / words[words.index("-f") + 1]).is_file()
        return
    assert words[1] in {"run", "stop", "kill"}
    dockerfile = (EXAMPLES / "Dockerfile").read_text()
    exposed = re.search(r"^EXPOSE (.*)$", dockerfile, re.MULTILINE)
    assert exposed is not None
    for number, word in enumerate(words):
        if word == "-p":
            assert words[number + 1].rpartition(":")[2] in exposed[1].split()
    if words[1] == "run":
        read_options(words[words.index("rtmprelay") + 1 :])


def read_spark_submit(words: Sequence[str]) -> None:
    """Structural: what is submitted is our program, and it reads the words after it."""
    place = next(number for number, word in enumerate(words) if word.endswith("spark_analytics/__main__.py"))
    assert {"--master", "--py-files"} <= set(words[:place])
    read_argparse("spark_analytics", words[place + 1 :])


def read_systemctl(words: Sequence[str]) -> None:
    """Structural: the units are those that the pages offer."""
    for word in words[2:]:
        unit = word if "." in word else f"{word}.service"
        # An instance has the unit of its template.
        unit = re.sub(r"@\d+\.", "@.", unit)
        assert word.startswith("--") or (EXAMPLES / unit).is_file(), word


def read_copy(words: Sequence[str]) -> None:
    """`cp` and `install`: what is copied is in the project, or is the relay configuration of the page before."""
    for word in [word for word in words[1:-1] if "/" in word and not word.startswith("-")]:
        stem, brace, endings = word.partition("{")
        names = [stem + ending for ending in endings.rstrip("}").split(",")] if brace else [word]
        assert all((ROOT / name).exists() for name in names), word


def read_developer_tool(words: Sequence[str]) -> None:
    """It comes with the extra that the page before it installs."""
    tool = words[0].rpartition("/")[2]
    extra = DEVELOPER_TOOLS[tool]
    if extra != "twisted":
        package = {"sphinx-build": "sphinx"}.get(tool, tool)
        assert re.search(rf"^{package}\b", setup_cfg()["options.extras_require"][extra], re.MULTILINE), tool


def read_script(words: Sequence[str]) -> None:
    """A script of the project: it is there, may be run, and bash understands it."""
    script = ROOT / words[0]
    assert os.access(script, os.X_OK), words[0]
    subprocess.run(["bash", "-n", str(script)], check=True)


def read_apt(words: Sequence[str]) -> None:
    """The packages are those that .ci/run installs."""
    step = (ROOT / ".ci" / "run").read_text()
    for word in words[2:]:
        assert word.startswith("-") or word in step, word


# -- options by name -----------------------------------------------------------------------------------------


def check_option_names(words: Sequence[str]) -> None:
    """Of a command that is only sketched (`[--out DIR]`, `...`): there are such options, and such a command."""
    known = _known_options(words)
    named = {match[0] for word in words for match in re.finditer(r"(?<![\w-])--[a-z][a-z0-9-]*", word)}
    for option in sorted(named):
        # `--segment-...` stands for some of them.
        assert option in known or any(name.startswith(option) for name in known if option.endswith("-")), (
            f"{' '.join(words)}: there is no {option}"
        )


def _known_options(words: Sequence[str]) -> set[str]:
    program = words[0].rpartition("/")[2]
    if program in {"twistd", "twist"}:
        return _twisted_options(ServerOptions()) | _twisted_options(Options())
    if program in {"python", "python3"} and words[1] == "-m":
        return _argparse_options(words[2], words[3:])
    # Other people's programs: their options are theirs.
    return {match[0] for word in words for match in re.finditer(r"--[a-z][a-z0-9-]*", word)}


def _twisted_options(options: UsageOptions) -> set[str]:
    return {f"--{name.rstrip('=')}" for name in options.longOpt}


def _argparse_options(module: str, words: Sequence[str]) -> set[str]:
    if module not in ARGPARSE:
        assert importlib.util.find_spec(module) is not None, module
        return set()
    where, name = ARGPARSE[module]
    parser: Any = getattr(importlib.import_module(where), name)()
    choices = next((action.choices for action in parser._actions if isinstance(action.choices, dict)), {})
    if words and words[0] in choices:
        parser = choices[words[0]]
    elif words and choices and re.fullmatch(r"[a-z]+", words[0]):
        raise UnreadableError(f"python -m {module} has no command {words[0]}")
    return {option for action in parser._actions for option in action.option_strings}


Reader = Callable[[Sequence[str]], None]


def fine(_words: Sequence[str]) -> None:
    """A tool of the system, in a place where there is nothing of ours to check."""


def file_names(folder: Path) -> dict[str, str]:
    """Where the files and folders of an administrator are in these tests."""
    return {f"{place}/": f"{folder}{place}/" for place in ("/etc", "/var", "/run", "/usr/local", "/mnt")}
