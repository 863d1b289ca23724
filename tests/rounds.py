"""How often a test tries something: a few times by default, as often as it takes with `pytest --full`.

A test that asks for `rounds` has the marker `fewer_rounds`, so that the run can list what it left out.
"""

from __future__ import annotations

import os

#: Whether this is the full run; set by conftest.py before any test is imported.
full_run = False


def rounds(by_default: int, full: int, variable: str = "") -> int:
    """How many rounds, examples or seconds a test takes.

    Args:
        variable: An environment variable that says it for both kinds of run.
    """
    asked = os.environ.get(variable, "") if variable else ""
    if asked:
        return int(asked)
    return full if full_run else by_default
