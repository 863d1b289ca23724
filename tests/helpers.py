"""What tests of several layers share: media, events, waiting with a deadline, and an RTMP client on a real socket."""

from __future__ import annotations

import importlib
import random
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import clientFromString, connectProtocol
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer

from rtmprelay.amf import amf0
from rtmprelay.events import Event
from rtmprelay.interfaces import IEventSink
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import (
    ConnectAccepted,
    MediaReceived,
    PlayAccepted,
    PublishAccepted,
    SessionReport,
    StatusReceived,
)

_F = TypeVar("_F", bound=Callable[..., object])
_E = TypeVar("_E", bound=Event)
_T = TypeVar("_T")

#: A free port on this machine, as an endpoint description.
LOOPBACK = "tcp:0:interface=127.0.0.1"

#: Seconds after which a test that waits has failed. Generous: the machine may be busy with other tests.
DEADLINE = 40.0

#: Ports that Linux gives to nobody who does not ask for them by number, as it does with those from 32768 on: between the
#: choice of one and its use, no connection of another test can take it.
_PORTS_TO_CHOOSE = range(20_000, 32_000)

_chosen_ports: set[int] = set()

# Without types, and mypy does not take a stub for it.
_pytest_twisted: Any = importlib.import_module("pytest_twisted")


def real_reactor_test(test: _F) -> _F:
    """Run an `async` test in the real reactor."""
    return cast(_F, _pytest_twisted.ensureDeferred(test))


def real_reactor_fixture(fixture: _F) -> _F:
    """Run an `async` fixture that yields in the real reactor."""
    return cast(_F, _pytest_twisted.async_yield_fixture(fixture))


def free_port() -> int:
    """A port on which nothing listens, for a program that has to be told one."""
    while True:
        port = random.SystemRandom().choice(_PORTS_TO_CHOOSE)
        with socket.socket() as trial, suppress(OSError):
            trial.bind(("127.0.0.1", port))
            if port not in _chosen_ports:
                _chosen_ports.add(port)
                return port


# -- media ---------------------------------------------------------------------------------------------------


def video_header(configuration: bytes = b"avcC") -> MediaFrame:
    """The decoder configuration of H.264."""
    return MediaFrame(MediaKind.VIDEO, 0, b"\x17\x00\x00\x00\x00" + configuration)


def audio_header(configuration: bytes = b"\x12\x10") -> MediaFrame:
    """The decoder configuration of AAC."""
    return MediaFrame(MediaKind.AUDIO, 0, b"\xaf\x00" + configuration)


def keyframe(timestamp_ms: int, size: int = 40) -> MediaFrame:
    """A keyframe of H.264."""
    return MediaFrame(
        MediaKind.VIDEO, timestamp_ms, b"\x17\x01\x00\x00\x00" + timestamp_ms.to_bytes(4) + bytes(size)
    )


def inter(timestamp_ms: int, size: int = 20) -> MediaFrame:
    """A frame of H.264 that needs those before it."""
    return MediaFrame(
        MediaKind.VIDEO, timestamp_ms, b"\x27\x01\x00\x00\x00" + timestamp_ms.to_bytes(4) + bytes(size)
    )


def audio(timestamp_ms: int, size: int = 10) -> MediaFrame:
    """A frame of AAC."""
    return MediaFrame(MediaKind.AUDIO, timestamp_ms, b"\xaf\x01" + timestamp_ms.to_bytes(4) + bytes(size))


def metadata(**values: float) -> MediaFrame:
    """An onMetaData message."""
    return MediaFrame(MediaKind.DATA, 0, amf0.encode("onMetaData", dict(values)))


def start_frames() -> list[MediaFrame]:
    """Metadata and decoder configurations: what every encoder sends first."""
    return [metadata(width=1280.0), video_header(), audio_header()]


def group(begin_ms: int, pictures: int = 5, size: int = 20) -> list[MediaFrame]:
    """A group of pictures with audio, 40 ms apart."""
    frames: list[MediaFrame] = []
    for number in range(pictures):
        time = begin_ms + 40 * number
        frames.append(inter(time, size) if number else keyframe(time, size))
        frames.append(audio(time))
    return frames


def is_picture(frame: MediaFrame) -> bool:
    """Whether a frame is coded video."""
    return frame.kind is MediaKind.VIDEO and frame.payload[1] == 1


def assert_decodable(frames: Sequence[MediaFrame], sent: Sequence[MediaFrame]) -> None:
    """Every video frame that arrived is a keyframe or follows the one it needs, and the order was kept."""
    positions = {frame.payload: index for index, frame in enumerate(sent)}
    pictures_sent = [frame.payload for frame in sent if is_picture(frame)]
    pictures = [frame.payload for frame in frames if is_picture(frame)]
    indexes = [positions[frame.payload] for frame in frames]
    assert len(set(indexes)) == len(indexes), "a frame came twice"
    assert [positions[payload] for payload in pictures] == sorted(positions[payload] for payload in pictures)
    for before, payload in zip([None, *pictures], pictures, strict=False):
        if payload[0] >> 4 != 1:
            assert before is not None, "the first picture is not a keyframe"
            assert pictures_sent[pictures_sent.index(payload) - 1] == before, (
                "a picture lacks its predecessor"
            )


# -- events --------------------------------------------------------------------------------------------------


@implementer(IEventSink)
class EventList:
    """An event sink that collects events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def event_happened(self, time: float, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[_E]) -> list[_E]:
        """All events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


# -- clients on real sockets ---------------------------------------------------------------------------------


def the_reactor() -> Any:
    """The reactor that the tests run in."""
    from twisted.internet import reactor

    return reactor


async def until(
    condition: Callable[[], object], what: str = "the condition", within: float = DEADLINE
) -> None:
    """Let the reactor run until a condition is true."""
    clock = cast(IReactorTime, the_reactor())
    deadline = clock.seconds() + within
    while not condition():
        assert clock.seconds() < deadline, f"waited {within:g} s in vain for {what}"
        await deferLater(clock, 0.005)


def wait_for(condition: Callable[[], _T], what: str, within: float = DEADLINE) -> _T:
    """Block until a condition is true, for tests of other processes and threads; returns its value."""
    deadline = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {within:g} s in vain for {what}"
        time.sleep(0.01)
    return found


class SocketClient(Protocol):
    """An RTMP client on a real socket."""

    def __init__(self, app: str = "live") -> None:
        self.session = ClientSession(app, f"rtmp://127.0.0.1/{app}")
        self.frames: list[MediaFrame] = []
        self.events: list[SessionReport] = []
        self.lost: str | None = None

    @property
    def codes(self) -> list[str]:
        """The codes of all `onStatus` messages except those that start a publish or a play."""
        return [event.code for event in self.events if isinstance(event, StatusReceived)]

    @override
    def connectionMade(self) -> None:
        self.flush()

    @override
    def dataReceived(self, data: bytes) -> None:
        for event in self.session.receive_data(data, 0.0):
            self.events.append(event)
            if isinstance(event, MediaReceived):
                self.frames += event.frames
        self.flush()

    @override
    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.lost = reason.getErrorMessage()

    def flush(self) -> None:
        """Write what the session wants to send."""
        data = self.session.bytes_to_send()
        if data and self.transport is not None:
            self.transport.write(data)

    def has(self, kind: type[object]) -> bool:
        """Whether the session reported an event of this kind."""
        return any(isinstance(event, kind) for event in self.events)

    def send(self, *frames: MediaFrame) -> None:
        self.flush()
        assert self.transport is not None
        self.transport.write(b"".join(self.session.send_media(frame) for frame in frames))

    async def publish(self, name: str) -> None:
        """Publish, and wait for the answer."""
        self.session.publish(name)
        self.flush()
        await until(lambda: self.has(PublishAccepted), "the answer to publish")

    async def play(self, name: str) -> None:
        """Play, and wait for the answer."""
        self.session.play(name)
        self.flush()
        await until(lambda: self.has(PlayAccepted), "the answer to play")

    async def close(self) -> None:
        """Abort the connection, and wait for its end."""
        if self.lost is None and self.transport is not None:
            cast(Any, self.transport).abortConnection()
            await until(lambda: self.lost is not None, "the end of the connection")


class ProxiedClient(SocketClient):
    """A client behind a proxy that uses the PROXY protocol."""

    @override
    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.write(b"PROXY TCP4 198.51.100.7 127.0.0.1 4000 1935\r\n")
        super().connectionMade()


async def connect_client(endpoint: str | IStreamClientEndpoint, app: str = "live") -> SocketClient:
    """An RTMP client whose `connect` was accepted."""
    if isinstance(endpoint, str):
        endpoint = clientFromString(the_reactor(), endpoint)
    connecting: Deferred[SocketClient] = connectProtocol(endpoint, SocketClient(app))
    client = await connecting
    await until(lambda: client.has(ConnectAccepted), "the answer to connect")
    return client
