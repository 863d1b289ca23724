"""What one run of the index has heard of servers, and what follows from that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any

import attrs

from spark_analytics.event_logs.file_table import ReadResult
from spark_analytics.event_logs.servers import Server, with_new


@attrs.frozen
class Heard:
    """What is known of servers: from before, and now.

    Attributes:
        new: What was heard now of each, with the first number of its new events.
    """

    before: Mapping[str, Server]
    new: list[tuple[Server, int]]
    now: datetime

    @property
    def events(self) -> int:
        """How many events are new."""
        return sum(server.events for server, _ in self.new)

    def is_late(self) -> bool:
        """Whether files came in another order than they were written, or an event came twice."""
        return any(
            first <= self.before[server.instance].last_number
            for server, first in self.new
            if server.instance in self.before
        )

    def together(self, anew: bool) -> dict[str, Server]:
        """All servers; `anew` as if they had never been heard of before."""
        servers = with_new(self.before, (server for server, _ in self.new))
        if not anew:
            return servers
        return {
            name: attrs.evolve(server, known_number=-1, known_until=None) for name, server in servers.items()
        }

    def since(self, servers: Mapping[str, Server]) -> date:
        """The first day about which something new may be known."""
        told = {server.instance for server, _ in self.new}
        times = [
            server.known_until or server.started_at
            for server in servers.values()
            if server.instance in told or not server.has_stopped
        ]
        return min(times, default=self.now).date()


def results_of(counted: Iterable[Mapping[str, Any]]) -> dict[str, ReadResult]:
    """What was read of each file, from what was counted for each file and server."""
    results: dict[str, ReadResult] = {}
    for row in counted:
        result = ReadResult(**{field.name: row[field.name] for field in attrs.fields(ReadResult)})
        before = results.get(row["file_id"])
        results[row["file_id"]] = result if before is None else before.joined(result)
    return results


def servers_of(counted: Iterable[Mapping[str, Any]]) -> list[tuple[Server, int]]:
    """What was heard of servers, from the same."""
    return [
        (
            Server(
                row["instance"],
                row["host"],
                row["version"],
                row["first_event"],
                row["last_event"],
                row["has_stopped"],
                row["last_number"],
                row["events"],
            ),
            row["first_number"],
        )
        for row in counted
        if row["instance"] is not None
    ]
