"""Those who are in are asked about again: who is not allowed any more is ended, and who cannot be checked stays."""

from __future__ import annotations

from typing import Any

from rtmprelay import events
from rtmprelay.access.request import ALLOWED, CANNOT_TELL, Action, Verdict, refused
from rtmprelay.rtmp.recheck import Granted, Recheck
from rtmprelay.testing import MemoryClient, MemoryServer
from tests.access.helpers import Answering, Hesitating, access_request
from tests.helpers import group
from tests.hostile.strangers import command


class World:
    """A publisher and a player, and an authorizer that may change its mind."""

    def __init__(self, authorizer: Any, interval: float | None = 300.0) -> None:
        self.server = MemoryServer(authorizers=[authorizer])
        factory = self.server.factory
        self.recheck = Recheck(factory.gate, interval, self.server.clock, [factory.granted])
        self.recheck.start()

    def pair(self) -> tuple[MemoryClient, MemoryClient]:
        encoder, player = self.server.connect(), self.server.connect()
        encoder.publish("film?key=k")
        player.play("film?key=p")
        return encoder, player

    def pass_time(self, encoder: MemoryClient, seconds: int) -> None:
        for _ in range(0, seconds, 20):
            encoder.send(*group(0))
            self.server.advance(20, 20)


def test_client_that_is_not_allowed_any_more_is_ended_at_the_next_round() -> None:
    answering = Answering(ALLOWED)
    world = World(answering)
    encoder, player = world.pair()
    world.pass_time(encoder, 320)
    assert len(answering.asked) == 4
    assert world.server.registry.get("live/film") is not None
    answering.answer = refused("the key was taken away")
    world.pass_time(encoder, 260)
    assert world.server.registry.get("live/film") is not None
    world.pass_time(encoder, 60)
    assert world.server.registry.get("live/film") is None
    assert encoder.codes == ["NetStream.Publish.Denied"]
    assert "NetStream.Play.Failed" in player.codes
    (stopped,) = world.server.events_of(events.PublishStopped)
    assert stopped.reason == "not allowed any more: the key was taken away"
    assert encoder.connection.lost
    assert player.connection.lost


def test_authorizer_that_is_down_ends_nothing() -> None:
    answering = Answering(ALLOWED)
    world = World(answering)
    encoder, _ = world.pair()
    answering.answer = CANNOT_TELL
    world.pass_time(encoder, 700)
    assert world.server.registry.live("live/film").viewers == 1


def test_late_answer_about_one_who_has_gone_ends_nobody_else() -> None:
    hesitating = Hesitating()
    world = World(hesitating)
    encoder = world.server.connect()
    encoder.publish("film?key=k")
    hesitating.say(ALLOWED)
    world.server.pump()
    world.pass_time(encoder, 300)
    encoder.disconnect()
    second = world.server.connect()
    second.publish("film?key=k2")
    old, new = hesitating.answers
    old.callback(refused("gone"))
    new.callback(ALLOWED)
    world.server.pump()
    assert world.server.registry.get("live/film") is not None
    assert second.codes == []


def test_without_an_interval_nobody_is_asked_again_and_a_stop_leaves_no_timer() -> None:
    answering = Answering(ALLOWED)
    world = World(answering, None)
    encoder, _ = world.pair()
    world.pass_time(encoder, 700)
    assert len(answering.asked) == 2
    again = World(Answering(ALLOWED))
    again.recheck.stop()
    assert not again.server.clock.getDelayedCalls()


def test_operator_ends_a_play_by_its_connection() -> None:
    world = World(Answering(Verdict(True)), None)
    encoder, player = world.pair()
    factory = world.server.factory
    name = player.connection.protocol.connection_id
    assert not factory.end_play("c999999", "x")
    assert not factory.end_play(encoder.connection.protocol.connection_id, "x")
    assert factory.end_play(name, "ended by the operator of this server")
    (stopped,) = world.server.events_of(events.PlayStopped)
    assert (stopped.connection, stopped.reason) == (name, "ended by the operator of this server")
    world.server.advance(2)
    assert player.connection.lost
    assert not encoder.connection.lost


def test_round_about_thousands_lets_streams_go_on_and_looks_at_each_once() -> None:
    """An authorizer that answers at once would otherwise keep the reactor until the last one is asked about."""
    server = MemoryServer(authorizers=[Answering(refused("the key was taken away"))])
    looks = [0]
    ended: list[str] = []
    turns: list[int] = []

    def end(reason: str) -> None:
        if not ended:
            # What a stream would do, as soon as the reactor gets to it.
            server.clock.callLater(0, lambda: turns.append(len(ended)))
        ended.append(reason)

    def granted() -> list[Granted]:
        looks[0] += 1
        return [(access_request(Action.PLAY), end) for _ in range(1000)]

    recheck = Recheck(server.factory.gate, 300.0, server.clock, [granted])
    recheck.start()
    server.clock.advance(300)
    assert len(ended) == 1000
    assert turns[0] < 100
    assert looks == [1]


def raw_play(client: MemoryClient, name: str, stream_id: int) -> None:
    """Play on a message stream that is there, whatever it plays now."""
    client.deliver(command("play", 0.0, None, name, stream_id=stream_id))


def test_late_answer_about_a_play_ends_no_other_play_on_the_same_message_stream() -> None:
    world = World(Answering(ALLOWED), None)
    for name in ("film", "other"):
        world.server.connect().publish(name)
    player = world.server.connect()
    player.play("film")
    access, end = world.server.factory.granted()[-1]
    raw_play(player, "other", 1)
    still, _ = world.server.factory.granted()[-1]
    assert (access.stream, still.stream) == ("live/film", "live/other")
    end("not allowed any more")
    assert [one for one, _ in world.server.factory.granted() if one is still]
