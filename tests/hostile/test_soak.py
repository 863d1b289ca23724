"""Publishers, players and destinations come and go at random for a while; at the end nothing is left over, no key either.

`RTMPRELAY_SOAK_SECONDS=600 pytest tests/hostile/test_soak.py` is the long run; `RTMPRELAY_SOAK_SEED` chooses another one.
"""

# Services of Twisted have no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import gc
import os
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import deferLater
from twisted.logger import globalLogBeginner

from rtmprelay.config.relay import RelayConfig
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.recording.settings import RecordingSettings
from rtmprelay.service import RelayService
from rtmprelay.session.reports import PublishAccepted
from rtmprelay.streams.consumer import Consumer
from rtmprelay.wire.url import RtmpUrl
from tests.access.log_keeping import KeptLog, kept_log
from tests.helpers import (
    EventList,
    SocketClient,
    connect_client,
    group,
    real_reactor_test,
    start_frames,
    the_reactor,
    until,
)
from tests.rounds import rounds

SECONDS = rounds(4, full=60, variable="RTMPRELAY_SOAK_SECONDS")
SEED = int(os.environ.get("RTMPRELAY_SOAK_SEED", "3"))

LOOPBACK = "tcp:0:interface=127.0.0.1"
STREAMS = ("one", "two", "three")

#: Everything secret in here has this in it: what streams are published and played with, and the keys of destinations.
MARK = "MARKED"
MOST_PLAYERS = 12
MOST_DESTINATIONS = 4


def port_of(service: RelayService) -> int:
    address: Any = service.addresses[0]
    return int(address.port)


class Crowd:
    """A relay, a server that it relays to, and publishers and players that act at random."""

    def __init__(self, folder: Path) -> None:
        self.chance = random.Random(SEED)
        recording = RecordingSettings(record_all=True, folder=folder)
        self.relay = RelayService(RelayConfig(listen=(LOOPBACK,), recording=recording))
        self.platform = RelayService(RelayConfig(listen=(LOOPBACK,)))
        self.events = EventList()
        self.relay.events.add_sink(self.events)
        self.platform.events.add_sink(self.events)
        self.publishers: dict[str, SocketClient] = {}
        self.times: Counter[str] = Counter()
        self.players: list[SocketClient] = []
        self.steps: Counter[str] = Counter()
        self._destinations = 0

    @property
    def endpoint(self) -> str:
        return f"tcp:127.0.0.1:{port_of(self.relay)}"

    async def step(self) -> None:
        """Let something happen, and everybody who publishes send a little."""
        moves = {
            "publish": self.publish,
            "unpublish": self.unpublish,
            "vanish": self.vanish,
            "play": self.play,
            "leave": self.leave,
            "hang": self.hang,
            "add": self.add_destination,
            "remove": self.remove_destination,
            "reconnect": self.reconnect,
            "outage": self.outage,
        }
        weights = (4, 1, 1, 6, 4, 1, 2, 1, 1, 1)
        name = self.chance.choices(list(moves), weights)[0]
        self.steps[name] += 1
        await moves[name]()
        for stream, client in self.publishers.items():
            if client.lost is None:
                client.send(*group(self.times[stream], size=2000))
                self.times[stream] += 200
        for client in (*self.players, *self.publishers.values()):
            # Other tests compare what they got; here it would only fill the memory.
            client.frames.clear()
            del client.events[:-50]
        await deferLater(the_reactor(), 0.002)

    async def publish(self) -> None:
        free = [name for name in STREAMS if name not in self.publishers]
        if free:
            name = self.chance.choice(free)
            client = await connect_client(self.endpoint)
            client.session.publish(f"{name}?key={MARK}")
            client.flush()
            await until(lambda: client.has(PublishAccepted) or client.codes, "an answer to publish")
            if client.has(PublishAccepted):
                client.send(*start_frames())
                self.publishers[name] = client
            else:
                # The one before has gone, and the server has not noticed yet.
                await leave_for_good(client)

    async def unpublish(self) -> None:
        if self.publishers:
            client = self.publishers.pop(self.chance.choice(list(self.publishers)))
            client.session.end()
            client.flush()
            await leave_for_good(client)

    async def vanish(self) -> None:
        if self.publishers:
            await leave_for_good(self.publishers.pop(self.chance.choice(list(self.publishers))))

    async def play(self) -> None:
        if len(self.players) < MOST_PLAYERS:
            client = await connect_client(self.endpoint)
            client.session.play(f"{self.chance.choice(STREAMS)}?token={MARK}")
            client.flush()
            self.players.append(client)

    async def leave(self) -> None:
        if self.players:
            await leave_for_good(self.players.pop(self.chance.randrange(len(self.players))))

    async def hang(self) -> None:
        """A player stops reading for good."""
        if self.players:
            transport: Any = self.chance.choice(self.players).transport
            transport.pauseProducing()

    async def add_destination(self) -> None:
        if len(self.relay.destinations) < MOST_DESTINATIONS:
            self._destinations += 1
            name = f"d{self._destinations}"
            url = RtmpUrl.parse(f"rtmp://127.0.0.1:{port_of(self.platform)}/{name}/{{name}}?key={MARK}")
            self.relay.destinations.add(DestinationSettings(name, url, linger=0.1))

    async def remove_destination(self) -> None:
        names = [destination.name for destination in self.relay.destinations]
        if names:
            await self.relay.destinations.remove(self.chance.choice(names))

    async def reconnect(self) -> None:
        names = [destination.name for destination in self.relay.destinations]
        if names:
            self.relay.destinations.reconnect(self.chance.choice(names))

    async def outage(self) -> None:
        """The platform breaks all connections off."""
        for connection in self.platform.factory.connections:
            connection.close_now("an outage")

    def assert_no_key_is_shown(self, log: KeptLog) -> None:
        """Neither by what was logged, nor by what happened, nor by anything that could be logged."""
        assert MARK not in "\n".join(log.lines)
        for event in self.events.events:
            assert MARK not in repr(event)
            assert MARK not in str(event.fields())
        shown = [self.relay, self.relay.config, *self.relay.registry, *self.relay.destinations]
        shown += [*self.relay.destinations.statuses(), *self.relay.recordings.statuses()]
        shown += [*self.relay.factory.connections, *self.platform.factory.connections]
        for one in shown:
            assert MARK not in repr(one)

    def assert_accounts_add_up(self) -> None:
        for stream in self.relay.registry:
            for subscriber in stream.subscribers:
                assert not isinstance(subscriber, Consumer) or subscriber.is_balanced, subscriber
        for status in self.relay.destinations.statuses():
            for outlet in status.outlets:
                accounted = outlet.messages_sent + outlet.messages_dropped + outlet.messages_queued
                assert outlet.messages_in == accounted, outlet

    async def clear(self) -> None:
        """Everybody goes."""
        for client in (*self.publishers.values(), *self.players):
            await leave_for_good(client)
        self.publishers.clear()
        self.players.clear()
        for destination in list(self.relay.destinations):
            await self.relay.destinations.remove(destination.name)


async def leave_for_good(client: SocketClient) -> None:
    """Close, and forget what came: the reactor may know the last one that went for a while, and with it all of that."""
    await client.close()
    client.events.clear()
    client.frames.clear()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def our_objects() -> Counter[str]:
    """How many objects of our classes there are."""
    gc.collect()
    return Counter(
        type(one).__qualname__
        for one in gc.get_objects()
        if str(type(one).__module__).startswith("rtmprelay.")
    )


def grown_since(before: Counter[str]) -> dict[str, int]:
    """Of which objects there are more than before, and how many more."""
    return {name: more for name, more in (our_objects() - before).items() if more > 5}


@pytest.mark.fewer_rounds
@real_reactor_test
async def test_nothing_is_left_over(tmp_path: Path) -> None:
    """No connection, no timer, no file, no object; and at any moment the accounts add up."""
    # As long as no log has begun, Twisted keeps what is logged, with all that belongs to it.
    globalLogBeginner.beginLoggingTo([], discardBuffer=True, redirectStandardIO=False)
    with kept_log() as log:
        await soak(tmp_path, log)


async def soak(folder: Path, log: KeptLog) -> None:
    """Let everybody come and go, and look at what is left."""
    reactor = the_reactor()
    crowd = Crowd(folder)
    crowd.relay.startService()
    crowd.platform.startService()
    # What is made once and kept is made now.
    for _ in range(100):
        await crowd.step()
    await crowd.clear()
    await until(lambda: not crowd.relay.factory.connections, "the end of all connections")
    await until(lambda: not crowd.relay.recordings.statuses(), "the end of all recordings")
    crowd.events.events.clear()
    log.clear()
    files, timers, objects = open_files(), len(reactor.getDelayedCalls()), our_objects()

    end = reactor.seconds() + SECONDS
    while reactor.seconds() < end:
        await crowd.step()
        crowd.assert_accounts_add_up()
        crowd.assert_no_key_is_shown(log)
        crowd.events.events.clear()
        log.clear()
    await crowd.clear()

    await until(lambda: not crowd.relay.factory.connections, "the end of all connections")
    await until(lambda: not crowd.platform.factory.connections, "the end of all relaying")
    await until(lambda: not crowd.relay.recordings.statuses(), "the end of all recordings")
    assert len(crowd.relay.registry) == 0
    await until(lambda: len(reactor.getDelayedCalls()) <= timers, "the end of all timers")
    await until(lambda: open_files() <= files, "the closing of all files")
    crowd.events.events.clear()
    log.clear()
    # The reactor may know the last client for a moment.
    with suppress(AssertionError):
        await until(lambda: not grown_since(objects), "the end of all objects")
    assert not grown_since(objects)
    assert len(crowd.steps) == 10, "everything happened at least once"
    recordings = [path.name for path in folder.iterdir()]
    assert recordings
    assert not [name for name in recordings if MARK in name]
    await crowd.relay.stopService()
    await crowd.platform.stopService()
