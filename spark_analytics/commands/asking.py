"""What the questions about viewers and destinations have in common."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spark_analytics.catalogue import Snapshot
from spark_analytics.commands.common import parse_time
from spark_analytics.output import write_rows

if TYPE_CHECKING:
    from spark_analytics.audience_questions import Scope


def add_time_arguments(parser: argparse.ArgumentParser) -> None:
    """From when to when."""
    help_text = "2026-01-01T12:34:56 (UTC), today, yesterday, or 1d for a day ago"
    parser.add_argument("--since", metavar="TIME", help=help_text)
    parser.add_argument("--until", metavar="TIME", help="the same")


def scope_of(options: argparse.Namespace, key: str | None = None) -> Scope:
    """What is asked for."""
    from spark_analytics.audience_questions import Scope

    since = parse_time(options.since) if options.since else None
    until = parse_time(options.until) if options.until else None
    return Scope(since, until, key)


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
