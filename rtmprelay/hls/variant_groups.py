"""Streams that are published under several names and are one presentation, such as `live/*_{low,mid,high}`."""

from __future__ import annotations

import re
from posixpath import relpath
from urllib.parse import quote

import attrs

from rtmprelay.errors import ConfigError
from rtmprelay.quantities import quoted

_FORM = re.compile(r"(?P<head>[^{}]+)\{(?P<names>[^{}]+)\}(?P<tail>[^{}]*)")

#: What stands between the name of the group and that of the variant.
_SEPARATORS = "_-.~"

_MOST_VARIANTS = 16


@attrs.frozen
class VariantGroup:
    """A pattern: `head` with at most one star, then one of several names, then `tail`."""

    head: str
    names: tuple[str, ...]
    tail: str

    @classmethod
    def read(cls, text: str) -> VariantGroup:
        """Read what an operator wrote.

        Raises:
            ConfigError: It is no such pattern.
        """
        match = _FORM.fullmatch(text)
        names = tuple(name.strip() for name in match["names"].split(",")) if match else ()
        is_usable = match is not None and all(names) and len(set(names)) == len(names) >= 2
        if match is None or not is_usable or text.count("*") > 1 or "*" in match["names"] + match["tail"]:
            raise ConfigError(
                f"{quoted(text)} is not a group of variants such as live/*_{{low,mid,high}}: a star, and the names in braces"
            )
        if len(names) > _MOST_VARIANTS:
            raise ConfigError(f"{quoted(text)} has more than {_MOST_VARIANTS} variants")
        return cls(match["head"], names, match["tail"])

    def name_of(self, key: str) -> str | None:
        """The group that a stream belongs to; None if it is in none."""
        for name in self.names:
            pattern = re.escape(self.head).replace(r"\*", "([^/]+)", 1) + re.escape(name + self.tail)
            match = re.fullmatch(pattern, key)
            if match is not None:
                star = match[1] if match.groups() else ""
                return self._group(star)
        return None

    def members_of(self, group: str) -> list[str]:
        """The streams of a group, in the order of the pattern."""
        pattern = re.escape(self._group("*")).replace(r"\*", "([^/]+)", 1)
        match = re.fullmatch(pattern, group)
        if match is None:
            return []
        star = match[1] if match.groups() else ""
        return [self.head.replace("*", star, 1) + name + self.tail for name in self.names]

    def _group(self, star: str) -> str:
        return (self.head.replace("*", star, 1) + self.tail).rstrip(_SEPARATORS + "/")


def relative_path(key: str, group: str) -> str:
    """The folder of a stream as seen from that of its group."""
    return "/".join(quote(part, safe="") if part != ".." else part for part in relpath(key, group).split("/"))
