"""The reference pages that are made from the code have all of it. That Sphinx can build them is for .ci/run to try."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import attrs
import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed: pip install '.[docs]'")

from rtmprelay.config.limits import limits_help, with_limits
from rtmprelay.config.options import Options
from rtmprelay.config.relay import RelayConfig
from rtmprelay.destinations.config_file import _DestinationEntry
from rtmprelay.events import event_types
from rtmprelay.pulls.config_file import _PullEntry
from tests.docs.pages import DOCS


@pytest.fixture(scope="module")
def from_code() -> Iterator[ModuleType]:
    """The extension of Sphinx, which lies beside the pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS / "_ext")
        yield importlib.import_module("from_code")


def lines_of(directive: Any) -> str:
    """What a directive makes; ours need nothing of Sphinx for that."""
    return "\n".join(directive.lines(object.__new__(directive)))


def test_every_option_is_described(from_code: ModuleType) -> None:
    """With a word for what it takes, where it takes something."""
    options = {option.name: option for option in from_code.twistd_options()}
    known = {name.rstrip("=") for name in Options().longOpt} - {"help"}
    assert set(options) == known
    for name in Options().longOpt:
        option = options.get(name.rstrip("="))
        if option is not None:
            assert (option.takes is not None) == name.endswith("="), name
            assert option.takes != "VALUE", f"_VALUES has no word for what --{option.name} takes"


def test_every_limit_as_it_can_be_written(from_code: ModuleType) -> None:
    """The page has all limits, and the defaults as `--limit` takes them."""
    made = lines_of(from_code.LimitList)
    rows = dict(re.findall(r"\* - ``(\w+)``\n +- ``(\S+)``", made))
    assert set(rows) == set(re.findall(r"^  (\w+)=", limits_help(), re.MULTILINE))
    assert with_limits(RelayConfig(), [f"{name}={value}" for name, value in rows.items()]) == RelayConfig()


def test_every_field_of_the_relay_configuration(from_code: ModuleType) -> None:
    made = lines_of(from_code.RelayFields)
    assert re.findall(r"\* - ``(\w+)``", made) == [field.name for field in attrs.fields(_DestinationEntry)]


def test_every_field_of_a_pull(from_code: ModuleType) -> None:
    made = lines_of(from_code.PullFields)
    assert re.findall(r"\* - ``(\w+)``", made) == [field.name for field in attrs.fields(_PullEntry)]


def test_every_event_with_its_fields(from_code: ModuleType) -> None:
    made = lines_of(from_code.EventList)
    for kind in event_types():
        _, found, rest = made.partition(f"``{kind.name}``")
        assert found, kind.name
        fields = re.findall(r"^   - ``(\w+)``:", re.split(r"^``", rest, flags=re.MULTILINE)[0], re.MULTILINE)
        assert fields == [field.name for field in attrs.fields(kind)]
