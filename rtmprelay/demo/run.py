"""One run of the demo: start everything, stream, end properly, and compare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall, deferLater

from rtmprelay import client
from rtmprelay.clock import steady
from rtmprelay.config.relay import RelayConfig
from rtmprelay.demo.display import Display, Rate, Row
from rtmprelay.demo.receivers import LOOPBACK, DestinationServer, Receiver, RecordingReceiver, port_of
from rtmprelay.demo.source import Source
from rtmprelay.demo.tape import ReceivedTape, SentTape, SpoiledTape
from rtmprelay.demo.test_card.stream import frames
from rtmprelay.demo.verdict import DemoVerdict
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.destinations.status import DestinationState, DestinationStatus
from rtmprelay.errors import RtmpRelayError
from rtmprelay.media import MediaFrame
from rtmprelay.recording.settings import RecordingSettings
from rtmprelay.rtmp.client import RtmpPlayClientProtocol, RtmpPublisherProtocol
from rtmprelay.service import RelayService
from rtmprelay.web.settings import HttpSettings
from rtmprelay.wire.url import RtmpUrl

STREAM = "live/demo"
PLAYER = "player"
RECORDING = "recording"

_POLL_INTERVAL = 0.02


class DemoFailedError(RtmpRelayError):
    """The demo cannot continue; the text says why."""


@attrs.frozen
class DemoSettings:
    #: The folder of the recording.
    folder: Path
    #: How long to stream; None until `Demo.finish`.
    seconds: float | None = None
    destinations: int = 2
    #: Whether the recording is kept, so that the verdict says where it is.
    keeps_recording: bool = False
    #: The receiver whose media is changed before it is compared, to see that the comparison notices.
    spoiled: str | None = None
    #: Seconds for all to connect, and at the end for the last message to arrive; enough for busy machines.
    timeout: float = 20.0

    @property
    def destination_names(self) -> list[str]:
        return [f"destination-{number}" for number in range(1, self.destinations + 1)]

    @property
    def receiver_names(self) -> list[str]:
        return [*self.destination_names, PLAYER, RECORDING]


class Demo:
    """A relay with destinations, a player and a recording, and the source of their stream."""

    def __init__(self, settings: DemoSettings, display: Display, reactor: IReactorTime) -> None:
        self._settings = settings
        self._display = display
        self._reactor = reactor
        self._clock = steady(reactor)
        self._over: Deferred[None] = Deferred()
        self._trouble: str | None = None
        self._publisher: RtmpPublisherProtocol | None = None
        self._player: RtmpPlayClientProtocol | None = None
        self._source = Source(self._clock, frames(), self._send, settings.seconds, self.finish)
        self._source_rate = Rate()
        tapes = {name: self._tape(name) for name in settings.receiver_names}
        self._servers = {
            name: DestinationServer(tapes[name], self._clock, reactor) for name in settings.destination_names
        }
        recording = RecordingSettings(record_all=True, folder=settings.folder)
        http = HttpSettings(listen=LOOPBACK)
        self.relay = RelayService(RelayConfig(listen=(LOOPBACK,), recording=recording, http=http), reactor)
        self._player_tape = tapes[PLAYER]
        self._recording = RecordingReceiver(tapes[RECORDING], self.relay)
        self._receivers = [
            *(self._destination(name, tapes[name]) for name in settings.destination_names),
            Receiver(tapes[PLAYER], self._player_state),
            self._recording,
        ]

    def _tape(self, name: str) -> ReceivedTape:
        kind = SpoiledTape if name == self._settings.spoiled else ReceivedTape
        return kind(name, self.sent)

    def _destination(self, name: str, tape: ReceivedTape) -> Receiver:
        def status() -> DestinationStatus | None:
            return next((one for one in self.relay.destinations.statuses() if one.name == name), None)

        def state() -> str:
            now = status()
            return "removed" if now is None else now.state.value

        def failure() -> str | None:
            now = status()
            return None if now is None else now.last_error

        return Receiver(tape, state, failure)

    @property
    def sent(self) -> SentTape:
        return self._source.tape

    def finish(self) -> None:
        """Stop streaming: end everything properly, and compare."""
        if not self._over.called:
            self._over.callback(None)

    def start(self) -> Deferred[DemoVerdict]:
        """Run the demo; the Deferred fires after the comparison."""
        return Deferred.fromCoroutine(self._run())

    async def _run(self) -> DemoVerdict:
        try:
            await self._start()
            await self._stream()
        except RtmpRelayError as error:
            self._trouble = self._trouble or str(error)
        finally:
            self._source.stop()
            seconds = self._source.seconds
            await self._stop()
        self._recording.read()
        return DemoVerdict.of(
            self.sent,
            [receiver.result() for receiver in self._receivers],
            seconds,
            self._recording.path if self._settings.keeps_recording else None,
            self._trouble,
        )

    # -- the beginning ---------------------------------------------------------------------------------------

    async def _start(self) -> None:
        for server in self._servers.values():
            server.startService()
        self.relay.startService()
        for name, server in self._servers.items():
            self.relay.destinations.add(DestinationSettings(name, RtmpUrl.parse(server.url)))
        self._print_addresses()
        url = self._rtmp_url()
        self._publisher = await client.publish(self._reactor, url)
        self._publisher.when_lost.addCallback(self._publisher_lost)
        self._player = await client.play(self._reactor, url)
        self._player.deliver_to(self._player_got)
        await self._until(self._all_are_connected, "the relay did not reach all destinations")

    def _rtmp_url(self) -> str:
        return f"rtmp://127.0.0.1:{port_of(self.relay.addresses[0])}/{STREAM}"

    def _print_addresses(self) -> None:
        page = f"http://127.0.0.1:{port_of(self.relay.http_address)}/"
        self._display.say(
            f"A test stream goes to {self._rtmp_url()}, and from there to {self._settings.destinations} other servers"
            " on this machine, to a player and into a file.",
            f"To watch it:  {page} in a browser, or: ffplay {self._rtmp_url()}",
            "",
        )

    def _send(self, frame: MediaFrame) -> None:
        if self._publisher is not None:
            self._publisher.send(frame)

    def _player_got(self, got: list[MediaFrame]) -> None:
        now = self._clock.seconds()
        for frame in got:
            self._player_tape.add(frame, now)

    def _publisher_lost(self, result: None) -> None:
        if not self._over.called:
            self._trouble = "the relay closed the connection of the source"
            self.finish()

    def _all_are_connected(self) -> bool:
        statuses = self.relay.destinations.statuses()
        return all(status.state is DestinationState.CONNECTED for status in statuses)

    # -- while it runs ---------------------------------------------------------------------------------------

    async def _stream(self) -> None:
        if self._over.called:
            return
        self._source.start()
        # A bitrate needs a first value to compare the next one with.
        self._rows()
        showing = LoopingCall(self._show)
        showing.clock = self._reactor
        shown = showing.start(self._display.interval, now=False)
        await self._over
        showing.stop()
        await shown
        self._show()

    def _show(self) -> None:
        self._display.show(self._source.seconds, self._rows())

    def _rows(self) -> list[Row]:
        now, sent = self._clock.seconds(), self.sent
        source = Row("source", "publishing", sent.messages, self._source_rate.update(now, sent.bytes))
        return [source, *(receiver.row(now) for receiver in self._receivers)]

    def _player_state(self) -> str:
        return "playing" if self._player is not None and not self._player.is_closing else "gone"

    # -- the end ---------------------------------------------------------------------------------------------

    async def _stop(self) -> None:
        if self._publisher is not None:
            self._publisher.end()
        await self._wait(self._no_more_can_arrive)
        if self._player is not None:
            self._player.end()
        await self.relay.stopService()
        for server in self._servers.values():
            await server.stopService()

    def _no_more_can_arrive(self) -> bool:
        """Whether every receiver has everything, or has lost its connection."""
        if self._trouble is not None:
            return True
        servers_done = all(one.tape.is_complete or not len(one.registry) for one in self._servers.values())
        player_is_open = self._player is not None and not self._player.is_closing
        return servers_done and (self._player_tape.is_complete or not player_is_open)

    async def _until(self, condition: Callable[[], bool], trouble: str) -> None:
        if not await self._wait(lambda: condition() or self._over.called):
            raise DemoFailedError(f"{trouble} within {self._settings.timeout:g} s")

    async def _wait(self, condition: Callable[[], bool]) -> bool:
        """Whether the condition became true in time."""
        deadline = self._clock.seconds() + self._settings.timeout
        while not condition():
            if self._clock.seconds() > deadline:
                return False
            await deferLater(self._reactor, _POLL_INTERVAL)
        return True
