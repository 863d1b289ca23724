"""What the documents show works."""

from __future__ import annotations

import re
import runpy
import textwrap
from pathlib import Path

import attrs

from rtmprelay.destinations.config_file import _DestinationEntry, parse_relay_config
from rtmprelay.events import Event
from rtmprelay.limit_options import limits_help

DOCS = Path(__file__).parents[2] / "docs"


def test_the_in_memory_example() -> None:
    """The test that docs/embedding.rst shows passes."""
    names = runpy.run_path(str(DOCS / "examples" / "test_in_memory.py"))
    names["test_a_late_player_starts_at_the_keyframe"]()
    assert ".. literalinclude:: examples/test_in_memory.py" in (DOCS / "embedding.rst").read_text()


def test_every_limit_and_event_is_documented() -> None:
    """The pages name all that exist, and the fields of each event in their order."""
    page = "".join(path.read_text() for path in DOCS.glob("*.rst"))
    for line in limits_help().splitlines()[1:]:
        name = line.strip().partition("=")[0]
        assert f"\n{name} " in page, name
    for kind in Event.__subclasses__():
        fields = ", ".join(field.name for field in attrs.fields(kind))
        assert re.search(rf"^{kind.name} +{fields}\b", page, re.MULTILINE), kind.name


def test_every_field_of_the_relay_configuration_is_documented() -> None:
    """docs/relay.rst names all fields, and its example is one that can be read."""
    page = (DOCS / "relay.rst").read_text()
    for field in attrs.fields(_DestinationEntry):
        assert re.search(rf"^{field.name} ", page, re.MULTILINE), field.name
    example = page.partition(".. code-block:: json")[2].partition("=====")[0]
    destinations = parse_relay_config(textwrap.dedent(example), {"YOUTUBE_KEY": "secret"})
    assert [destination.name for destination in destinations] == ["YouTube", "archive"]
