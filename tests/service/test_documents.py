"""The test that docs/embedding.rst shows passes. What else pages show is tried in tests/docs."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_in_memory_example() -> None:
    """It is the one that the page includes."""
    names = runpy.run_path(str(DOCS / "examples" / "test_in_memory.py"))
    names["test_a_late_player_starts_at_the_keyframe"]()
    assert ".. literalinclude:: examples/test_in_memory.py" in (DOCS / "embedding.rst").read_text()
