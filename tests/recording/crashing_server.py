"""Real servers that are killed while they record: `python -m tests.recording.crashing_server SOURCE FOLDER KILLS SEED`.

Each server is a process of its own with sockets, reactor and writer thread; it is forked instead of started, which
saves the time of all the imports. Its publisher is a client on a real socket that sends the source over and over
again, much faster than real time. Every other server cuts segments all the time, so that kills also hit the
moments in which a file is completed.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import time
from pathlib import Path

import attrs

# All that a server needs, but not the reactor: each process has its own.
from rtmprelay.config.relay import RelayConfig
from rtmprelay.events import Event, RecordingStarted
from rtmprelay.flv.container import read_tags
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.recording.settings import RecordingSettings

#: Milliseconds between two rounds of the source.
PAUSE = 40

#: Bytes after which servers are killed at the latest: without segments, and with many of them, each with its own index.
MOST_OF_ONE_FILE = 450_000
MOST_OF_SEGMENTS = 1_900_000

#: Seconds that are waited on top, so that kills hit all moments between two writes.
LONGEST_MOMENT = 0.012

#: Seconds in which a server must have recorded so much.
DEADLINE = 60.0


@attrs.frozen
class Kill:
    """When a server is killed: a moment after it has recorded so much."""

    recorded: int
    moment: float
    segments: bool


def planned_kills(number: int, seed: int) -> list[Kill]:
    """The same for the same seed, however fast the machine is."""
    chance = random.Random(seed)
    kills = []
    for one in range(number):
        segments = one % 2 == 1
        most = MOST_OF_SEGMENTS if segments else MOST_OF_ONE_FILE
        kills.append(Kill(chance.randrange(most), chance.uniform(0, LONGEST_MOMENT), segments))
    return kills


def source_frames(path: Path) -> list[MediaFrame]:
    """What is sent in the first round."""
    with path.open("rb") as file:
        return [frame for tag in read_tags(file) if (frame := tag.to_frame()) is not None]


def frames_of_round(frames: list[MediaFrame], number: int) -> list[MediaFrame]:
    """What is sent in any round: without metadata, and with the time going on."""
    if not number:
        return frames
    length = max(frame.timestamp_ms for frame in frames) + PAUSE
    return [
        attrs.evolve(frame, timestamp_ms=frame.timestamp_ms + number * length)
        for frame in frames
        if frame.kind is not MediaKind.DATA
    ]


def serve(source: Path, folder: Path, started: int, segments: bool) -> None:
    """Run a server with a publisher until it is killed."""
    from twisted.internet.defer import Deferred
    from twisted.internet.task import deferLater
    from zope.interface import implementer

    from rtmprelay.interfaces import IEventSink
    from rtmprelay.service import RelayService
    from tests.helpers import connect_client, the_reactor

    reactor = the_reactor()

    @implementer(IEventSink)
    class Teller:
        def event_happened(self, time: float, event: Event) -> None:
            if isinstance(event, RecordingStarted):
                os.write(started, b"x")

    recording = RecordingSettings(
        record_all=True, folder=folder, flush_interval=0.01, segment_duration=1.0 if segments else None
    )
    service = RelayService(RelayConfig(listen=("tcp:0:interface=127.0.0.1",), recording=recording))
    service.events.add_sink(Teller())
    service.startService()
    port = getattr(service.addresses[0], "port", 0)

    async def publish() -> None:
        client = await connect_client(f"tcp:127.0.0.1:{port}")
        await client.publish("crash")
        frames = source_frames(source)
        for number in range(1_000_000):
            sent = frames_of_round(frames, number)
            for begin in range(0, len(sent), 10):
                client.send(*sent[begin : begin + 10])
                await deferLater(reactor, 0.002)

    Deferred.fromCoroutine(publish())
    reactor.run()


def kill_one(source: Path, folder: Path, kill: Kill) -> None:
    """Start a server, and kill it while it records."""
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        try:
            serve(source, folder, writable, kill.segments)
        finally:
            os._exit(1)
    os.close(writable)
    try:
        assert select.select([readable], [], [], DEADLINE)[0], "the server does not record"
        wait_until_recorded(folder, kill.recorded)
        time.sleep(kill.moment)
    finally:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(readable)
    assert os.WTERMSIG(status) == signal.SIGKILL, "the server ended by itself"


def wait_until_recorded(folder: Path, size: int) -> None:
    """Come back when the files of a folder have so many bytes."""
    deadline = time.monotonic() + DEADLINE
    while sum(path.stat().st_size for path in folder.iterdir()) < size:
        assert time.monotonic() < deadline, f"the server did not record {size} bytes within {DEADLINE} s"
        time.sleep(0.001)


def main(source: str, folder: str, kills: str, seed: str) -> None:
    for number, kill in enumerate(planned_kills(int(kills), int(seed))):
        target = Path(folder, f"{number:03d}")
        target.mkdir(parents=True)
        kill_one(Path(source), target, kill)


if __name__ == "__main__":
    main(*sys.argv[1:])
