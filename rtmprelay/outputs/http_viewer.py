"""One HTTP client that watches a live stream, from its first byte to the account at its end.

`http_flv` and `http_mp4` say in which format it gets the frames.
"""

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
from rtmprelay.wire.limits import LONGEST_STREAM_NAME

#: Seconds between two checks of whether a viewer still takes what is sent.
_CHECK_EVERY = 10.0


@attrs.frozen
class LiveMediaSettings:
    """Limits of live media over HTTP."""

    queue: QueueLimits = attrs.field(factory=QueueLimits)
    #: Bytes of UTF-8 in the name of a stream.
    stream_name_size: int = LONGEST_STREAM_NAME
    #: Viewers at the same time.
    max_viewers: int = 1_500
    #: A viewer that takes no byte for so many seconds, although some wait for it, is disconnected.
    stall_timeout: float = 30.0
    #: Seconds between two `media_statistics` events of a viewer.
    statistics_interval: float = 30.0


@attrs.frozen
class LiveMediaContext:
    """What all viewers share."""

    registry: StreamRegistry
    events: EventBus
    settings: LiveMediaSettings
    clock: IReactorTime


@implementer(IFrameSubscriber, IPushProducer)
class HttpViewer(Consumer):
    """A consumer like an RTMP player, with the same queue and the same rules, that ends with its stream.

    Subclasses attach an encoder and write what comes before the first frame.

    Args:
        connection_id: The viewer's name in the log and in events.
        left: Called once, when the viewer has gone or its response has ended.
    """

    _log = Logger()
    report: PlayReport

    def __init__(
        self,
        context: LiveMediaContext,
        connection_id: str,
        stream: LiveStream,
        response: MediaResponse,
        left: Callable[[HttpViewer], None],
    ) -> None:
        super().__init__(limits=context.settings.queue)
        self.stream = stream
        self._context = context
        self._connection_id = connection_id
        self._response = response
        self._left = left
        self._clock = context.clock
        self._began = self._clock.seconds()
        self._stall = StallWatch()
        # Why no more frames are taken; what is queued may still have to be sent.
        self._ending: str | None = None
        self._gone = False
        self.report = PlayReport(connection_id, stream.key, self, self._began, response.peer)
        self._timer: IDelayedCall | None = None

    @property
    def connection_id(self) -> str:
        return self._connection_id

    # -- for subclasses --------------------------------------------------------------------------------------

    def open(self) -> None:
        """Attach an encoder, and write what comes before the first frame."""
        raise NotImplementedError

    # -- the beginning ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Watch the stream from now on."""
        # It fails if the client closes the connection; a response that was sent to its end was ended here.
        self._response.when_over().addErrback(lambda _: self._leave_stream("the client closed it"))
        self._response.register(self)
        connection = self._connection_id
        self._tell(events.ConnectionOpened(connection=connection, peer=self._response.peer))
        self._tell(
            events.PlayStarted(connection=connection, stream=self.stream.key, protocol=self.audience or "")
        )
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
        """Called by `begin`, which catches errors."""
        super().begin(startup, wait_for_keyframe)

    @override
    def frames_arrived(self, batch: FrameBatch) -> bytes | None:
        return self.take_batch(batch) if self._ending is None else None

    def take_batch(self, batch: FrameBatch) -> bytes | None:
        """Called by `frames_arrived`, unless this viewer takes no more frames."""
        return super().frames_arrived(batch)

    @override
    def dropped_for_failure(self) -> None:
        self._disconnect()

    def publisher_left(self) -> None:
        """Send what is queued, and end."""
        self._guarded(lambda: self.end_after_queue("the stream ended"))

    def publisher_returned(self) -> None:
        """A viewer that is still here is about to end: it has to ask again for what comes now."""

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception:
            self._fail()

    def _fail(self) -> None:
        """A bug: disconnect this viewer, since it would wait forever. The stream goes on for all others."""
        self._log.failure("A bug in sending {stream} over HTTP", stream=self.stream.key)
        self._disconnect()

    def _disconnect(self) -> None:
        self._response.abort()
        self._leave_stream("an internal error")

    # -- the end ---------------------------------------------------------------------------------------------

    def end_after_queue(self, reason: str) -> None:
        """Take no more frames, and end the response when those that are queued have been sent."""
        if self._ending is None:
            self._ending = reason
            if not self.messages_queued:
                self.drained()

    @override
    def drained(self) -> None:
        if self._ending is not None:
            self.end_now(self._ending)

    def end_now(self, reason: str) -> None:
        """End the response. What is queued is dropped."""
        self._ending = reason
        self._response.finish()
        self._leave_stream(reason)

    def refuse(self, error: HttpError) -> None:
        """Send an error instead of media."""
        self._ending = error.message
        self._response.refuse(error)
        self._leave_stream(error.message)

    def _leave_stream(self, reason: str, limit: str | None = None) -> None:
        """Unsubscribe and report. Only the first call does anything: its reason is the one that is reported."""
        if self._gone:
            return
        self._gone = True
        self._ending = self._ending or reason
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self.close()
        self._context.registry.leave(self.stream, self)
        now = self._clock.seconds()
        self._tell(self.report.stopped(now, reason))
        self._tell(
            events.ConnectionClosed(
                connection=self._connection_id,
                peer=self._response.peer,
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
        self._response.writer.transport_full()
        self._stall.transport_full(self._response.writer, now)
        self.report.stalls.transport_full(now)
        self.transport_full()

    def resumeProducing(self) -> None:
        """The transport's buffer is empty."""
        self._stall.transport_ready()
        self.report.stalls.transport_ready(self._clock.seconds())
        if self._response.writer.transport_ready() and not self._gone:
            self._guarded(self.transport_ready)

    def stopProducing(self) -> None:
        """The transport is gone: `when_over` says so too."""

    # -- time ------------------------------------------------------------------------------------------------

    def _arm_timer(self) -> None:
        settings = self._context.settings
        times = [_CHECK_EVERY, self.report.last_at + settings.statistics_interval - self._clock.seconds()]
        stuck_since = self._stall.stuck_since
        if stuck_since is not None:
            times.append(stuck_since + settings.stall_timeout - self._clock.seconds())
        self._timer = self._clock.callLater(max(0.0, min(times)), self._check)

    def _check(self) -> None:
        """Disconnect a viewer that takes nothing, and report from time to time."""
        settings = self._context.settings
        now = self._clock.seconds()
        self._stall.look(self._response.writer, now)
        stuck_since = self._stall.stuck_since
        if stuck_since is not None and now >= stuck_since + settings.stall_timeout:
            self._response.abort()
            seconds = f"{settings.stall_timeout:g}"
            self._leave_stream(
                f"the peer took no byte for {seconds} s (limit: stall_timeout)", "stall_timeout"
            )
            return
        if now >= self.report.last_at + settings.statistics_interval:
            self._tell(self.report.statistics(now))
        self._arm_timer()
