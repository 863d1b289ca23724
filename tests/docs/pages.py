"""The pages, and the commands and programs that they show."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

#: Directives of pages that show no code of others: what is made from the code, and what holds pages together.
HARMLESS_DIRECTIVES = frozenset(
    {"toctree", "image", "figure", "list-table", "note", "warning", "autoclass", "automodule"}
    | {
        "twistd-options",
        "command-line",
        "relay-fields",
        "pull-fields",
        "limit-list",
        "event-list",
        "plugin-list",
    }
    | {"interface", "unreleased"}
)

_DIRECTIVE = re.compile(r"^(?P<indent> *)\.\. (?P<name>[a-z-]+):: *(?P<argument>.*)$")
_OPTION = re.compile(r"^ *:(?P<name>[a-z-]+):(?: (?P<value>.*))?$")
_FENCE = re.compile(r"^ *```(?P<language>\S*)")
_INLINE = {".rst": re.compile(r"``([^`]+)``"), ".md": re.compile(r"(?<!`)`([^`]+)`(?!`)")}


@attrs.frozen
class Block:
    """A piece of a page that is to be typed, or kept in a file."""

    #: The page, from the project's folder on.
    page: str
    line: int
    #: What the page says that it is; empty if it does not say.
    language: str
    text: str
    #: The file that the page includes, if the block is one.
    file: Path | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """All pages, the README first."""
    found = [path for kind in ("rst", "md") for path in DOCS.rglob(f"*.{kind}")]
    return [ROOT / "README.md", *sorted(path for path in found if "_build" not in path.parts)]


@cache
def blocks() -> tuple[Block, ...]:
    """What all pages show."""
    return tuple(block for page in pages() for block in blocks_of(page, page.read_text()))


def blocks_of(page: Path, text: str) -> list[Block]:
    """What a page shows.

    Raises:
        ValueError: It has a directive that is not known here, and might show a command that no test sees.
    """
    reader = _in_markdown if page.suffix == ".md" else _in_rst
    return list(reader(page, text.splitlines()))


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name


def _in_markdown(page: Path, lines: list[str]) -> Iterator[Block]:
    begun: tuple[int, str] | None = None
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if begun is None:
            begun = (number, fence["language"])
        else:
            text = textwrap.dedent("\n".join(lines[begun[0] : number - 1]))
            yield Block(_name(page), begun[0], begun[1], text)
            begun = None


def _in_rst(page: Path, lines: list[str]) -> Iterator[Block]:
    for number, line in enumerate(lines, 1):
        directive = _DIRECTIVE.match(line)
        if directive is None:
            if line.rstrip().endswith("::") and not line.lstrip().startswith(".."):
                yield Block(_name(page), number, "", _below(lines, number, line)[1])
            continue
        options, text = _below(lines, number, line)
        if directive["name"] == "code-block":
            yield Block(_name(page), number, directive["argument"], text)
        elif directive["name"] == "literalinclude":
            file = (page.parent / directive["argument"]).resolve()
            yield Block(_name(page), number, options.get("language", ""), file.read_text(), file)
        elif directive["name"] not in HARMLESS_DIRECTIVES:
            raise ValueError(f"{_name(page)}:{number}: does {directive['name']!r} show code?")


def _below(lines: list[str], number: int, line: str) -> tuple[dict[str, str], str]:
    """The options and the indented content below a line."""
    indent = len(line) - len(line.lstrip())
    content: list[str] = []
    options: dict[str, str] = {}
    for below in lines[number:]:
        if below.strip() and len(below) - len(below.lstrip()) <= indent:
            break
        option = _OPTION.match(below)
        if option is not None and not any(map(str.strip, content)):
            options[option["name"]] = option["value"] or ""
        else:
            content.append(below)
    return options, textwrap.dedent("\n".join(content)).strip("\n")


# -- commands ------------------------------------------------------------------------------------------------


@attrs.frozen
class Command:
    """One command of a shell, word by word."""

    words: tuple[str, ...]
    #: As it is written, with what it is joined to by `&&` and where its output goes.
    line: str

    @property
    def program(self) -> str:
        """What is run, without the folder of a virtual environment."""
        return self.words[0].rpartition("/")[2] if "/bin/" in self.words[0] else self.words[0]


def shell_lines(text: str) -> list[str]:
    """What is typed, line by line; a line that ends with a backslash goes on in the next."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [
        line.strip() for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]


def commands_in(text: str) -> list[Command]:
    """The commands of a shell block."""
    return [command for line in shell_lines(text) for command in commands_of(line)]


def commands_of(line: str) -> Iterator[Command]:
    """The commands of one line."""
    splitter = shlex.shlex(line, posix=True, punctuation_chars="&;|>")
    splitter.whitespace_split = True
    words: list[str] = []
    redirected = False
    for word in [*splitter, ";"]:
        if redirected:
            redirected = False
        elif word == ">":
            redirected = True
        elif set(word) <= set("&;|"):
            if words:
                yield Command(tuple(words), line)
            words = []
        else:
            words.append(word)


def inline_commands(page: Path, programs: frozenset[str]) -> list[str]:
    """What stands in the text of a page and begins as a command does."""
    text = page.read_text()
    found = [" ".join(code.split()) for code in _INLINE[page.suffix].findall(text)]
    return [code for code in found if " " in code and code.split()[0] in programs]
