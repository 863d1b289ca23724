"""One run of the demo: start everything, let it stream, end it in order, and compare."""

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
from rtmprelay.demo.display import Display
from rtmprelay.demo.platform import LOOPBACK, Platform, port_of
from rtmprelay.demo.receivers import Receiver, RecordingReceiver, SourceRow
from rtmprelay.demo.recording import RecordingWatch
from rtmprelay.demo.source import Source
from rtmprelay.demo.table import Row
from rtmprelay.demo.tape import ReceivedTape, SentTape, SpoiledTape
from rtmprelay.demo.test_card.stream import frames
from rtmprelay.demo.verdict import Verdict
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

_LOOK_AGAIN = 0.02


class DemoFailedError(RtmpRelayError):
    """The demo cannot go on; the text says why."""


@attrs.frozen
class DemoSettings:
    """What a demo can be told."""

    #: Where to record to.
    folder: Path
    #: How long to stream; None until `Demo.finish`.
    seconds: float | None = None
    destinations: int = 2
    #: Whether the recording is there afterwards, so that it is worth telling where.
    keeps_recording: bool = False
    #: Whose media is spoilt on purpose before it is compared, to see that this is noticed.
    spoiled: str | None = None
    #: Seconds for everybody to connect, and at the end for the last message to arrive. Busy machines take their time.
    patience: float = 20.0

    @property
    def destination_names(self) -> list[str]:
        """What the destinations are called."""
        return [f"destination-{number}" for number in range(1, self.destinations + 1)]

    @property
    def receiver_names(self) -> list[str]:
        """Everybody who gets the stream."""
        return [*self.destination_names, PLAYER, RECORDING]


class Demo:
    """A relay with destinations, a player and a recording, and the source that they get their stream from."""

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
        tapes = {name: self._tape(name) for name in settings.receiver_names}
        self._platforms = {
            name: Platform(tapes[name], self._clock, reactor) for name in settings.destination_names
        }
        recording = RecordingSettings(record_all=True, folder=settings.folder)
        http = HttpSettings(listen=LOOPBACK)
        self.relay = RelayService(RelayConfig(listen=(LOOPBACK,), recording=recording, http=http), reactor)
        self._recording = RecordingWatch(self.relay)
        self._source_row = SourceRow()
        self._player_tape = tapes[PLAYER]
        self._receivers = [
            *(self._destination_receiver(name, tapes[name]) for name in settings.destination_names),
            Receiver(tapes[PLAYER], self._player_state),
            RecordingReceiver(
                tapes[RECORDING],
                self._recording.state,
                self._recording.failure,
                written=self._recording.written,
            ),
        ]

    def _tape(self, name: str) -> ReceivedTape:
        kind = SpoiledTape if name == self._settings.spoiled else ReceivedTape
        return kind(name, self.sent)

    @property
    def sent(self) -> SentTape:
        """What was sent."""
        return self._source.tape

    def finish(self) -> None:
        """Stream no longer: end everything in order, and compare."""
        if not self._over.called:
            self._over.callback(None)

    def start(self) -> Deferred[Verdict]:
        """Do all of it; fires when it is over."""
        return Deferred.fromCoroutine(self._run())

    async def _run(self) -> Verdict:
        try:
            await self._start()
            await self._stream()
        except RtmpRelayError as error:
            self._trouble = self._trouble or str(error)
        finally:
            self._source.stop()
            seconds = self._source.seconds
            await self._stop()
        self._recording.replay_into(self._receivers[-1].tape)
        return Verdict.of(
            self.sent,
            [receiver.result() for receiver in self._receivers],
            seconds,
            self._recording.path if self._settings.keeps_recording else None,
            self._trouble,
        )

    # -- the beginning ---------------------------------------------------------------------------------------

    async def _start(self) -> None:
        for platform in self._platforms.values():
            platform.startService()
        self.relay.startService()
        for name, platform in self._platforms.items():
            self.relay.destinations.add(DestinationSettings(name, RtmpUrl.parse(platform.url)))
        self._tell_where()
        url = self._rtmp_url()
        self._publisher = await client.publish(self._reactor, url)
        self._publisher.when_lost.addCallback(self._publisher_lost)
        self._player = await client.play(self._reactor, url)
        self._player.deliver_to(self._player_got)
        await self._until(self._all_are_connected, "the relay did not reach all destinations")

    def _rtmp_url(self) -> str:
        return f"rtmp://127.0.0.1:{port_of(self.relay.addresses[0])}/{STREAM}"

    def _tell_where(self) -> None:
        page = f"http://127.0.0.1:{port_of(self.relay.http_address)}/"
        self._display.say(
            f"A test stream goes to {self._rtmp_url()}, and from there to {self._settings.destinations} other servers"
            " on this machine, to a player and into a file.",
            f"Look at it:  {page} in a browser, or: ffplay {self._rtmp_url()}",
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
        # Bitrates need a first look to compare the next ones with.
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
        now = self._clock.seconds()
        return [self._source_row.row(self._source, now), *(one.row(now) for one in self._receivers)]

    def _destination_receiver(self, name: str, tape: ReceivedTape) -> Receiver:
        def status() -> DestinationStatus | None:
            return next((one for one in self.relay.destinations.statuses() if one.name == name), None)

        def state() -> str:
            now = status()
            return "removed" if now is None else now.state.value

        def failure() -> str | None:
            now = status()
            return None if now is None else now.last_error

        return Receiver(tape, state, failure)

    def _player_state(self) -> str:
        return "playing" if self._player is not None and not self._player.is_closing else "gone"

    # -- the end ---------------------------------------------------------------------------------------------

    async def _stop(self) -> None:
        if self._publisher is not None:
            self._publisher.end()
        await self._wait(self._nothing_more_comes)
        if self._player is not None:
            self._player.end()
        await self.relay.stopService()
        for platform in self._platforms.values():
            await platform.stopService()

    def _nothing_more_comes(self) -> bool:
        """Whether everybody has all of it, or has no connection left that something could come through."""
        if self._trouble is not None:
            return True
        platforms = self._platforms.values()
        player_waits = self._player is not None and not self._player.is_closing
        return all(one.tape.is_complete or not len(one.registry) for one in platforms) and (
            self._player_tape.is_complete or not player_waits
        )

    async def _until(self, condition: Callable[[], bool], trouble: str) -> None:
        if not await self._wait(lambda: condition() or self._over.called):
            raise DemoFailedError(f"{trouble} within {self._settings.patience:g} s")

    async def _wait(self, condition: Callable[[], bool]) -> bool:
        """Whether something became true in time."""
        deadline = self._clock.seconds() + self._settings.patience
        while not condition():
            if self._clock.seconds() > deadline:
                return False
            await deferLater(self._reactor, _LOOK_AGAIN)
        return True
