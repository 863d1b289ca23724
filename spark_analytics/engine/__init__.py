"""What answers questions: DuckDB on this machine, Spark on a cluster. Both get the same SQL."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out here", name=name)


def leave_pandas_out() -> None:
    """For a program that has no use for it: pyarrow imports it if it can, which takes as long as a question."""
    sys.meta_path.insert(0, _NoPandas())


def allow_pandas() -> None:
    """For Spark, which needs it."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _NoPandas)]
