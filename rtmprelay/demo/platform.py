"""The demo's destinations: servers on this machine that write down every message that reaches them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from rtmprelay.config.relay import RelayConfig
from rtmprelay.demo.tape import ReceivedTape
from rtmprelay.interfaces import IFrameSubscriber, IStreamObserver
from rtmprelay.service import RelayService
from rtmprelay.streams.frames import FrameBatch, LiveFrame
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.merging import Pace

#: Any port that is free, and nobody but this machine.
LOOPBACK = "tcp:0:interface=127.0.0.1"


def port_of(address: object) -> int:
    """The port that a listener got."""
    return cast(IPv4Address, address).port


@implementer(IStreamObserver, IFrameSubscriber)
class Witness:
    """Hears everything that is published to a server, from the first message on."""

    def __init__(self, clock: IReactorTime, tape: ReceivedTape) -> None:
        self._clock = clock
        self._tape = tape

    def stream_started(self, stream: LiveStream) -> None:
        """Somebody publishes: listen."""
        # The stream has no content yet, so that nothing comes twice.
        stream.subscribe(self, Pace.AT_ONCE)

    def stream_stopped(self, stream: LiveStream, clean: bool) -> None:
        """It is over."""
        stream.unsubscribe(self)

    def begin(self, startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        """What a late joiner needs; who is there from the beginning gets nothing."""
        self._write_down(startup)

    def frames_arrived(self, batch: FrameBatch) -> None:
        """Frames came."""
        self._write_down(batch.frames)

    def write(self, data: bytes) -> None:
        """Never called: `frames_arrived` returns nothing to write."""

    def _write_down(self, frames: Sequence[LiveFrame]) -> None:
        now = self._clock.seconds()
        for live in frames:
            self._tape.add(live.frame, now)

    def publisher_left(self) -> None:
        """Nothing more comes."""

    def publisher_returned(self) -> None:
        """More comes; `begin` follows."""


class Platform(RelayService):
    """A server as platforms have them, which somebody else streams to.

    Attributes:
        tape: What reached it.
    """

    def __init__(self, tape: ReceivedTape, clock: IReactorTime, reactor: IReactorTime | None = None) -> None:
        super().__init__(RelayConfig(listen=(LOOPBACK,)), reactor)
        self.tape = tape
        self.registry.add_observer(Witness(clock, tape))

    @property
    def url(self) -> str:
        """Where it can be streamed to."""
        return f"rtmp://127.0.0.1:{port_of(self.addresses[0])}/live/demo"
