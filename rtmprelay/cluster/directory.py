"""What the nodes of a cluster share: which nodes there are, and which of them owns a stream.

It is a directory with leases and fencing, and no consensus: a directory that loses what it has confirmed (Redis does when
a replica takes over) may name two owners, and the higher epoch wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
from zope.interface import Interface

from rtmprelay.errors import ConfigError, RtmpRelayError

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

#: Seconds that a node's lease lasts after a renewal.
LEASE = 6.0

#: Seconds from renewal to renewal.
RENEW_EVERY = 2.0

#: Seconds without a renewal after which a node acts as if it had lost its lease. It counts from before the request, with
#: a clock that never jumps, so that it is sooner than the directory's own count in any case.
LOST_AFTER = 4.0

#: Raised when the records change their meaning.
VERSION = "1"


class DirectoryLostError(RtmpRelayError):
    """The directory does not answer."""


class DirectoryRefusedError(ConfigError):
    """The directory answers, and cannot be used: its password, its version, or a node of the same name."""


@attrs.frozen
class NodeRecord:
    """What a node tells of itself."""

    name: str
    #: One run of the node: another run of the same name has another lease.
    instance: str
    #: Where the others reach it.
    url: str
    is_draining: bool = False
    streams: int = 0
    players: int = 0
    connections: int = 0
    #: The highest epoch that it has seen: a directory that was emptied must not count from 1 again.
    highest_epoch: int = 0


@attrs.frozen
class Ownership:
    """Who owns a stream. The higher epoch is the newer one."""

    instance: str
    epoch: int
    #: Whether its publisher is silent or was lost: then another node may take it over.
    is_silent: bool = False


@attrs.frozen
class Snapshot:
    """Everything in the directory at one moment: the nodes that hold their lease, and the streams of all nodes."""

    nodes: Mapping[str, NodeRecord] = attrs.field(factory=dict)
    #: By stream key.
    owners: Mapping[str, Ownership] = attrs.field(factory=dict)

    def owner_of(self, key: str) -> tuple[Ownership, NodeRecord] | None:
        """The owner of a stream, if its node holds its lease."""
        owner = self.owners.get(key)
        node = None if owner is None else self.node_of(owner.instance)
        return None if owner is None or node is None else (owner, node)

    def node_of(self, instance: str) -> NodeRecord | None:
        """The node of an instance, if it holds its lease."""
        return next((node for node in self.nodes.values() if node.instance == instance), None)


@attrs.frozen
class ClaimAnswer:
    """The answer to a claim."""

    #: Who owns the stream now: the one that claims it, or another one that keeps it.
    owner: Ownership
    #: The owner until now, if it was another one.
    previous: NodeRecord | None = None


class IStreamDirectory(Interface):
    """The directory of a cluster. Every method may fail with `DirectoryLostError`, within about a second."""

    def open() -> Deferred[None]:
        """Connect. Fails with `DirectoryRefusedError` if the directory cannot be used."""

    def renew(node: NodeRecord, silent: Mapping[str, bool]) -> Deferred[Snapshot]:
        """Renew the lease of a node, and say which of its streams are silent; fires with all that there is.

        Fails with `DirectoryRefusedError` if another instance of this name holds its lease.
        """

    def claim(key: str, node: NodeRecord) -> Deferred[ClaimAnswer]:
        """Make a node the owner of a stream, unless another one holds its lease and the stream is not silent.

        A node that owns it already keeps its epoch, and the stream is not silent any more.
        """

    def release(keys: Sequence[str], node: NodeRecord) -> Deferred[None]:
        """Give up streams; those that another node owns by now stay as they are."""

    def leave(node: NodeRecord) -> Deferred[None]:
        """End the lease of a node, and give up all its streams."""

    def close() -> Deferred[None]:
        """Disconnect."""
