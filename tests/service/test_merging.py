"""Frames that are joined, on real sockets of every kind and in real time."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.endpoints import (
    TCP4ClientEndpoint,
    UNIXClientEndpoint,
    connectProtocol,
    wrapClientTLS,
)
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.ssl import Certificate, optionsForClientTLS
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from typing_extensions import override

from rtmprelay.clock import steady
from rtmprelay.config.relay import RelayConfig
from rtmprelay.events import ConnectionClosed, PublishStopped
from rtmprelay.media import MediaFrame
from rtmprelay.rtmp.reading_pace import Reading, ReadingPace
from rtmprelay.service import RelayService
from rtmprelay.session.reports import ConnectAccepted, PublishAccepted
from rtmprelay.streams.frames import FrameBatch
from rtmprelay.streams.live_stream import LiveStream
from tests.helpers import (
    LOOPBACK,
    EventList,
    ProxiedClient,
    SocketClient,
    group,
    inter,
    keyframe,
    real_reactor_fixture,
    real_reactor_test,
    start_frames,
    the_reactor,
    until,
)
from tests.service.command import BlockingClient
from tests.streams.merging_helpers import FixedMerging, Receiver

#: Long enough to be told from the noise of a busy machine.
WINDOW = 0.1

KINDS = ["tcp", "ssl", "unix", "haproxy"]


class PacedService:
    """A relay whose windows are as wide as the test says."""

    def __init__(self, kind: str, folder: Path, certificate: tuple[Path, Path], **windows: float) -> None:
        key, signed = certificate
        self._socket = str(folder / "rtmp.sock")
        self._certificate = signed
        self.kind = kind
        listen = {
            "tcp": LOOPBACK,
            "ssl": f"ssl:0:interface=127.0.0.1:privateKey={key}:certKey={signed}",
            "unix": f"unix:{self._socket}",
            "haproxy": f"haproxy:{LOOPBACK}",
        }[kind]
        self.told = EventList()
        self.service = RelayService(RelayConfig(listen=(listen,)))
        self.service.events.add_sink(self.told)
        # In earnest the load says how wide they are.
        self.service.registry._merging = FixedMerging(steady(the_reactor()), **windows)
        self.service.startService()
        self.clients: list[SocketClient] = []

    @property
    def port(self) -> int:
        port: int = getattr(self.service.addresses[0], "port", 0)
        return port

    def stream(self, name: str = "cam") -> LiveStream:
        return self.service.registry.live(f"live/{name}")

    def _endpoint(self) -> IStreamClientEndpoint:
        if self.kind == "unix":
            return UNIXClientEndpoint(the_reactor(), self._socket)
        endpoint = TCP4ClientEndpoint(the_reactor(), "127.0.0.1", self.port)
        if self.kind == "ssl":
            trusted = Certificate.loadPEM(self._certificate.read_bytes())
            return wrapClientTLS(optionsForClientTLS("127.0.0.1", trusted), endpoint)
        return endpoint

    async def connect(self) -> SocketClient:
        client = (ProxiedClient if self.kind == "haproxy" else SocketClient)()
        self.clients.append(client)
        await connectProtocol(self._endpoint(), client)
        await until(lambda: client.has(ConnectAccepted), "the answer to connect")
        return client

    async def watched(self, name: str = "cam") -> tuple[SocketClient, SocketClient]:
        """A publisher and a viewer, with the pause in force."""
        publisher, viewer = await self.connect(), await self.connect()
        await publisher.publish(name)
        publisher.send(*start_frames(), *group(0))
        await until(lambda: self.service.registry.get(f"live/{name}") is not None, "the stream")
        await until(lambda: self.stream(name).counters.keyframes, "the keyframe")
        await viewer.play(name)
        publisher.send(inter(200))
        await until(lambda: len(viewer.frames) == 14, "the first frames")
        viewer.frames.clear()
        return publisher, viewer

    async def stop(self) -> None:
        await self.service.stopService()
        for client in self.clients:
            await client.close()


Start = Callable[..., PacedService]


@real_reactor_fixture
async def start(tmp_path: Path, certificate: tuple[Path, Path]) -> AsyncIterator[Start]:
    """Starts services, which are stopped afterwards."""
    started: list[PacedService] = []

    def start_one(kind: str = "tcp", **windows: float) -> PacedService:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        service = PacedService(kind, folder, certificate, **windows)
        started.append(service)
        return service

    yield start_one
    for service in started:
        await service.stop()


class Batches(Receiver):
    """Keeps how many frames came together."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    @override
    def frames_arrived(self, batch: FrameBatch) -> bytes | None:
        self.sizes.append(batch.count)
        return super().frames_arrived(batch)


async def send_steadily(client: SocketClient, frames: list[MediaFrame], interval: float) -> None:
    for frame in frames:
        client.send(frame)
        await deferLater(the_reactor(), interval)


# -- every kind of socket ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@real_reactor_test
async def test_frames_gather_and_all_arrive(start: Start, kind: str) -> None:
    server = start(kind, viewer=WINDOW)
    publisher, viewer = await server.watched()
    batches = Batches()
    server.stream().subscribe(batches)
    frames = [inter(time) for time in range(240, 840, 10)]
    await send_steadily(publisher, frames, 0.01)
    await until(lambda: len(viewer.frames) == len(frames), "all frames")
    assert viewer.frames == frames
    # 60 frames in 0.6 s, in six or seven lots; fewer if this machine is slow. Over TLS they gather here, not there.
    assert len(batches.sizes) <= 20, batches.sizes
    assert sum(batches.sizes) == len(frames)


@pytest.mark.parametrize("kind", KINDS)
@real_reactor_test
async def test_without_a_window_nothing_gathers_on_purpose(start: Start, kind: str) -> None:
    server = start(kind, viewer=0.0, server=0.0)
    publisher, viewer = await server.watched()
    for number in range(10):
        publisher.send(inter(240 + number))
        await until(lambda expected=number: len(viewer.frames) == expected + 1, "the frame")  # type: ignore[misc]
    assert server.service.factory.reading_pace._timer is None


async def words_of_the_end(server: PacedService, way: str) -> list[tuple[str, str, int]]:
    """The events and status codes when a publisher goes in this way."""
    publisher, viewer = await server.watched()
    publisher.send(inter(240))
    # It has left, so far as the publisher is concerned; the server may have read it, or not.
    await deferLater(the_reactor(), 0.02)
    getattr(publisher.transport, way)()
    await until(lambda: server.told.of(ConnectionClosed), "the end")
    await until(lambda: len(viewer.frames) == 1, "the last frame")
    (stopped,) = server.told.of(PublishStopped)
    closed = server.told.of(ConnectionClosed)[0]
    return [(stopped.name, stopped.reason, stopped.messages), (closed.name, closed.reason, 0)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["loseConnection", "abortConnection"])
@real_reactor_test
async def test_end_of_a_stream_is_the_same_with_and_without_merging(
    start: Start, kind: str, way: str
) -> None:
    plain = await words_of_the_end(start(kind, viewer=0.0), way)
    paced = await words_of_the_end(start(kind, viewer=WINDOW), way)
    assert plain == paced


@pytest.mark.parametrize("kind", KINDS)
@real_reactor_test
async def test_the_server_stops_in_the_middle_of_a_pause(start: Start, kind: str) -> None:
    reactor = the_reactor()
    readers, timers = set(reactor.getReaders()), set(reactor.getDelayedCalls())
    server = start(kind, viewer=5.0, reading=5.0)
    publisher, viewer = await server.connect(), await server.connect()
    await publisher.publish("cam")
    publisher.send(*start_frames(), *group(0))
    pace = server.service.factory.reading_pace
    await until(lambda: pace._timer is not None, "the pause")
    await viewer.play("cam")
    publisher.send(inter(240))
    await deferLater(reactor, 0.05)
    began = time.monotonic()
    await server.service.stopService()
    assert time.monotonic() - began < 3, "it waited for the pause to end"
    await until(lambda: publisher.lost and viewer.lost, "the end of both")
    assert publisher.codes == ["NetStream.Unpublish.Success"]
    assert pace._timer is None
    assert set(reactor.getReaders()) - readers == set()
    assert [call for call in set(reactor.getDelayedCalls()) - timers if call.active()] == []


@real_reactor_test
async def test_publisher_over_tls_is_left_unread_only_while_nobody_watches(start: Start) -> None:
    """TLS delivers a read in pieces: viewers would get each piece in a write of its own."""
    server = start("ssl", viewer=WINDOW, reading=WINDOW)
    publisher = await server.connect()
    await publisher.publish("cam")
    publisher.send(*start_frames(), *group(0))
    pace = server.service.factory.reading_pace
    await until(lambda: bool(pace._paused), "the pause")
    viewer = await server.connect()
    await viewer.play("cam")
    for at in range(240, 480, 40):
        publisher.send(inter(at))
        await deferLater(the_reactor(), 0.02)
    await until(lambda: viewer.frames[-1:] == [inter(440)], "all frames")
    assert not pace._paused


# -- many, and fast ones -------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", ["viewer", "reading"])
@real_reactor_test
async def test_many_publishers_at_once(start: Start, window: str) -> None:
    server = start(**{window: WINDOW})
    publishers = [await server.connect() for _ in range(30)]
    receivers: list[Receiver] = []
    for number, publisher in enumerate(publishers):
        await publisher.publish(f"cam{number}")
        if window == "viewer":
            receivers.append(Receiver())
            server.stream(f"cam{number}").subscribe(receivers[-1])
    for step in range(30):
        for publisher in publishers:
            publisher.send(keyframe(step * 40) if step % 10 == 0 else inter(step * 40))
        await deferLater(the_reactor(), 0.01)
    streams = [server.stream(f"cam{number}") for number in range(30)]
    await until(lambda: all(stream.counters.messages == 30 for stream in streams), "all frames")
    await until(lambda: all(receiver.account.messages_sent == 30 for receiver in receivers), "their delivery")


def push(port: int, data: bytes) -> BlockingClient:
    """Send so much as fast as the server takes it, from a thread of its own."""
    client = BlockingClient(port)
    client.session.publish("fast")
    client.wait(PublishAccepted)
    client.socket.sendall(data)
    return client


async def take_all(server: PacedService, data: bytes, count: int, watched: bool) -> None:
    """Publish this until all of it has come."""
    pushing = deferToThread(push, server.port, data)
    await until(lambda: server.service.registry.get("live/fast"), "the publish")
    stream = server.stream("fast")
    if watched:
        stream.subscribe(Receiver())
    await until(lambda: stream.counters.messages == count, "all frames", within=60)
    client: Any = await pushing
    client.socket.close()


@pytest.mark.parametrize("windows", [{"viewer": 0.04}, {"reading": 0.04}], ids=["watched", "unwatched"])
@real_reactor_test
async def test_a_fast_publisher_hardly_ever_waits(
    start: Start, windows: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """25 MB in frames of 40 kB, as fast as they go: some 400 reads, and a pause for each would take 15 s.

    Counted and not timed: a sender that this machine keeps from sending empties the socket, and then a pause is right.
    """
    pauses: list[float] = []
    pause = ReadingPace.pause

    def counted(pace: ReadingPace, reading: Reading, seconds: float) -> None:
        pauses.append(seconds)
        pause(pace, reading, seconds)

    monkeypatch.setattr(ReadingPace, "pause", counted)
    frames = [keyframe(0, 40_000)] + [inter(time * 10, 40_000) for time in range(1, 625)]
    session = _publishing_session()
    data = b"".join(session.send_media(frame) for frame in frames)
    await take_all(start(**windows), data, len(frames), watched="viewer" in windows)
    reads = len(data) // 65536
    assert len(pauses) < reads / 2


def _publishing_session() -> Any:
    """A session that encodes as `push` does: with the server's chunk size, on the first message stream."""
    from rtmprelay.session.client import ClientSession

    session = ClientSession("live", "rtmp://127.0.0.1/live")
    session.stream_id = 1
    return session


# -- the load itself -----------------------------------------------------------------------------------------


@real_reactor_test
async def test_a_crowd_opens_the_window_and_its_leaving_closes_it() -> None:
    """The whole way, with nothing set by hand: from the figures of a second to the pause of a socket."""
    service = RelayService(RelayConfig(listen=(LOOPBACK,), merge_window=0.04))
    service.startService()
    publisher = SocketClient()
    try:
        port: int = getattr(service.addresses[0], "port", 0)
        await connectProtocol(TCP4ClientEndpoint(the_reactor(), "127.0.0.1", port), publisher)
        await until(lambda: publisher.has(ConnectAccepted), "the answer to connect")
        await publisher.publish("cam")
        publisher.send(keyframe(0))
        await until(lambda: service.registry.get("live/cam"), "the stream")
        stream = service.registry.live("live/cam")
        crowd = [Receiver() for _ in range(400)]
        for receiver in crowd:
            stream.subscribe(receiver)

        def send() -> bool:
            publisher.send(inter(40))
            return stream.reading_pause == 0.04

        await until(send, "the pause")
        for receiver in crowd[5:]:
            stream.unsubscribe(receiver)

        def send_more() -> bool:
            publisher.send(inter(40))
            return stream.reading_pause == 0

        await until(send_more, "the end of the pause")
        assert len({receiver.account.messages_sent for receiver in crowd[:5]}) == 1
    finally:
        await service.stopService()
        await publisher.close()
