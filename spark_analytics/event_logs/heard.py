"""What one run of the index has heard of servers, and what follows from that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any

import attrs

from spark_analytics.event_logs.file_table import ReadResult
from spark_analytics.event_logs.lines import Split
from spark_analytics.event_logs.servers import Server, with_new


@attrs.frozen
class Heard:
    """What is known of servers: from before, and now.

    Attributes:
        new: What was heard now of each in each file, with the first number of its new events.
        waiting: Servers of which something was left open.
    """

    before: Mapping[str, Server]
    new: list[tuple[Server, int]]
    now: datetime
    waiting: frozenset[str]

    @property
    def events(self) -> int:
        """How many events are new."""
        return sum(server.events for server, _ in self.new)

    def is_late(self) -> bool:
        """Whether what followed from events before is void: files came in another order than they were written, an event
        came twice, or a server is heard of that was done with.
        """
        return self._are_repeated() or any(self._was_done_with(server.instance) for server, _ in self.new)

    def _are_repeated(self) -> bool:
        last = {name: server.last_number for name, server in self.before.items()}
        for server, first in sorted(self.new, key=_first_number):
            if first <= last.get(server.instance, -1):
                return True
            if server.events > server.last_number - first + 1:
                return True
            last[server.instance] = server.last_number
        return False

    def _was_done_with(self, instance: str) -> bool:
        """Whether all that a server had left open was ended, for good. If there was nothing, that may have been so."""
        before = self.before.get(instance)
        return before is not None and instance not in self.waiting and before.is_settled(self.now)

    def together(self) -> dict[str, Server]:
        """All servers."""
        return with_new(self.before, (server for server, _ in self.new))

    def since(self, servers: Iterable[Server]) -> date:
        """The first day about which something new may be known. Nothing is of servers that were not heard of, unless
        something of them was open.
        """
        telling = self.waiting | {server.instance for server, _ in self.new}
        times = [server.known_until or server.started_at for server in servers if server.instance in telling]
        # A clock may have been set back.
        times += [server.started_at for server, _ in self.new]
        return min(times, default=self.now).date()


def _first_number(part: tuple[Server, int]) -> int:
    return part[1]


def results_of(
    splits: Iterable[Split], counted: Iterable[Mapping[str, Any]], refused: Mapping[str, str]
) -> dict[str, ReadResult]:
    """What was read of each file that was opened.

    Args:
        counted: What was counted for each file and server.
        refused: Why files could not be read to their end.
    """
    results = {split.file_id: ReadResult(problem=refused.get(split.file_id)) for split in splits}
    for row in counted:
        result = ReadResult(**{field.name: row[field.name] for field in attrs.fields(ReadResult)})
        results[row["file_id"]] = results[row["file_id"]].joined(result)
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
                is_numbered=row["is_numbered"],
            ),
            row["first_number"],
        )
        for row in counted
        if row["instance"] is not None
    ]
