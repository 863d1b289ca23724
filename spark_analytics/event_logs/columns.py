"""Expressions that the tables share. They are SQL: that is shorter than calls, and a good deal faster to build."""

from __future__ import annotations

#: What statistics add up.
SUMS = ("messages", "bytes", "dropped", "stalls", "stalled_seconds")


def seconds_between(begin: str, end: str) -> str:
    """From one time to another; never less than none."""
    return f"greatest((unix_micros({end}) - unix_micros({begin})) / 1e6D, 0D)"


def earlier(time: str, seconds: str) -> str:
    """So many seconds before a time."""
    return f"timestamp_micros(CAST(unix_micros({time}) - {seconds} * 1e6D AS BIGINT))"


def server_gone(running: str) -> str:
    """How something without an end has ended, by what became of its server.

    If the server said goodbye, the event before is not there.
    """
    return f"CASE server_how WHEN 'running' THEN '{running}' WHEN 'died' THEN 'server died' ELSE 'server stopped' END"


def names(*columns: str) -> str:
    """A list of columns."""
    return ", ".join(columns)
