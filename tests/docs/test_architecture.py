"""The map for newcomers, docs/relay-architecture.rst, shows the code as it is."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import ROOT
from tests.rtmp.test_way_of_a_frame import frame_on_its_way

PAGE = (ROOT / "docs" / "relay-architecture.rst").read_text()

#: They only join what the page describes, or have nothing in them.
NOT_ON_THE_MAP = {"__init__", "__main__"}


def section(title: str) -> str:
    """The text of the page below one of its titles."""
    after = PAGE.partition(f"{title}\n---")[2]
    return re.split(r"\n[^\n]+\n---", after)[0]


def parts_of_the_package() -> set[str]:
    return {
        path.stem
        for path in (ROOT / "rtmprelay").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }


def test_table_shows_the_way_of_a_frame_as_it_is() -> None:
    shown = re.findall(r"``([a-z_/]+\.py:\w+)``", section("The way of one video frame"))
    assert shown == frame_on_its_way().until_sent().without_sends().steps


def test_map_has_every_part_of_the_package() -> None:
    shown = set(re.findall(r"``(\w+)``", section("Layers")))
    assert parts_of_the_package() - NOT_ON_THE_MAP - shown == set()


def test_recipes_name_files_that_exist() -> None:
    named = re.findall(r"``((?:rtmprelay|rtmprelay_plugins|tests|docs)(?:/\w+)+(?:\.\w+)?)``", PAGE)
    assert len(named) > 15
    assert [name for name in named if not Path(ROOT, name).exists()] == []
