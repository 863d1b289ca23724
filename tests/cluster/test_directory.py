"""The directory: the same rules in memory and in Redis."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import Clock, deferLater

from rtmprelay.cluster.directory import ClaimAnswer, DirectoryLostError, DirectoryRefusedError, NodeRecord
from rtmprelay.cluster.memory_directory import MemoryDirectory, SharedRecords
from rtmprelay.cluster.redis_directory import RedisDirectory
from rtmprelay.cluster.settings import read_directory_address
from tests.cluster.redis import PROGRAM, RedisServer, needs_redis
from tests.helpers import DEADLINE, real_reactor_fixture, real_reactor_test, the_reactor

A = NodeRecord("a", "run-a", "rtmp://127.0.0.1:1")
B = NodeRecord("b", "run-b", "rtmp://127.0.0.1:2")


@attrs.define(eq=False)
class Place:
    """A kind of directory, with as many ways to it as a test has nodes."""

    make: Any
    expire: Any
    opened: list[Any] = attrs.field(factory=list)

    async def open(self) -> Any:
        directory = self.make()
        await directory.open()
        self.opened.append(directory)
        return directory


@real_reactor_fixture
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    if request.param == "memory":
        clock = Clock()
        records = SharedRecords(clock.seconds)

        async def expire() -> None:
            clock.advance(7)

        yield Place(lambda: MemoryDirectory(records), expire)
        return
    if PROGRAM is None:
        pytest.skip("there is no redis-server: apt-get install redis-server")
    with RedisServer(tmp_path) as server:
        place = Place(lambda: RedisDirectory(the_reactor(), read_directory_address(server.url)), None)

        async def expire_in_redis() -> None:
            directory = place.opened[0]
            await directory._ask(lambda redis: redis.delete("{rtmprelay}:lease:run-a"))
            record = await directory._ask(lambda redis: redis.hget("{rtmprelay}:nodes", "a"))
            fields = {**json.loads(record), "renewed_at": int(time.time() * 1000) - 7000}
            await directory._ask(lambda redis: redis.hset("{rtmprelay}:nodes", "a", json.dumps(fields)))

        place.expire = expire_in_redis
        yield place
        for directory in place.opened:
            await directory.close()


both = pytest.mark.parametrize("place", ["memory", "redis"], indirect=True)


@both
@real_reactor_test
async def test_stream_has_one_owner_until_it_is_released(place: Place) -> None:
    one, two = await place.open(), await place.open()
    await gatherResults([one.renew(A, {}), two.renew(B, {})])
    first = await one.claim("live/x", A)
    assert (first.owner.instance, first.previous) == ("run-a", None)
    assert (await two.claim("live/x", B)).owner == first.owner
    assert (await one.claim("live/x", A)).owner == first.owner
    await two.release(["live/x"], B)
    assert (await two.claim("live/x", B)).owner == first.owner
    await one.release(["live/x"], A)
    second = await two.claim("live/x", B)
    assert second.owner.instance == "run-b"
    assert second.owner.epoch > first.owner.epoch


@both
@real_reactor_test
async def test_stream_of_a_node_without_a_lease_is_taken_over_with_a_higher_epoch(place: Place) -> None:
    one, two = await place.open(), await place.open()
    await one.renew(A, {})
    first = await one.claim("live/x", A)
    await place.expire()
    snapshot = await two.renew(B, {})
    assert list(snapshot.nodes) == ["b"]
    second = await two.claim("live/x", B)
    assert second.owner.instance == "run-b"
    assert second.owner.epoch > first.owner.epoch
    assert second.previous is not None
    assert second.previous.url == A.url
    # The old owner learns it with its next renewal, and changes nothing.
    snapshot = await one.renew(A, {"live/x": True})
    assert snapshot.owners["live/x"] == second.owner


@both
@real_reactor_test
async def test_silent_stream_is_taken_over_and_a_talking_one_is_not(place: Place) -> None:
    one, two = await place.open(), await place.open()
    await gatherResults([one.renew(A, {}), two.renew(B, {})])
    await one.claim("live/x", A)
    await one.renew(A, {"live/x": False})
    assert (await two.claim("live/x", B)).owner.instance == "run-a"
    await one.renew(A, {"live/x": True})
    answer = await two.claim("live/x", B)
    assert answer.owner.instance == "run-b"
    assert answer.previous is not None
    assert answer.previous.name == "a"


@both
@real_reactor_test
async def test_second_node_of_the_same_name_is_refused(place: Place) -> None:
    one, two = await place.open(), await place.open()
    await one.renew(A, {})
    with pytest.raises(DirectoryRefusedError, match="another node is called 'a'"):
        await two.renew(attrs.evolve(B, name="a"), {})
    await place.expire()
    await two.renew(attrs.evolve(B, name="a"), {})


@both
@real_reactor_test
async def test_node_that_leaves_gives_up_everything(place: Place) -> None:
    one, two = await place.open(), await place.open()
    await gatherResults([one.renew(A, {}), two.renew(B, {})])
    await one.claim("live/x", A)
    await one.leave(A)
    snapshot = await two.renew(B, {})
    assert (list(snapshot.nodes), dict(snapshot.owners)) == (["b"], {})


async def claim_all(directory: Any, keys: list[str], node: NodeRecord) -> list[ClaimAnswer]:
    """Claim all keys, ten at a time; without an answer again, as nodes do."""
    answers: dict[str, ClaimAnswer] = {}

    async def claim(key: str) -> None:
        while key not in answers:
            try:
                answers[key] = await directory.claim(key, node)
            except DirectoryLostError:
                # It may fail at once, before the reactor has had a chance to connect again.
                await deferLater(the_reactor(), 0.05)

    for begin in range(0, len(keys), 10):
        await gatherResults([Deferred.fromCoroutine(claim(key)) for key in keys[begin : begin + 10]])
    return [answers[key] for key in keys]


@both
@real_reactor_test
async def test_thousand_racing_claims_have_one_winner_each(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten nodes want a hundred streams, all at the same time."""
    # However busy the machine is, no lease ends meanwhile.
    monkeypatch.setattr("rtmprelay.cluster.redis_directory.LEASE", 600.0)
    nodes = [NodeRecord(f"n{number}", f"run-{number}", "rtmp://127.0.0.1:1") for number in range(10)]
    ways = [await place.open() for _ in nodes]
    await gatherResults([way.renew(node, {}) for way, node in zip(ways, nodes, strict=True)])
    keys = [f"live/{number}" for number in range(100)]
    claims = [
        Deferred.fromCoroutine(claim_all(way, keys, node)) for way, node in zip(ways, nodes, strict=True)
    ]
    found = await gatherResults(claims).addTimeout(3 * DEADLINE, the_reactor())
    for number in range(100):
        assert len({answers[number].owner for answers in found}) == 1
    assert len({answer.owner.epoch for answers in found for answer in answers}) == 100


# -- Redis itself --------------------------------------------------------------------------------------------


@needs_redis
@real_reactor_test
async def test_frozen_redis_is_lost_in_a_second_and_answers_are_not_mixed_up_later(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server:
        directory = RedisDirectory(the_reactor(), read_directory_address(server.url))
        await directory.open()
        await directory.renew(A, {})
        server.freeze()
        began = the_reactor().seconds()
        with pytest.raises(DirectoryLostError, match="does not answer"):
            await directory.claim("live/x", A)
        sys.stdout.write(f"lost after {the_reactor().seconds() - began:.2f} s\n")
        server.thaw()
        for _ in range(100):
            try:
                snapshot = await directory.renew(A, {})
                break
            except DirectoryLostError:
                await deferLater(the_reactor(), 0.1)
        assert list(snapshot.nodes) == ["a"]
        assert (await directory.claim("live/y", A)).owner.instance == "run-a"
        await directory.close()


@needs_redis
@real_reactor_test
async def test_wrong_password_version_or_server_is_one_line_without_the_password(tmp_path: Path) -> None:
    with RedisServer(tmp_path, "--requirepass", "right-password") as server:
        for user in ("", "default"):
            url = f"redis://{user}:wrong-password@127.0.0.1:{server.port}/0"
            directory = RedisDirectory(the_reactor(), read_directory_address(url))
            with pytest.raises(DirectoryRefusedError, match="refuses the user or the password") as refused:
                await directory.open()
            assert "wrong-password" not in str(refused.value)
            await directory.close()
        url = f"redis://:right-password@127.0.0.1:{server.port}/0"
        directory = RedisDirectory(the_reactor(), read_directory_address(url))
        await directory.open()
        await directory._ask(lambda redis: redis.set("{rtmprelay}:version", "99"))
        await directory.close()
        directory = RedisDirectory(the_reactor(), read_directory_address(url))
        with pytest.raises(DirectoryRefusedError, match="has version '99', and this relay needs 1"):
            await directory.open()
        await directory.close()
    directory = RedisDirectory(the_reactor(), read_directory_address(server.url))
    with pytest.raises(DirectoryLostError, match="does not answer"):
        await directory.open()
    await directory.close()


@needs_redis
@real_reactor_test
async def test_renewals_of_two_thousand_streams_cost_a_few_commands(tmp_path: Path) -> None:
    """Three nodes, 200 streams with publishers and 2,000 keys in all; each node renews every two seconds."""
    with RedisServer(tmp_path) as server:
        nodes = [NodeRecord(f"n{number}", f"run-{number}", "rtmp://127.0.0.1:1") for number in range(3)]
        ways = [RedisDirectory(the_reactor(), read_directory_address(server.url)) for _ in nodes]
        for way, node in zip(ways, nodes, strict=True):
            await way.open()
            await way.renew(node, {})
        for number in range(2000):
            await ways[number % 3].claim(f"live/{number}", nodes[number % 3])
        before = server.commands()
        for number, (way, node) in enumerate(zip(ways, nodes, strict=True)):
            # Those whose state has changed are told; of 200 streams a second one is much.
            snapshot = await way.renew(node, {f"live/{number}": True})
        assert len(snapshot.owners) == 2000
        a_second = (server.commands() - before) / 2
        sys.stdout.write(f"{a_second:g} commands a second\n")
        assert a_second < 500
        for way in ways:
            await way.close()
