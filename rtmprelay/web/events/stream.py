"""Server-sent events: what happens, and once a second how everything is. Made once, the same bytes for every reader."""

from __future__ import annotations

from collections.abc import Iterator

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from rtmprelay import __version__
from rtmprelay.web.api.documents import Document, each, listed, object_pieces, plain
from rtmprelay.web.api.sampling import INTERVAL, RateSampler
from rtmprelay.web.api.status import StatusDocuments
from rtmprelay.web.events.reader import EventReader, Round, set_headers
from rtmprelay.web.events.recent import RecentEvents
from rtmprelay.web.server.answers import API_VERSION, HttpError, json_bytes
from rtmprelay.web.server.request import RelayRequest
from rtmprelay.web.server.turns import Turns
from rtmprelay.web.settings import HttpSettings

#: Readers that are written to before others get their turn, and seconds until the next ones: two hundred writes in
#: a row would hold up the live streams.
_AT_ONCE = 8
_BETWEEN = 0.01

#: Seconds for which events are gathered: a hundred viewers who come at once are one write for each reader.
_GATHERED = 0.1

#: After this many milliseconds a browser whose connection was lost comes back.
_RETRY = b"retry: 2000\n"


def message(kind: bytes, content: bytes) -> bytes:
    """One server-sent event. JSON has no line breaks in it."""
    return b"event: %s\ndata: %s\n\n" % (kind, content)


class EventStream:
    """All readers of events. They are served in rounds, one after the other."""

    _log = Logger()

    def __init__(
        self,
        settings: HttpSettings,
        status: StatusDocuments,
        sampler: RateSampler,
        recent: RecentEvents,
        turns: Turns,
        clock: IReactorTime,
    ) -> None:
        self._settings = settings
        self._status = status
        self._sampler = sampler
        self._recent = recent
        self._clock = clock
        self._readers: dict[EventReader, None] = {}
        # Up to which event everybody has been told.
        self._told = 0
        self._status_due = 0.0
        self._timer: IDelayedCall | None = None
        self._wakes_at = 0.0
        self._in_round = False
        # Rounds that began before the last reader left are not gone on with.
        self._generation = 0
        self._turns = turns
        self._hello = Document(
            self._hello_pieces, turns, clock, INTERVAL, lambda: (sampler.samples, recent.count)
        )
        recent.add_listener(self._event_happened)

    @property
    def readers(self) -> int:
        """How many there are."""
        return len(self._readers)

    # -- newcomers -------------------------------------------------------------------------------------------

    def add(self, request: RelayRequest) -> None:
        """Answer a request with events, for as long as the client stays; for HEAD, only say what would come."""
        if request.method == b"HEAD":
            set_headers(request)
            request.write(b"")
            request.finish()
            return
        most = self._settings.max_event_readers
        if len(self._readers) >= most:
            raise HttpError(503, f"there are {most} readers of events already: try again later")
        if not self._readers:
            self._told = self._recent.count
            self._status_due = self._clock.seconds() + INTERVAL
        reader = EventReader(request, self._settings, self._clock)
        self._readers[reader] = None
        reader.start(self._gone)
        Deferred.fromCoroutine(self._greet(reader)).addErrback(self._failed)
        self._arm()

    async def _greet(self, reader: EventReader) -> None:
        heard = self._recent.count
        hello = await self._hello.get()
        status = await self._status.everything()
        reader.send(_RETRY + message(b"hello", hello) + message(b"status", status))
        # What the others have been told while the greeting was made.
        for event in self._recent.between(heard, self._told):
            reader.send(message(b"event", json_bytes(event)))
        reader.heard = max(heard, self._told)

    def _hello_pieces(self) -> Iterator[bytes]:
        events = listed(self._recent.between(0, self._recent.count))
        streams, destinations = self._sampler.histories()
        head = {
            "api_version": API_VERSION,
            "version": __version__,
            "changes_allowed": self._settings.token is not None,
            "interval": INTERVAL,
            "rtmp": self._status.rtmp_ports(),
        }
        history = object_pieces(
            [
                *plain({"interval": INTERVAL}),
                ("streams", each(streams.items())),
                ("destinations", each(destinations.items())),
            ]
        )
        return object_pieces([*plain(head), ("history", history), ("events", events)])

    def _gone(self, reader: EventReader) -> None:
        self._readers.pop(reader, None)
        if not self._readers:
            self._rest()

    # -- rounds ----------------------------------------------------------------------------------------------

    def _event_happened(self) -> None:
        if self._readers:
            self._arm()

    def _arm(self) -> None:
        """Wake up when the next round is due: soon if something happened, else for the next status."""
        if self._in_round:
            return
        now = self._clock.seconds()
        due = self._status_due
        if self._told < self._recent.count:
            due = min(due, now + _GATHERED)
        if self._timer is not None:
            if self._wakes_at <= due:
                return
            self._timer.cancel()
        self._wakes_at = due
        self._timer = self._clock.callLater(max(0.0, due - now), self._begin_round)

    def _rest(self) -> None:
        """Nobody listens: whatever is on its way is for nobody."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._in_round = False
        self._generation += 1

    def _begin_round(self) -> None:
        self._timer = None
        self._in_round = True
        Deferred.fromCoroutine(self._run_round(self._generation)).addErrback(self._failed)

    async def _run_round(self, generation: int) -> None:
        now = self._clock.seconds()
        status = b""
        if now >= self._status_due:
            # Not one for each second that was missed.
            self._status_due = max(self._status_due + INTERVAL, now)
            status = message(b"status", await self._status.everything())
        last = self._recent.count
        told = self._recent.between(self._told, last)
        events = await self._turns.gather(message(b"event", json_bytes(event)) for event in told)
        if generation == self._generation:
            self._told = last
            self._send_to_some(Round(last - len(events), events, status), iter(list(self._readers)))

    def _send_to_some(self, current: Round, readers: Iterator[EventReader]) -> None:
        self._timer = None
        for number, reader in enumerate(readers, 1):
            reader.send_round(current)
            if number == _AT_ONCE:
                self._timer = self._clock.callLater(_BETWEEN, self._send_to_some, current, readers)
                return
        self._in_round = False
        if self._readers:
            self._arm()

    def _failed(self, failure: Failure) -> None:
        """A bug of ours: the readers are sent away, and come back."""
        self._log.failure("A bug in telling events over HTTP", failure)
        self.stop()

    def stop(self) -> None:
        """End all of it."""
        self._rest()
        for reader in list(self._readers):
            reader.close()
