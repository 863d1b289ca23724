"""A directory in memory, for tests: the rules of the one in Redis, and a clock and failures that a test moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import attrs
from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from rtmprelay.cluster.directory import (
    LEASE,
    ClaimAnswer,
    DirectoryLostError,
    DirectoryRefusedError,
    IStreamDirectory,
    NodeRecord,
    Ownership,
    Snapshot,
)

_T = TypeVar("_T")


@attrs.define(eq=False)
class SharedRecords:
    """What all nodes see.

    Args:
        seconds: The directory's clock.
    """

    seconds: Callable[[], float]
    nodes: dict[str, NodeRecord] = attrs.field(factory=dict)
    leases: dict[str, float] = attrs.field(factory=dict)
    owners: dict[str, Ownership] = attrs.field(factory=dict)
    epoch: int = 0

    def holds_lease(self, instance: str) -> bool:
        return self.leases.get(instance, 0.0) > self.seconds()

    def node_of(self, instance: str) -> NodeRecord | None:
        return next((node for node in self.nodes.values() if node.instance == instance), None)


@implementer(IStreamDirectory)
class MemoryDirectory:
    """One node's way to the records; set `is_cut` to take it away."""

    def __init__(self, records: SharedRecords) -> None:
        self._records = records
        self.is_cut = False
        #: How often the directory was asked.
        self.requests = 0

    def _answer(self, work: Callable[[], _T]) -> Deferred[_T]:
        self.requests += 1
        if self.is_cut:
            return fail(DirectoryLostError("the directory is cut off"))
        try:
            return succeed(work())
        except DirectoryRefusedError as refused:
            return fail(refused)

    def open(self) -> Deferred[None]:
        return self._answer(lambda: None)

    def renew(self, node: NodeRecord, silent: Mapping[str, bool]) -> Deferred[Snapshot]:
        return self._answer(lambda: self._renew(node, silent))

    def _renew(self, node: NodeRecord, silent: Mapping[str, bool]) -> Snapshot:
        records = self._records
        other = records.nodes.get(node.name)
        if other is not None and other.instance != node.instance and records.holds_lease(other.instance):
            raise DirectoryRefusedError(f"another node is called {node.name!r} ({other.url})")
        records.nodes[node.name] = node
        records.epoch = max(records.epoch, node.highest_epoch)
        records.leases[node.instance] = records.seconds() + LEASE
        for key, is_silent in silent.items():
            owner = records.owners.get(key)
            if owner is not None and owner.instance == node.instance:
                records.owners[key] = attrs.evolve(owner, is_silent=is_silent)
        nodes = {name: one for name, one in records.nodes.items() if records.holds_lease(one.instance)}
        return Snapshot(nodes, dict(records.owners))

    def claim(self, key: str, node: NodeRecord) -> Deferred[ClaimAnswer]:
        return self._answer(lambda: self._claim(key, node))

    def _claim(self, key: str, node: NodeRecord) -> ClaimAnswer:
        records = self._records
        owner = records.owners.get(key)
        if owner is not None and owner.instance == node.instance:
            owner = records.owners[key] = attrs.evolve(owner, is_silent=False)
            return ClaimAnswer(owner)
        if owner is not None and records.holds_lease(owner.instance) and not owner.is_silent:
            return ClaimAnswer(owner)
        records.epoch += 1
        records.owners[key] = Ownership(node.instance, records.epoch)
        return ClaimAnswer(records.owners[key], None if owner is None else records.node_of(owner.instance))

    def release(self, keys: Sequence[str], node: NodeRecord) -> Deferred[None]:
        def release() -> None:
            for key in keys:
                owner = self._records.owners.get(key)
                if owner is not None and owner.instance == node.instance:
                    del self._records.owners[key]

        return self._answer(release)

    def leave(self, node: NodeRecord) -> Deferred[None]:
        def leave() -> None:
            records = self._records
            records.leases.pop(node.instance, None)
            if records.nodes.get(node.name) == node or records.node_of(node.instance):
                records.nodes = {n: one for n, one in records.nodes.items() if one.instance != node.instance}
            records.owners = {
                key: owner for key, owner in records.owners.items() if owner.instance != node.instance
            }

        return self._answer(leave)

    def close(self) -> Deferred[None]:
        return succeed(None)
