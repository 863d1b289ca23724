"""The help of the server's options: in groups, with names for values, and with examples that work."""

from __future__ import annotations

import shlex
from collections import Counter

import pytest

from rtmprelay.cli.serve import ServeOptions
from rtmprelay.config.effects import options_without_effect
from rtmprelay.config.help import EXAMPLES, GROUPS, VALUES
from rtmprelay.config.options import Options


def test_every_option_is_in_one_group() -> None:
    grouped = Counter(name for names in GROUPS.values() for name in names)
    assert set(grouped) == {long.rstrip("=") for long in Options().longOpt}
    assert set(grouped.values()) == {1}


def test_groups_are_those_of_the_documents() -> None:
    assert [*GROUPS] == ["listen", "relay", "record", "watch", "protect", "operate", "advanced"]


def test_every_value_has_a_name() -> None:
    assert set(VALUES) == {long.rstrip("=") for long in Options().longOpt if long.endswith("=")}


@pytest.mark.parametrize("width", [40, 80, 120])
def test_help_fits_the_terminal(width: int) -> None:
    lines = ServeOptions().getUsage(width).splitlines()
    assert [line for line in lines if len(line) > max(width, 64) and "://" not in line] == []
    assert "  --relay-to URL" in "\n".join(lines)


@pytest.mark.parametrize("options", [options for _, options in EXAMPLES])
def test_examples_are_accepted(options: str) -> None:
    parsed = Options()
    parsed.makes_plugins = False
    parsed.parseOptions(shlex.split(options))
    assert [*options_without_effect(parsed, parsed.all_given())] == []
