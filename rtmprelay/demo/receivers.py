"""The receivers of the demo's stream: destination servers, a player and a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import attrs
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from rtmprelay.config.relay import RelayConfig
from rtmprelay.demo.display import DIFFERS, IDENTICAL, Rate, Row
from rtmprelay.demo.tape import ReceivedTape
from rtmprelay.demo.verdict import ReceiverResult
from rtmprelay.errors import BadRecordingError
from rtmprelay.events import Event, RecordingFailed, RecordingFinished, RecordingStarted
from rtmprelay.flv.container import read_tags
from rtmprelay.interfaces import IEventSink, IFrameSubscriber, IStreamObserver
from rtmprelay.service import RelayService
from rtmprelay.streams.frames import FrameBatch, LiveFrame
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.merging import Pace

#: Any free port, for this machine only.
LOOPBACK = "tcp:0:interface=127.0.0.1"


def port_of(address: object) -> int:
    return cast(IPv4Address, address).port


@attrs.define(eq=False)
class Receiver:
    """One receiver of the stream.

    Attributes:
        state: Its state in a word.
        failure: What is wrong with it; None if nothing is known.
    """

    tape: ReceivedTape
    state: Callable[[], str]
    failure: Callable[[], str | None] = lambda: None
    _rate: Rate = attrs.field(factory=Rate, init=False)

    def row(self, now: float) -> Row:
        tape = self.tape
        media = DIFFERS if tape.difference is not None else IDENTICAL if tape.messages else ""
        return Row(
            name=tape.name,
            state=self.state(),
            messages=tape.messages,
            kbps=self._rate.update(now, tape.bytes),
            latency=tape.latency,
            worst_latency=tape.recent_worst_latency,
            media=media,
        )

    def result(self) -> ReceiverResult:
        """What it got, after the end."""
        return ReceiverResult.of(self.tape, self.failure())


# -- a destination -------------------------------------------------------------------------------------------


class DestinationServer(RelayService):
    """A server like those of platforms, which keeps a record of every message that reaches it.

    Attributes:
        tape: What reached it.
    """

    def __init__(self, tape: ReceivedTape, clock: IReactorTime, reactor: IReactorTime | None = None) -> None:
        super().__init__(RelayConfig(listen=(LOOPBACK,)), reactor)
        self.tape = tape
        self.registry.add_observer(_Listener(clock, tape))

    @property
    def url(self) -> str:
        return f"rtmp://127.0.0.1:{port_of(self.addresses[0])}/live/demo"


@implementer(IStreamObserver, IFrameSubscriber)
class _Listener:
    """Puts everything that is published to a server on a tape, from the first message on."""

    def __init__(self, clock: IReactorTime, tape: ReceivedTape) -> None:
        self._clock = clock
        self._tape = tape

    def stream_started(self, stream: LiveStream) -> None:
        # The stream is still empty, so nothing is delivered twice.
        stream.subscribe(self, Pace.AT_ONCE)

    def stream_stopped(self, stream: LiveStream, clean: bool) -> None:
        stream.unsubscribe(self)

    def begin(self, startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        self._record(startup)

    def frames_arrived(self, batch: FrameBatch) -> None:
        self._record(batch.frames)

    def write(self, data: bytes) -> None:
        """Never called: `frames_arrived` returns nothing to write."""

    def publisher_left(self) -> None:
        pass

    def publisher_returned(self) -> None:
        pass

    def _record(self, frames: Sequence[LiveFrame]) -> None:
        now = self._clock.seconds()
        for live in frames:
            self._tape.add(live.frame, now)


# -- the recording -------------------------------------------------------------------------------------------


@implementer(IEventSink)
class RecordingReceiver(Receiver):
    """The recording. It is compared when it is finished; until then only its size is known.

    Attributes:
        path: The file; None while there is none.
    """

    def __init__(self, tape: ReceivedTape, relay: RelayService) -> None:
        super().__init__(tape, self._state, lambda: self._error)
        self.path: str | None = None
        self._relay = relay
        self._error: str | None = None
        self._finished = False
        relay.events.add_sink(self)

    def event_happened(self, time: float, event: Event) -> None:
        match event:
            case RecordingStarted():
                self.path = event.path
            case RecordingFinished():
                self._finished = True
            case RecordingFailed():
                self._error = event.reason

    def _state(self) -> str:
        statuses = self._relay.recordings.statuses()
        if statuses:
            return statuses[0].state.value
        return "finished" if self._finished else "not begun"

    def row(self, now: float) -> Row:
        """Its row of the table, with what was written so far."""
        statuses = self._relay.recordings.statuses()
        messages, size = (statuses[0].messages_written, statuses[0].bytes_written) if statuses else (0, 0)
        return Row(
            name=self.tape.name,
            state=self.state(),
            messages=messages,
            kbps=self._rate.update(now, size),
            media="compared at the end",
        )

    def read(self) -> None:
        """Put all messages of the file on the tape."""
        if self.path is None:
            return
        try:
            with open(self.path, "rb") as file:
                for tag in read_tags(file):
                    frame = tag.to_frame()
                    if frame is not None:
                        self.tape.add(frame, None)
        except (OSError, BadRecordingError) as error:
            self._error = f"it cannot be read: {error}"
