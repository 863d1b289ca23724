"""Where a node fetches the streams of other nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from rtmprelay.pulls.fetch import Fetch
from rtmprelay.pulls.source import Target
from rtmprelay.rtmp.node_pass import NodeIdentity
from rtmprelay.secret import Secret
from rtmprelay.streams.live_stream import StreamOrigin
from rtmprelay.streams.registry import StreamNotFoundError
from rtmprelay.wire.url import RtmpUrl

if TYPE_CHECKING:
    from rtmprelay.cluster.cluster import Cluster


class ClusterSource:
    """The owner of each stream, as the directory names it."""

    name = "cluster"
    origin = StreamOrigin.CLUSTER
    always = False
    #: The other end is a node of ours, and viewers wait.
    longest_delay = 2.0

    def __init__(self, cluster: Cluster, identity: NodeIdentity) -> None:
        self._cluster = cluster
        self._identity = identity
        # The instance and the epoch that each stream was fetched from last.
        self._used: dict[str, tuple[str, int]] = {}

    def find(self, key: str, chain: tuple[str, ...]) -> Deferred[Target]:
        """The owner; the directory is read anew if the last one is gone."""
        return Deferred.fromCoroutine(self._find(key, chain))

    async def _find(self, key: str, chain: tuple[str, ...]) -> Target:
        cluster = self._cluster
        if cluster.membership.snapshot.owner_of(key) is None:
            await cluster.membership.renew()
        # While the directory is away, the last known owner is as good as any.
        found = cluster.membership.snapshot.owner_of(key)
        if found is None or found[0].instance == cluster.membership.me.instance:
            cluster.membership.hurry()
            raise StreamNotFoundError(f"no node has {key}")
        owner, node = found
        self._used[key] = (owner.instance, owner.epoch)
        app, _, name = key.rpartition("/")
        # Given apart, so that the application may have several parts.
        url = RtmpUrl.parse(f"{node.url}/{app}", Secret(name))
        return Target(url, node_pass=self._identity.issue(chain, node.url))

    def source_left(self, key: str) -> None:
        """Look soon where the stream goes on."""
        self._cluster.membership.hurry()

    def has_moved(self, fetch: Fetch) -> bool:
        """Whether a stream has to be fetched from another node than it is."""
        found = self._cluster.membership.snapshot.owner_of(fetch.key)
        if found is None or found[0].instance == self._cluster.membership.me.instance:
            return False
        owner = found[0]
        instance, epoch = self._used.get(fetch.key, ("", 0))
        if owner.epoch <= epoch:
            # The higher epoch wins: a directory that has forgotten something is not believed.
            return False
        return owner.instance != instance or not fetch.is_connected

    def forget(self, key: str) -> None:
        """The stream is not fetched any more."""
        self._used.pop(key, None)
