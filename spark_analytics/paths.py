"""Paths as users write them: patterns like those of a shell, and whether a file that was not found is gone."""

from __future__ import annotations

import os
import re
from functools import lru_cache

from spark_analytics.flv.sources import is_uri

_WILD = re.compile(r"[*?\[]")


def is_pattern(text: str) -> bool:
    """Whether it may mean several files."""
    return _WILD.search(text) is not None


def fixed_part(pattern: str) -> str:
    """The folder that all matches are in."""
    found = _WILD.search(pattern)
    return pattern if found is None else pattern[: found.start()].rpartition("/")[0]


def matches(path: str, pattern: str) -> bool:
    """Whether a pattern means exactly this path."""
    return _compiled(pattern)[0].fullmatch(path) is not None


def covers(path: str, pattern: str) -> bool:
    """Whether a pattern means this path, or a folder that it is in."""
    return _compiled(pattern)[1].fullmatch(path) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    parts = pattern.split("/")
    # Folders, as many as there are, or none.
    pieces = [r"(?:[^/]+/)*" if part == "**" else f"{_translated(part)}/" for part in parts[:-1]]
    last = "[^/]+(?:/[^/]+)*" if parts[-1] == "**" else _translated(parts[-1])
    text = "".join([*pieces, last])
    return re.compile(text, re.DOTALL), re.compile(f"{text}(?:/.*)?", re.DOTALL)


def _translated(part: str) -> str:
    """One name in a path as a regular expression."""
    pieces: list[str] = []
    position = 0
    while position < len(part):
        sign = part[position]
        position += 1
        if sign == "*":
            pieces.append("[^/]*")
        elif sign == "?":
            pieces.append("[^/]")
        elif sign == "[" and (end := part.find("]", position + 1 + part.startswith("!", position))) > 0:
            chosen, position = part[position:end], end + 1
            pieces.append(_class_of(chosen))
        else:
            pieces.append(re.escape(sign))
    return "".join(pieces)


def _class_of(chosen: str) -> str:
    is_not = chosen.startswith("!")
    inside = re.sub(r"([\\^\[&~|])", r"\\\1", chosen[is_not:])
    if inside.startswith("]"):
        inside = "\\" + inside
    try:
        re.compile(f"[{inside}]")
    except re.error:
        # Such as `[z-a]`, which means nothing.
        return "(?!)"
    return f"[^/{inside}]" if is_not else f"[{inside}]"


def is_gone(path: str) -> bool:
    """Whether a file that was not found is not there, as far as this machine can tell: it may lie in a folder that cannot
    be looked into, or be called otherwise than such files are.
    """
    if is_uri(path):
        return True
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
