"""A directive whose content is made from the code, and what makes reStructuredText of the code's own texts."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator
from typing import Any

import attrs
from docutils import nodes
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective


def indented(text: str) -> list[str]:
    """Lines as the content of a directive."""
    return [f"   {line}" if line else "" for line in inspect.cleandoc(text).splitlines()]


def plain(text: str) -> str:
    """Text of the code as it is: in the pages a star or a bar would begin something."""
    return re.sub(r"([*|:\\])", r"\\\1", text)


@functools.cache
def comments_of(module: str) -> dict[tuple[str, str], str]:
    """The `#:` comments of a module, by class and attribute."""
    found = ModuleAnalyzer.for_module(module).find_attr_docs()
    return {place: " ".join(lines).strip() for place, lines in found.items()}


def table(head: tuple[str, ...], rows: list[tuple[str, ...]], widths: str) -> Iterator[str]:
    """A table, row by row."""
    yield ".. list-table::"
    yield f"   :header-rows: 1\n   :widths: {widths}"
    for row in [head, *rows]:
        yield ""
        for number, cell in enumerate(row):
            yield f"   {'*' if number == 0 else ' '} - {cell}"
    yield ""


class FromCode(SphinxDirective):
    """A directive whose content is made from the code."""

    def lines(self) -> Iterator[str]:
        """The content, as reStructuredText."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Read what was made."""
        return self.parse_text_to_nodes("\n".join(self.lines()), allow_section_headings=True)


def type_name(field: attrs.Attribute[Any]) -> str:
    """The type of a field in JSON's words."""
    names = {
        "str": "text",
        "int": "whole number",
        "float": "number",
        "bool": "true or false",
        "None": "null",
        "list[str]": "list of text",
        "dict[str, Any]": "object",
    }
    parts = str(field.type).split(" | ")
    return " or ".join(names.get(part, f"``{part}``") for part in parts)
