"""What a node knows of its cluster, as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtmprelay.cluster.cluster import Cluster


def cluster_status(cluster: Cluster) -> dict[str, object]:
    """The nodes, what they carry, and where each stream is."""
    membership = cluster.membership
    snapshot = membership.snapshot
    names = {node.instance: node.name for node in snapshot.nodes.values()}
    age = membership.knowledge_age
    return {
        "node": membership.me.name,
        "node_url": membership.me.url,
        "directory": {
            "address": cluster.settings.directory.location,
            "state": "lost" if membership.is_lost else "ok",
            "last_error": membership.error,
            "knowledge_age": None if age is None else round(age, 3),
        },
        "nodes": {
            name: {
                "url": node.url,
                "draining": node.is_draining,
                "streams": node.streams,
                "players": node.players,
                "connections": node.connections,
            }
            for name, node in sorted(snapshot.nodes.items())
        },
        "streams": {
            key: {
                "node": names.get(owner.instance),
                "epoch": owner.epoch,
                "silent": owner.is_silent,
            }
            for key, owner in sorted(snapshot.owners.items())
        },
    }


#: The document of a relay that is in no cluster.
NO_CLUSTER: dict[str, object] = {
    "node": None,
    "node_url": None,
    "directory": None,
    "nodes": {},
    "streams": {},
}
