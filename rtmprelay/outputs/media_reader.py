"""One HTTP client that watches a live stream: from its first byte to its account at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime
from twisted.logger import Logger
from typing_extensions import override
from zope.interface import implementer

from rtmprelay import events
from rtmprelay.event_bus import EventBus
from rtmprelay.interfaces import IFrameSubscriber
from rtmprelay.outputs.media_response import MediaResponse
from rtmprelay.rtmp.transport_buffers import StallWatch
from rtmprelay.streams.accounting import PlayReport
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.frames import FrameBatch, LiveFrame
from rtmprelay.streams.limits import QueueLimits
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamRegistry
from rtmprelay.web.server.responses import HttpError

#: The longest time between two looks at a reader.
_LOOK_EVERY = 10.0


@attrs.frozen
class LiveMediaSettings:
    """What those who watch over HTTP may cost."""

    queue: QueueLimits = attrs.field(factory=QueueLimits)
    #: Readers at the same time.
    max_readers: int = 1_500
    #: Seconds during which a reader takes no byte although some wait for it.
    stall_timeout: float = 30.0
    #: Seconds between two reports on what a reader gets.
    statistics_interval: float = 30.0


@attrs.frozen
class MediaContext:
    """What all readers share."""

    registry: StreamRegistry
    events: EventBus
    settings: LiveMediaSettings
    clock: IReactorTime


@attrs.frozen
class Visitor:
    """Who watches, by which names it is known."""

    connection_id: str
    peer: str


@implementer(IFrameSubscriber, IPushProducer)
class MediaReader(Consumer):
    """A consumer like an RTMP player, with the same queue and the same rules; it ends with its stream.

    Subclasses say in which format the frames go out.
    """

    _log = Logger()

    def __init__(
        self,
        context: MediaContext,
        visitor: Visitor,
        stream: LiveStream,
        response: MediaResponse,
        left: Callable[[MediaReader], None],
    ) -> None:
        """Args:
        left: Called once, when it is over.
        """
        settings = context.settings
        super().__init__(limits=settings.queue)
        self.stream = stream
        self._context = context
        self._visitor = visitor
        self._response = response
        self._left = left
        self._clock = context.clock
        self._began = self._clock.seconds()
        self._stall = StallWatch()
        self._ending: str | None = None
        self._gone = False
        self._report = PlayReport(visitor.connection_id, stream.key, self, self._began)
        self._timer: IDelayedCall | None = None

    # -- for subclasses --------------------------------------------------------------------------------------

    def open(self) -> None:
        """Prepare for the frames that come with `begin`."""
        raise NotImplementedError

    # -- the beginning ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Get the stream from now on."""
        # When the answer was sent to its end, it was this side that ended it.
        self._response.when_over().addErrback(lambda _: self._depart("the client closed it"))
        self._response.register(self)
        visitor, key = self._visitor, self.stream.key
        self._tell(events.ConnectionOpened(connection=visitor.connection_id, peer=visitor.peer))
        self._tell(events.PlayStarted(connection=visitor.connection_id, stream=key))
        self._arm_timer()
        self.open()
        self.stream.subscribe(self)

    def _tell(self, event: events.ConnectionEvent) -> None:
        self._context.events.publish(event)

    # -- from the stream -------------------------------------------------------------------------------------

    @override
    def begin(self, startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        if self._ending is None:
            self._guarded(lambda: self.take_startup(startup, wait_for_keyframe))

    def take_startup(self, startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        """The stream begins."""
        super().begin(startup, wait_for_keyframe)

    @override
    def frames_arrived(self, batch: FrameBatch) -> bytes | None:
        return self.take_batch(batch) if self._ending is None else None

    def take_batch(self, batch: FrameBatch) -> bytes | None:
        """Live frames came in."""
        return super().frames_arrived(batch)

    @override
    def dropped_for_failure(self) -> None:
        self._cut_off()

    def publisher_left(self) -> None:
        """The stream is over."""
        self._guarded(lambda: self.end_behind_queue("the stream ended"))

    def publisher_returned(self) -> None:
        """Another broadcast, which this reader does not get: for that it has to ask again."""

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception:
            self._fail()

    def _fail(self) -> None:
        """A bug: the stream goes on for everybody else, and this client does not wait for ever."""
        self._log.failure("A bug in sending {stream} over HTTP", stream=self.stream.key)
        self._cut_off()

    def _cut_off(self) -> None:
        self._response.abort()
        self._depart("an internal error")

    # -- the end ---------------------------------------------------------------------------------------------

    def end_behind_queue(self, reason: str) -> None:
        """Take nothing more; when all that waits has been sent, end the answer."""
        if self._ending is None:
            self._ending = reason
            if not self.messages_queued:
                self.drained()

    @override
    def drained(self) -> None:
        if self._ending is not None:
            self.end_now(self._ending)

    def end_now(self, reason: str) -> None:
        """End the answer; what waits is dropped."""
        self._ending = reason
        self._response.finish()
        self._depart(reason)

    def refuse(self, error: HttpError) -> None:
        """Answer with an error instead of media."""
        self._ending = error.message
        self._response.refuse(error)
        self._depart(error.message)

    def _depart(self, reason: str, limit: str | None = None) -> None:
        """It is over, for whatever reason came first."""
        if self._gone:
            return
        self._gone = True
        self._ending = self._ending or reason
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self.close()
        self._context.registry.leave(self.stream, self)
        now = self._clock.seconds()
        self._tell(self._report.stopped(now, reason))
        visitor = self._visitor
        self._tell(
            events.ConnectionClosed(
                connection=visitor.connection_id,
                peer=visitor.peer,
                reason=reason,
                limit=limit,
                duration=now - self._began,
                bytes_in=0,
                bytes_out=self._response.writer.bytes_out,
            )
        )
        self._left(self)

    # -- back-pressure ---------------------------------------------------------------------------------------

    def pauseProducing(self) -> None:
        """The transport's buffer is full."""
        now = self._clock.seconds()
        self._stall.transport_full(self._response.writer, now)
        self._report.stalls.transport_full(now)
        self.transport_full()

    def resumeProducing(self) -> None:
        """The transport's buffer is empty."""
        self._stall.transport_ready()
        self._report.stalls.transport_ready(self._clock.seconds())
        if not self._gone:
            self._guarded(self.transport_ready)

    def stopProducing(self) -> None:
        """The transport has gone; whoever waits for the end of the answer is told."""

    # -- time ------------------------------------------------------------------------------------------------

    def _arm_timer(self) -> None:
        settings = self._context.settings
        times = [_LOOK_EVERY, self._report.last_at + settings.statistics_interval - self._clock.seconds()]
        stuck_since = self._stall.stuck_since
        if stuck_since is not None:
            times.append(stuck_since + settings.stall_timeout - self._clock.seconds())
        self._timer = self._clock.callLater(max(0.0, min(times)), self._look)

    def _look(self) -> None:
        """See whether the client still takes what is sent, and report from time to time."""
        settings = self._context.settings
        now = self._clock.seconds()
        self._stall.look(self._response.writer, now)
        stuck_since = self._stall.stuck_since
        if stuck_since is not None and now >= stuck_since + settings.stall_timeout:
            self._response.abort()
            seconds = f"{settings.stall_timeout:g}"
            self._depart(f"the peer took no byte for {seconds} s (limit: stall_timeout)", "stall_timeout")
            return
        if now >= self._report.last_at + settings.statistics_interval:
            self._tell(self._report.statistics(now))
        self._arm_timer()
