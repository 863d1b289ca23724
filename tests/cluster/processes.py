"""A cluster of real processes: nodes, Redis, encoders, players, and a sink that notices two publishers at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.task import LoopingCall, deferLater
from twisted.protocols.portforward import ProxyFactory, ProxyServer
from typing_extensions import override
from zope.interface import implementer

from rtmprelay.config.relay import RelayConfig
from rtmprelay.events import ConnectionClosed, PublishStarted, PublishStopped
from rtmprelay.interfaces import IEventSink
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.service import RelayService
from rtmprelay.session.reports import PublishAccepted
from tests.cluster.redis import RedisServer
from tests.helpers import LOOPBACK, SocketClient, connect_client, free_port, start_frames, the_reactor, until
from tests.service.command import TWISTD, Server

SECRET = "the secret of the cluster of a test"


def picture(number: int, size: int = 800) -> MediaFrame:
    """A picture that differs from all others; every 25th is a keyframe."""
    first = b"\x17\x01\x00\x00\x00" if number % 25 == 0 else b"\x27\x01\x00\x00\x00"
    return MediaFrame(MediaKind.VIDEO, number * 40, first + number.to_bytes(4) + bytes(size))


def numbers(frames: list[MediaFrame]) -> list[int]:
    """The numbers of the pictures."""
    return [
        int.from_bytes(frame.payload[5:9])
        for frame in frames
        if frame.kind is MediaKind.VIDEO and frame.payload[1] == 1
    ]


class Node(Server):
    """A node in a process of its own, in a network namespace if it is given one."""

    def __init__(
        self,
        folder: Path,
        name: str,
        directory: str,
        *options: str,
        host: str = "127.0.0.1",
        namespace: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        secret = folder / "secret"
        # Another node may be reading it.
        if not secret.exists():
            secret.write_text(SECRET)
        self.name = name
        self.host = host
        port = free_port()
        super().__init__(
            folder,
            *("--cluster", directory, "--cluster-secret", f"file:{secret}", "--node-name", name),
            *("--node-url", f"rtmp://{host}:{port}", "--http-status", f"{host}:0"),
            *("--http-token", "a-token-for-tests", "--log-format", "json"),
            *options,
            listen=f"tcp:{port}:interface={host}",
            command=TWISTD if namespace is None else ["ip", "netns", "exec", namespace, *TWISTD],
            log=f"{name}.log",
            environment=environment,
        )

    async def ready(self) -> None:
        """Wait until it is in the cluster; the reactor goes on meanwhile."""
        await until(self._listens, f"{self.name} to listen")
        await until(lambda: self.ask("GET", "/health/ready")["ready"], f"{self.name} to be ready")

    def _listens(self) -> bool:
        text = self.text()
        assert self.process.poll() is None, text
        return text.count("Listening on") >= 2

    def ask(self, method: str, path: str, document: object = None, token: str = "") -> Any:
        import urllib.error

        try:
            return super().ask(method, path, document, token or "a-token-for-tests")
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return {"ready": False}
            raise

    def freeze(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.thaw()
        super().close()


class CuttableLink:
    """A TCP proxy in front of a port, which a test can cut: requests vanish, and nothing is refused, as with a firewall."""

    def __init__(self, port: int) -> None:
        self._factory = _LinkFactory("127.0.0.1", port)
        self._port: Any = the_reactor().listenTCP(0, self._factory, interface="127.0.0.1")

    @property
    def port(self) -> int:
        return int(self._port.getHost().port)

    def cut(self) -> None:
        self._factory.is_cut = True

    def mend(self) -> None:
        """New connections work; those of before have lost bytes."""
        self._factory.is_cut = False
        self._factory.abort_all()

    async def close(self) -> None:
        self._factory.abort_all()
        await self._port.stopListening()


class _Link(ProxyServer):
    """One connection through the link."""

    factory: _LinkFactory

    @override
    def connectionMade(self) -> None:
        self.factory.links.append(self)
        super().connectionMade()

    @override
    def dataReceived(self, data: bytes) -> None:
        if not self.factory.is_cut:
            super().dataReceived(data)  # type: ignore[no-untyped-call]


class _LinkFactory(ProxyFactory):
    protocol = _Link
    noisy = False

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.links: list[_Link] = []
        self.is_cut = False

    def abort_all(self) -> None:
        links, self.links = self.links, []
        for link in links:
            transport: Any = link.transport
            transport.abortConnection()


class Encoder:
    """Publishes 25 pictures a second, and tries again when it is cut off or refused, as encoders do."""

    def __init__(self, first: int = 0) -> None:
        self.number = first
        self.client: SocketClient | None = None
        self._loop = LoopingCall(self.send_one)

    async def publish(
        self, port: int, name: str = "cam", host: str = "127.0.0.1", is_slow: bool = False
    ) -> bool:
        """Publish to a node; whether it was accepted.

        Args:
            is_slow: Send only what `send_one` is called for.
        """
        client = await connect_client(TCP4ClientEndpoint(the_reactor(), host, port))
        client.session.publish(name)
        client.flush()
        await until(
            lambda: client.has(PublishAccepted) or client.codes or client.lost is not None,
            "the answer to publish",
        )
        if not client.has(PublishAccepted):
            await client.close()
            return False
        self.client = client
        self.number += (25 - self.number) % 25
        client.send(*start_frames())
        if not is_slow and not self._loop.running:
            self._loop.start(0.04)
        return True

    async def publish_until_accepted(
        self, port: int, name: str = "cam", pause: float = 0.5, host: str = "127.0.0.1"
    ) -> None:
        while not await self.publish(port, name, host):
            await deferLater(the_reactor(), pause)

    def send_one(self) -> None:
        """Send the next picture, if it is connected."""
        if self.client is not None and self.client.lost is None:
            self.client.send(picture(self.number))
            self.number += 1

    def fall_silent(self) -> None:
        """Stay connected, and send nothing."""
        self._loop.stop()

    async def leave(self) -> None:
        """Cut the connection."""
        client, self.client = self.client, None
        if client is not None:
            await client.close()

    async def stop(self) -> None:
        if self._loop.running:
            self._loop.stop()
        await self.leave()


async def play(port: int, name: str = "cam", host: str = "127.0.0.1") -> SocketClient:
    """A player on a node."""
    client = await connect_client(TCP4ClientEndpoint(the_reactor(), host, port))
    await client.play(name)
    return client


@implementer(IEventSink)
class CountingSink:
    """A destination that takes every publisher, and notices when two of them send at the same time.

    Each publisher gets a stream of its own, so that none is refused: refusing is not the sink's job here.
    """

    def __init__(self, *hosts: str) -> None:
        listen = tuple(f"tcp:0:interface={host}" for host in hosts) or (LOOPBACK,)
        self.service = RelayService(RelayConfig(listen=listen))
        self.service.events.add_sink(self)
        #: Publishers that are connected now.
        self.connected: set[str] = set()
        #: The most that were connected at the same time.
        self.most = 0
        self.publishes = 0

    def event_happened(self, time: float, event: object) -> None:
        if isinstance(event, PublishStarted):
            self.publishes += 1
            self.connected.add(event.connection)
            self.most = max(self.most, len(self.connected))
        elif isinstance(event, PublishStopped | ConnectionClosed):
            self.connected.discard(event.connection)

    @property
    def url(self) -> str:
        return self.urls[0]

    @property
    def urls(self) -> list[str]:
        """Where it is reached, by each of its addresses."""
        places: list[Any] = list(self.service.addresses)
        return [f"rtmp://{place.host}:{place.port}/live/key" for place in places]


@attrs.define(eq=False)
class RealCluster:
    """Everything that a test has started."""

    folder: Path
    redis: RedisServer
    nodes: list[Node] = attrs.field(factory=list)
    clients: list[SocketClient] = attrs.field(factory=list)
    encoders: list[Encoder] = attrs.field(factory=list)
    sink: CountingSink = attrs.field(factory=CountingSink)
    links: list[CuttableLink] = attrs.field(factory=list)

    @classmethod
    async def start(cls, folder: Path, count: int = 3, *options: str, with_sink: bool = True) -> Self:
        cluster = cls(folder, RedisServer(folder))
        try:
            await cluster._start(count, options, with_sink)
        except BaseException:
            # Nobody has it yet who could stop it.
            await cluster.stop()
            raise
        return cluster

    async def _start(self, count: int, options: tuple[str, ...], with_sink: bool) -> None:
        self.sink.service.startService()
        if with_sink:
            options = (*options, "--relay-to", self.sink.url)
        for number in range(count):
            self.nodes.append(Node(self.folder, f"node{number + 1}", self.redis.url, *options))
        for node in self.nodes:
            await node.ready()

    async def add_behind_a_link(self, name: str) -> CuttableLink:
        """Add a node whose way to the directory can be cut."""
        link = CuttableLink(self.redis.port)
        self.links.append(link)
        node = Node(self.folder, name, f"redis://127.0.0.1:{link.port}/0", "--relay-to", self.sink.url)
        self.nodes.append(node)
        await node.ready()
        return link

    def encoder(self) -> Encoder:
        self.encoders.append(Encoder())
        return self.encoders[-1]

    async def player(self, node: Node, name: str = "cam") -> SocketClient:
        self.clients.append(await play(node.port(), name, node.host))
        return self.clients[-1]

    async def ask_for(self, node: Node, name: str = "cam") -> SocketClient:
        """A player that has asked, whatever the answer will be."""
        client = await connect_client(TCP4ClientEndpoint(the_reactor(), "127.0.0.1", node.port()))
        self.clients.append(client)
        client.session.play(name)
        client.flush()
        return client

    async def stop(self) -> None:
        for encoder in self.encoders:
            await encoder.stop()
        for client in self.clients:
            await client.close()
        for node in self.nodes:
            node.close()
        for link in self.links:
            await link.close()
        self.redis.__exit__()
        stopped: Deferred[None] = self.sink.service.stopService()
        await stopped

    def secrets_in_logs(self) -> bool:
        """Whether the secret of the cluster was written anywhere."""
        return any(SECRET in node.text() for node in self.nodes)
