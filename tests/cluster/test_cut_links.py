"""Nodes in networks of their own, whose links are cut: nobody is refused anything, bytes just do not arrive."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest
from twisted.internet.task import deferLater

from tests.cluster.namespaces import Namespace, Network, needs_namespaces
from tests.cluster.processes import CountingSink, Encoder, Node, RealCluster, numbers
from tests.cluster.redis import RedisServer, needs_redis
from tests.helpers import real_reactor_fixture, real_reactor_test, the_reactor, until

pytestmark = [needs_redis, needs_namespaces, pytest.mark.full]


@attrs.frozen
class Place:
    """Three nodes, each in a network of its own."""

    cluster: RealCluster
    namespaces: list[Namespace]

    async def publish(self, number: int) -> Encoder:
        encoder = self.cluster.encoder()
        node = self.cluster.nodes[number]
        await encoder.publish_until_accepted(node.port(), host=node.host)
        return encoder


@real_reactor_fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    with Network() as network:
        namespaces = [network.add() for _ in range(3)]
        addresses = ["127.0.0.1", *(one.directory for one in namespaces)]
        redis = RedisServer(tmp_path, "--bind", *addresses, "--protected-mode", "no")
        # The sink is on this side of each node's link for media.
        cluster = RealCluster(tmp_path, redis, sink=CountingSink(*(one.here for one in namespaces)))
        try:
            cluster.sink.service.startService()
            for number, (one, url) in enumerate(zip(namespaces, cluster.sink.urls, strict=True), 1):
                directory = f"redis://{one.directory}:{redis.port}/0"
                name, relay = f"node{number}", ("--relay-to", url)
                cluster.nodes.append(
                    Node(tmp_path, name, directory, *relay, host=one.address, namespace=one.name)
                )
            for node in cluster.nodes:
                await node.ready()
            yield Place(cluster, namespaces)
        finally:
            await cluster.stop()


@real_reactor_test
async def test_owner_that_only_the_directory_lost_goes_on_and_is_told_directly(place: Place) -> None:
    owner, other, third = place.cluster.nodes
    encoder = await place.publish(0)
    player = await place.cluster.player(third)
    await until(lambda: len(numbers(player.frames)) > 30, "pictures")
    place.namespaces[0].cut("d")
    await until(lambda: not owner.ask("GET", "/health/ready")["ready"], "the loss")
    await until(lambda: "node_lost" in other.text(), "the end of the lease")
    seen = len(numbers(player.frames))
    await until(lambda: len(numbers(player.frames)) > seen + 250, "ten seconds without a directory")
    found = numbers(player.frames)
    assert found == list(range(found[0], found[0] + len(found)))
    assert encoder.client is not None
    assert encoder.client.lost is None
    assert place.cluster.sink.publishes == 1
    # Now somebody publishes it elsewhere.
    await place.publish(1)
    await until(lambda: "taken the stream over" in owner.text(), "the old owner to be told")
    await until(lambda: place.cluster.sink.publishes == 2, "the destination of the new owner")
    assert place.cluster.sink.most == 1
    place.namespaces[0].mend("d")
    await until(lambda: owner.ask("GET", "/health/ready")["ready"], "the directory")
    assert owner.ask("GET", "/cluster")["streams"]["live/cam"]["node"] == "node2"


@real_reactor_test
async def test_players_go_on_when_all_links_of_the_owner_are_cut(place: Place) -> None:
    owner, other, third = place.cluster.nodes
    first = await place.publish(0)
    player = await place.cluster.player(third)
    await until(lambda: len(numbers(player.frames)) > 30, "pictures")
    place.namespaces[0].cut("m", "d")
    cut_at = the_reactor().seconds()
    # The encoder notices nothing for a while, and then goes to another node.
    await deferLater(the_reactor(), 2)
    first.client = None
    before = len(player.frames)
    returned = the_reactor().seconds()
    await place.publish(1)
    await until(lambda: len(player.frames) > before + 30, "pictures of the new owner")
    sys.stdout.write(
        f"links of the owner cut: players went on {the_reactor().seconds() - returned:.1f} s after the encoder's"
        f" return, {the_reactor().seconds() - cut_at:.1f} s after the cut\n"
    )
    found = numbers(player.frames)
    assert found == sorted(set(found))
    assert player.lost is None
    place.namespaces[0].mend("m", "d")
    await until(lambda: owner.ask("GET", "/health/ready")["ready"], "the directory")
    shown = other.ask("GET", "/cluster")["streams"]["live/cam"]
    assert shown["node"] == "node2"
    await until(lambda: "taken the stream over" in owner.text(), "the old owner to find out")
    # It ends its destination; that of the new owner stays.
    await until(lambda: len(place.cluster.sink.connected) == 1, "one publisher at the destination")


@real_reactor_test
async def test_viewers_go_on_when_the_link_between_two_nodes_was_cut_for_some_seconds(place: Place) -> None:
    _, _, third = place.cluster.nodes
    await place.publish(0)
    player = await place.cluster.player(third)
    await until(lambda: len(numbers(player.frames)) > 30, "pictures")
    place.namespaces[0].cut("m")
    await deferLater(the_reactor(), 3)
    place.namespaces[0].mend("m")
    seen = len(numbers(player.frames))
    await until(lambda: len(numbers(player.frames)) > seen + 50, "pictures")
    found = numbers(player.frames)
    # TCP keeps what was on its way: nothing is missing.
    assert found == list(range(found[0], found[0] + len(found)))
    assert player.lost is None
