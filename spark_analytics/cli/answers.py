"""What the questions about viewers and destinations have in common."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from spark_analytics.catalogue import Snapshot
from spark_analytics.cli.common import window_of
from spark_analytics.cli.output import write_rows
from spark_analytics.questions.asking import Scope
from spark_analytics.questions.time_window import ALWAYS


def scope_of(options: argparse.Namespace, key: str | None = None) -> Scope:
    """Which rows the options ask for."""
    return Scope(window_of(options), key)


def in_time(scope: Scope, sentence: str) -> str:
    """A sentence about what there is not; with a time, only that is meant."""
    return sentence if scope.window == ALWAYS else f"{sentence} in this time"


def write_dicts(rows: Sequence[dict[str, Any]], form: str, snapshot: Snapshot, nothing: str) -> int:
    """Write an answer; if there is none, say what that means. The exit status."""
    if rows:
        columns = list(rows[0])
        write_rows(sys.stdout, columns, [[row[name] for name in columns] for row in rows], form)
    elif not snapshot.has("event_files"):
        sys.stderr.write(
            f"{snapshot.root} has no event logs: start the server with --event-log DIR, and index with --events DIR\n"
        )
    else:
        sys.stderr.write(f"{nothing}\n")
    return 0
