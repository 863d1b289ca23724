"""Nodes as real processes, with a real Redis: what happens when something is killed, frozen or cut."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import LoopingCall, deferLater

from rtmprelay.cluster.directory import NodeRecord
from rtmprelay.cluster.redis_directory import RedisDirectory
from rtmprelay.cluster.settings import read_directory_address
from tests.cluster.processes import RealCluster, numbers
from tests.cluster.redis import PROGRAM, needs_redis
from tests.helpers import real_reactor_fixture, real_reactor_test, the_reactor, until

pytestmark = needs_redis


@real_reactor_fixture
async def cluster(tmp_path: Path) -> AsyncIterator[RealCluster]:
    if PROGRAM is None:
        pytest.skip("there is no redis-server: apt-get install redis-server")
    cluster = await RealCluster.start(tmp_path)
    yield cluster
    await cluster.stop()


def in_order(found: list[int]) -> bool:
    return all(before < after for before, after in pairwise(found))


@real_reactor_test
async def test_stream_of_one_node_is_watched_on_all_by_every_protocol(cluster: RealCluster) -> None:
    import urllib.request

    from twisted.internet.threads import deferToThread

    one, two, three = cluster.nodes
    encoder = cluster.encoder()
    await encoder.publish(one.port())
    players = [await cluster.player(node) for node in cluster.nodes]

    def over_http(kind: str) -> bytes:
        url = f"http://127.0.0.1:{three.http_port()}/live/cam.{kind}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return bytes(answer.read(5000))

    flv = await deferToThread(over_http, "flv")
    assert flv.startswith(b"FLV")
    await until(lambda: all(len(numbers(player.frames)) > 60 for player in players), "60 pictures")
    for player in players:
        found = numbers(player.frames)
        assert found == list(range(found[0], found[0] + len(found)))
    shown = two.ask("GET", "/cluster")
    assert set(shown["nodes"]) == {"node1", "node2", "node3"}
    assert shown["streams"]["live/cam"]["node"] == "node1"
    assert cluster.sink.most == 1
    assert not cluster.secrets_in_logs()


@real_reactor_test
async def test_second_publisher_elsewhere_is_refused_and_the_first_goes_on(cluster: RealCluster) -> None:
    one, two, _ = cluster.nodes
    first, second = cluster.encoder(), cluster.encoder()
    await first.publish(one.port())
    assert not await second.publish(two.port())
    player = await cluster.player(two)
    await until(lambda: len(numbers(player.frames)) > 30, "pictures")
    assert cluster.sink.most == 1


@real_reactor_test
async def test_viewers_go_on_within_seven_seconds_after_the_owner_was_killed(cluster: RealCluster) -> None:
    one, two, three = cluster.nodes
    encoder = cluster.encoder()
    await encoder.publish(one.port())
    player = await cluster.player(three)
    await until(lambda: len(numbers(player.frames)) > 30, "pictures")
    one.kill()
    await encoder.leave()
    before = len(player.frames)
    last = numbers(player.frames)[-1]
    returned = the_reactor().seconds()
    await encoder.publish_until_accepted(two.port())
    await until(lambda: len(player.frames) > before + 3, "pictures of the new owner")
    took = the_reactor().seconds() - returned
    sys.stdout.write(f"viewers went on {took:.1f} s after the encoder had returned\n")
    await until(lambda: numbers(player.frames)[-1] > last + 50, "more of them")
    assert in_order(numbers(player.frames))
    assert player.lost is None
    assert took < 7 + 3, "7 s is the goal; a busy machine may take a little longer"
    await until(lambda: cluster.sink.publishes == 2, "the destination of the new owner")
    assert cluster.sink.most == 1
    times = [frame.timestamp_ms for frame in player.frames if frame.payload[1] == 1]
    assert times == sorted(times)


@pytest.mark.full
@real_reactor_test
async def test_encoder_that_fell_silent_is_taken_over_by_one_at_another_node(cluster: RealCluster) -> None:
    one, two, three = cluster.nodes
    first, second = cluster.encoder(), cluster.encoder()
    await first.publish(one.port())
    player = await cluster.player(three)
    await until(lambda: len(numbers(player.frames)) > 30, "pictures")
    first.fall_silent()
    await until(
        lambda: two.ask("GET", "/cluster")["streams"].get("live/cam", {}).get("silent"), "the silence"
    )
    second.number = first.number
    assert await second.publish(two.port())
    seen = len(numbers(player.frames))
    await until(lambda: len(numbers(player.frames)) > seen + 30, "pictures of the new owner")
    assert in_order(numbers(player.frames))
    assert first.client is not None
    assert first.client.codes == ["NetStream.Publish.Denied"]
    assert cluster.sink.most == 1


@pytest.mark.full
@real_reactor_test
async def test_redis_that_is_away_interrupts_nothing(cluster: RealCluster) -> None:
    one, two, three = cluster.nodes
    encoder = cluster.encoder()
    await encoder.publish(one.port())
    players = [await cluster.player(node) for node in (one, two)]
    await until(lambda: three.ask("GET", "/cluster")["streams"], "the stream in the directory")
    cluster.redis.freeze()
    await until(lambda: not three.ask("GET", "/health/ready")["ready"], "the loss")
    players.append(await cluster.player(three))
    await until(lambda: all(len(numbers(player.frames)) > 150 for player in players[:2]), "150 pictures")
    await until(lambda: "directory of the cluster is lost" in three.text(), "the event")
    cluster.redis.thaw()
    await until(lambda: three.ask("GET", "/health/ready")["ready"], "the return")
    for player in players:
        found = numbers(player.frames)
        assert found == list(range(found[0], found[0] + len(found)))
    assert len(three.lines("directory_lost")) == len(three.lines("directory_back")) == 1
    assert cluster.sink.publishes == 1


@pytest.mark.full
@real_reactor_test
async def test_owner_that_was_frozen_finds_out_that_the_stream_has_moved(cluster: RealCluster) -> None:
    one, two, three = cluster.nodes
    encoder = cluster.encoder()
    await encoder.publish(one.port())
    player = await cluster.player(three)
    await until(lambda: len(numbers(player.frames)) > 30, "pictures")
    one.freeze()
    await encoder.leave()
    await encoder.publish_until_accepted(two.port())
    before = len(player.frames)
    await until(lambda: len(player.frames) > before + 30, "pictures of the new owner")
    one.thaw()

    def owner() -> str | None:
        known: str | None = one.ask("GET", "/cluster")["streams"].get("live/cam", {}).get("node")
        return known

    await until(lambda: owner() == "node2", "the old owner to know the new one")
    assert in_order(numbers(player.frames))
    await until(lambda: cluster.sink.publishes >= 2, "the destination of the new owner")
    assert cluster.sink.most == 1


@pytest.mark.full
@real_reactor_test
async def test_owner_that_is_cut_off_alone_goes_on_until_the_encoder_moves(tmp_path: Path) -> None:
    cluster = await RealCluster.start(tmp_path, 1)
    try:
        link = await cluster.add_behind_a_link("behind")
        other, owner = cluster.nodes
        encoder, second = cluster.encoder(), cluster.encoder()
        await encoder.publish(owner.port())
        player = await cluster.player(other)
        await until(lambda: len(numbers(player.frames)) > 30, "pictures")
        link.cut()
        await until(lambda: not owner.ask("GET", "/health/ready")["ready"], "the loss")
        await until(lambda: "node_lost" in other.text(), "the end of the lease")
        seen = len(numbers(player.frames))
        await until(lambda: len(numbers(player.frames)) > seen + 50, "pictures without a directory")
        found = numbers(player.frames)
        assert found == list(range(found[0], found[0] + len(found)))
        assert encoder.client is not None
        assert encoder.client.lost is None
        assert cluster.sink.publishes == 1
        # Somebody else publishes the stream at the other node: the old owner is told, directory or not.
        await second.publish_until_accepted(other.port())
        await until(lambda: "taken the stream over" in owner.text(), "the old owner")
        await until(lambda: cluster.sink.publishes == 2, "the destination of the new owner")
        assert cluster.sink.most == 1
        link.mend()
        await until(lambda: owner.ask("GET", "/health/ready")["ready"], "the directory")
        assert owner.ask("GET", "/cluster")["streams"]["live/cam"]["node"] == "node1"
    finally:
        await cluster.stop()


@pytest.mark.full
@real_reactor_test
async def test_racing_publishers_have_one_winner_for_each_stream(cluster: RealCluster) -> None:
    """A hundred streams, three nodes: everybody wants to publish everything at the same time."""
    racers = [cluster.encoder() for _ in range(300)]
    accepted = await gatherResults(
        [
            Deferred.fromCoroutine(racer.publish(cluster.nodes[index % 3].port(), f"s{index // 3}"))
            for index, racer in enumerate(racers)
        ]
    )
    for number in range(100):
        assert accepted[number * 3 : number * 3 + 3].count(True) == 1, number


@pytest.mark.full
@real_reactor_test
async def test_redis_that_is_stopped_for_thirty_seconds_interrupts_nothing(cluster: RealCluster) -> None:
    encoders = [cluster.encoder() for _ in range(6)]
    players = []
    for number, encoder in enumerate(encoders):
        await encoder.publish(cluster.nodes[number % 3].port(), f"s{number}")
        players.append(await cluster.player(cluster.nodes[(number + 1) % 3], f"s{number}"))
    cluster.redis.kill()
    await deferLater(the_reactor(), 30)
    cluster.redis.restart()
    for node in cluster.nodes:
        await until(lambda node=node: node.ask("GET", "/health/ready")["ready"], "the return")  # type: ignore[misc]
    await until(lambda: len(cluster.nodes[0].ask("GET", "/cluster")["streams"]) == 6, "the streams")
    missing = sum(
        found[-1] - found[0] + 1 - len(found) for player in players for found in [numbers(player.frames)]
    )
    sys.stdout.write(f"{missing} frames were interrupted\n")
    assert missing == 0


@pytest.mark.full
@real_reactor_test
async def test_two_hundred_streams_and_two_thousand_keys_cost_the_directory_few_commands(
    tmp_path: Path,
) -> None:
    """Viewers on every node, a stream that ends and one that begins every half second, and some that nobody publishes."""
    cluster = await RealCluster.start(tmp_path, 3, with_sink=False)
    everybody = [cluster.encoder() for _ in range(200)]

    def send_pictures() -> None:
        for encoder in everybody:
            encoder.send_one()

    pictures = LoopingCall(send_pictures)
    try:
        directory = RedisDirectory(the_reactor(), read_directory_address(cluster.redis.url))
        await directory.open()
        archive = NodeRecord("archive", "run-archive", "rtmp://127.0.0.1:1")
        await directory.renew(archive, {})
        for number in range(1800):
            await directory.claim(f"archive/{number}", archive)
        for number, encoder in enumerate(everybody):
            assert await encoder.publish(cluster.nodes[number % 3].port(), f"s{number}", is_slow=True)
        pictures.start(1.0)
        for number in range(30):
            await cluster.player(cluster.nodes[(number + 1) % 3], f"s{number}")
        await deferLater(the_reactor(), 3)
        assert len(cluster.nodes[0].ask("GET", "/cluster")["streams"]) == 2000
        began, before = the_reactor().seconds(), cluster.redis.commands()
        for turn in range(20):
            await everybody[turn].leave()
            await everybody[turn].publish(cluster.nodes[turn % 3].port(), f"new{turn}", is_slow=True)
            await cluster.ask_for(cluster.nodes[turn % 3], f"nothing{turn}")
            await deferLater(the_reactor(), 0.5)
        seconds = the_reactor().seconds() - began
        a_second = (cluster.redis.commands() - before) / seconds
        sys.stdout.write(
            f"200 streams, 2,000 keys, {20 / seconds:.1f} changes a second: {a_second:.0f} commands a second\n"
        )
        assert a_second < 500
        await directory.close()
    finally:
        if pictures.running:
            pictures.stop()
        await cluster.stop()
