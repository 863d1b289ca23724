"""Runs of servers: when each began, the time of its last event, how it ended, and what follows from new events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any

import attrs

from spark_analytics.store.schema import DAY

STOPPED, DIED, RUNNING = "stopped", "died", "running"

#: A server says at least every two minutes that it is alive. One that is silent for longer has died.
SILENCE = 300.0

#: Its log may just be late, if it comes from another machine. After so long it is not waited for any more.
PATIENCE = 7 * 86400.0


@attrs.frozen
class Server:
    """One run of a server, as far as it is known.

    Attributes:
        known_number, known_until: Up to where its events were known before this run of the index.
        is_numbered: Whether it counts its events; if not, their place in the file is their number.
    """

    instance: str
    host: str | None
    version: str | None
    started_at: datetime
    last_seen: datetime
    has_stopped: bool
    last_number: int
    events: int
    known_number: int = -1
    known_until: datetime | None = None
    is_numbered: bool = True
    node: str | None = None

    def joined(self, new: Server) -> Server:
        """With what is new."""
        return Server(
            self.instance,
            self.host or new.host,
            self.version or new.version,
            min(self.started_at, new.started_at),
            max(self.last_seen, new.last_seen),
            self.has_stopped or new.has_stopped,
            max(self.last_number, new.last_number),
            self.events + new.events,
            self.known_number,
            self.known_until,
            self.is_numbered or new.is_numbered,
            self.node or new.node,
        )

    def ended_how(self, now: datetime) -> str:
        """Whether it stopped, died, or runs."""
        if self.has_stopped:
            return STOPPED
        return DIED if (now - self.last_seen).total_seconds() > SILENCE else RUNNING

    def is_settled(self, now: datetime) -> bool:
        """Whether no more events of it are expected: it said goodbye, or has been silent for a week."""
        return self.has_stopped or (now - self.last_seen).total_seconds() > PATIENCE

    def row(self, now: datetime) -> dict[str, Any]:
        """As in the table `servers`."""
        return {
            "instance": self.instance,
            "host": self.host,
            "version": self.version,
            "node": self.node,
            "started_at": self.started_at,
            "last_seen": self.last_seen,
            "ended_how": self.ended_how(now),
            "last_number": self.last_number,
            "events": self.events,
            "missing_events": max(0, self.last_number - self.events) if self.is_numbered else None,
            DAY: self.started_at.date(),
        }


def known_servers(rows: Iterable[Mapping[str, Any]]) -> dict[str, Server]:
    """What the table `servers` says."""
    return {
        row["instance"]: Server(
            row["instance"],
            row["host"],
            row["version"],
            row["started_at"],
            row["last_seen"],
            row["ended_how"] == STOPPED,
            row["last_number"],
            row["events"],
            row["last_number"],
            row["last_seen"],
            row["missing_events"] is not None,
            row["node"],
        )
        for row in rows
    }


def with_new(known: Mapping[str, Server], new: Iterable[Server]) -> dict[str, Server]:
    """All servers, with their new events."""
    servers = dict(known)
    for one in new:
        before = servers.get(one.instance)
        servers[one.instance] = one if before is None else before.joined(one)
    return servers


@attrs.frozen
class News:
    """What one run of the index learned of servers, and what it knew before.

    Attributes:
        new: What each file tells of each server, with the first number of its new events.
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

    def late(self) -> frozenset[str]:
        """Servers of which all that followed from events before is void: files came in another order than they were
        written, an event came twice, or the server reports again although it was finished.
        """
        late = {server.instance for server, _ in self.new if self._was_finished(server.instance)}
        last = {name: server.last_number for name, server in self.before.items()}
        for server, first in sorted(self.new, key=_first_number):
            if first <= last.get(server.instance, -1) or server.events > server.last_number - first + 1:
                late.add(server.instance)
            last[server.instance] = server.last_number
        return frozenset(late)

    def _was_finished(self, instance: str) -> bool:
        """Whether all that a server had left open was ended, for good. If there was nothing, that may have been so."""
        before = self.before.get(instance)
        return before is not None and instance not in self.waiting and before.is_settled(self.now)

    def together(self) -> dict[str, Server]:
        """All servers."""
        return with_new(self.before, (server for server, _ in self.new))

    def since(self, servers: Iterable[Server]) -> date:
        """The first day of which rows may change. Those of servers without new events stay, unless
        something of them was open.
        """
        telling = self.waiting | {server.instance for server, _ in self.new}
        times = [server.known_until or server.started_at for server in servers if server.instance in telling]
        # A clock may have been set back.
        times += [server.started_at for server, _ in self.new]
        return min(times, default=self.now).date()


def _first_number(part: tuple[Server, int]) -> int:
    return part[1]


def servers_of(counted: Iterable[Mapping[str, Any]]) -> list[tuple[Server, int]]:
    """What each file tells of each server, from what was counted, with the first number of its new events."""
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
                node=row["node"],
            ),
            row["first_number"],
        )
        for row in counted
        if row["instance"] is not None
    ]
