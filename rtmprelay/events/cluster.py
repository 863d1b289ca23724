"""Events of a cluster: nodes that come and go, and streams that move between them."""

from __future__ import annotations

import attrs

from rtmprelay.events.base import Event


@attrs.frozen(kw_only=True)
class ClusterEvent(Event):
    """About the cluster, as one of its nodes sees it."""

    #: The node that publishes the event.
    node: str


@attrs.frozen(kw_only=True)
class NodeJoined(ClusterEvent):
    """Another node appeared in the directory."""

    name = "node_joined"
    sentence = "Node {other} has joined the cluster, at {address}"
    other: str
    address: str


@attrs.frozen(kw_only=True)
class NodeLost(ClusterEvent):
    """Another node has left, or has lost its lease."""

    name = "node_lost"
    level = "warn"
    sentence = "Node {other} is no longer in the cluster"
    other: str


@attrs.frozen(kw_only=True)
class StreamMoved(ClusterEvent):
    """A stream has a new owner. Both nodes publish this event: the new owner, and the old one when it learns of it."""

    name = "stream_moved"
    sentence = "{stream} has moved from node {from_node} to node {to_node} (epoch {epoch})"
    stream: str
    from_node: str
    to_node: str
    #: The higher one is the newer one.
    epoch: int


@attrs.frozen(kw_only=True)
class DirectoryLost(ClusterEvent):
    """The directory does not answer. Streams go on; `--cluster-when-lost` says whether new publishers are accepted."""

    name = "directory_lost"
    level = "warn"
    sentence = "The directory of the cluster is lost: {reason}"
    reason: str


@attrs.frozen(kw_only=True)
class DirectoryBack(ClusterEvent):
    """The directory answers again."""

    name = "directory_back"
    sentence = "The directory of the cluster is back after {seconds:.1f} s"
    seconds: float
