"""The frames of one stream for one destination: which are sent, which are lost, and the reports on both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from typing_extensions import override
from zope.interface import implementer

from rtmprelay import events
from rtmprelay.interfaces import IFrameSubscriber
from rtmprelay.media import MediaKind, milliseconds_between
from rtmprelay.rtmp.client import RtmpPublisherProtocol
from rtmprelay.rtmp.encoding import shared_encoder
from rtmprelay.streams.accounting import DropReason
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.frames import METADATA_KEY, FrameBatch, FrameRole, LiveFrame
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.summary import DeliveryRecord, FrameSummary

#: Seconds between two reports of dropped frames, and how many of them make a report of the throughput.
REPORT_DROPS_EVERY = 5.0
DROP_REPORTS_PER_STATISTICS = 6

#: Publishes an event of one destination and stream; the fields that name those are filled in.
Report = Callable[..., None]


@attrs.define(eq=False)
class MissedFrames:
    """Frames that came without a connection. They are lost, unless the stream still has them when the next one opens."""

    messages: int = 0
    size: int = 0
    messages_since_keyframe: int = 0
    size_since_keyframe: int = 0

    def add(self, batch: FrameBatch) -> None:
        for frame in batch.frames:
            if frame.role is FrameRole.STARTUP:
                # The stream keeps it, and sends it on every new connection.
                continue
            if frame.role is FrameRole.KEYFRAME:
                self.messages_since_keyframe = self.size_since_keyframe = 0
            self.messages += 1
            self.size += frame.size
            self.messages_since_keyframe += 1
            self.size_since_keyframe += frame.size

    def recover_since_keyframe(self) -> None:
        """Everything since the last keyframe is sent after all."""
        self.messages -= self.messages_since_keyframe
        self.size -= self.size_since_keyframe


@implementer(IFrameSubscriber)
class Delivery(Consumer):
    """Sends the frames of a stream while its gate is open.

    The outlet's state machine opens the gate with a connection and closes it; frames only read what it has set.
    """

    observes_sending = True

    def __init__(
        self,
        stream: LiveStream,
        clock: IReactorTime,
        report: Report,
        on_publisher_returned: Callable[[], None],
        on_other_headers: Callable[[], None],
    ) -> None:
        super().__init__()
        self._stream = stream
        self._clock = clock
        self._on_publisher_returned = on_publisher_returned
        self._on_other_headers = on_other_headers
        #: What was sent, over all connections.
        self.record = DeliveryRecord()
        self._missed = MissedFrames()
        self._publisher: RtmpPublisherProtocol | None = None
        # The kinds of media whose decoder configuration is compared with what the server has been sent.
        self._comparing: set[MediaKind] = set()
        self._reporter = DeliveryReporter(self, report, clock, lambda: self._missed.messages)

    # -- the gate --------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._reporter.start()

    def open_gate(self, publisher: RtmpPublisherProtocol) -> None:
        """Send the startup frames and then everything over this connection."""
        self._comparing = set()
        # Frames that wait in the stream to be merged are older than the connection: they count as missed, and are
        # among the startup frames.
        self._stream.flush()
        self._publisher = publisher
        self.record.headers = {}
        publisher.consumer = self
        session = publisher.session
        self.attach(
            publisher.write_media, shared_encoder(session.channel.chunk_size, session.stream_id, True)
        )
        startup, wait_for_keyframe = not_sent_before(self.record.newest, *self._stream.startup())
        if any(frame.role is FrameRole.KEYFRAME for frame in startup):
            self._missed.recover_since_keyframe()
        self._drop_missed()
        self.begin(startup, wait_for_keyframe)

    def close_gate(self) -> None:
        """Send nothing more: the connection has gone, or is about to say goodbye."""
        if self._publisher is not None:
            self._publisher.consumer = None
            self._publisher = None
        self.detach()

    def stop_reporting(self) -> None:
        self._reporter.stop()

    def finish(self, quietly: bool = False) -> None:
        """Settle the account: no connection will come.

        Args:
            quietly: Report no loss, because nothing was to be sent.
        """
        if quietly:
            self._reporter.silence()
        self.close()
        self._drop_missed()
        self._reporter.report_drops()

    def _drop_missed(self) -> None:
        missed, self._missed = self._missed, MissedFrames()
        self.account.messages_in += missed.messages
        if missed.messages:
            self.account.dropped(DropReason.NOT_CONNECTED, missed.size, missed.messages)
            self._reporter.report_drops()

    # -- frames ----------------------------------------------------------------------------------------------

    @override
    def begin(self, startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        # Without a connection there is nothing to begin: `open_gate` asks the stream for the startup frames.
        if self._publisher is not None:
            super().begin(startup, wait_for_keyframe)

    @override
    def frames_arrived_indirectly(self, batch: FrameBatch) -> None:
        if self._comparing:
            self._compare_headers(batch)
        if self._publisher is None:
            self._missed.add(batch)
        else:
            super().frames_arrived_indirectly(batch)

    @override
    def sent(self, summary: FrameSummary) -> None:
        self.record.add(summary, self._clock.seconds())

    # -- a publisher that comes and goes ---------------------------------------------------------------------

    def publisher_left(self) -> None:
        """Nothing to do: the registry's observers learn how it left, and tell the outlet."""

    def publisher_returned(self) -> None:
        """Compare what the publisher sends from now on with what it sent before."""
        self._on_publisher_returned()
        # What was queued and is not sent yet counts as well.
        record = self.record
        record.headers = {**self._stream.previous_headers, **record.headers}
        self._comparing = {MediaKind.AUDIO, MediaKind.VIDEO} if record.headers else set()
        self.update_direct()

    @override
    def looks_at_frames(self) -> bool:
        return bool(self._comparing)

    def _compare_headers(self, batch: FrameBatch) -> None:
        for frame in batch.frames:
            if frame.role <= FrameRole.AUDIO:
                # From here on the encoder may change its configuration: every decoder can follow that.
                self._comparing.discard(frame.frame.kind)
            elif (
                frame.role is FrameRole.STARTUP
                and frame.frame.kind in self._comparing
                and self.record.headers.get(frame.startup_key) != frame.frame.payload
            ):
                # On the old connection a platform would decode garbage: this is another broadcast.
                self._comparing = set()
                self._on_other_headers()
                return

    # -- the account -----------------------------------------------------------------------------------------

    @property
    def messages_missed(self) -> int:
        """Messages that came without a connection and are not in `account` yet."""
        return self._missed.messages

    def dropped_by_reason(self) -> dict[str, int]:
        reasons = Counter(self.account.reasons())
        if self._missed.messages:
            reasons[DropReason.NOT_CONNECTED.value] += self._missed.messages
        return dict(reasons)


def not_sent_before(
    newest: int | None, startup: list[LiveFrame], wait_for_keyframe: bool
) -> tuple[list[LiveFrame], bool]:
    """The startup frames for a new connection, so that time does not run backwards for the server.

    If the cached pictures were sent already, the server waits for the next keyframe.

    Args:
        newest: The timestamp of the newest frame that was sent; None if there was none.
        startup: What the stream has for late joiners.
        wait_for_keyframe: Whether video before the next keyframe cannot be decoded after those.
    """
    coded = [frame for frame in startup if frame.role is not FrameRole.STARTUP]
    if newest is None or not coded or milliseconds_between(newest, coded[0].frame.timestamp_ms) > 0:
        return startup, wait_for_keyframe
    return [_not_older(newest, frame) for frame in startup if frame.role is FrameRole.STARTUP], True


def _not_older(timestamp_ms: int, frame: LiveFrame) -> LiveFrame:
    """The startup frame with this timestamp if its own is older; metadata has no time of its own."""
    if frame.startup_key == METADATA_KEY or milliseconds_between(timestamp_ms, frame.frame.timestamp_ms) >= 0:
        return frame
    return attrs.evolve(frame, frame=attrs.evolve(frame.frame, timestamp_ms=timestamp_ms))


class DeliveryReporter:
    """Publishes what is new in a consumer's account, from time to time."""

    def __init__(
        self,
        consumer: Consumer,
        report: Report,
        clock: IReactorTime,
        missed: Callable[[], int] = lambda: 0,
    ) -> None:
        """Args:
        missed: Messages that came without a connection, and are not in the consumer's account yet.
        """
        self._consumer = consumer
        self._report = report
        self._missed = missed
        self._drop_reports = 0
        self._reported = (0, 0, 0)
        self._reported_drops: dict[DropReason, int] = {}
        self._loop = LoopingCall(self._report_what_is_new)
        self._loop.clock = clock

    def start(self) -> None:
        self._loop.start(REPORT_DROPS_EVERY, now=False)

    def stop(self) -> None:
        if self._loop.running:
            self._loop.stop()

    def silence(self) -> None:
        """Report nothing more."""
        self._report = lambda *_, **__: None

    def _report_what_is_new(self) -> None:
        self.report_drops()
        self._drop_reports += 1
        if self._drop_reports % DROP_REPORTS_PER_STATISTICS == 0:
            self._report_throughput(REPORT_DROPS_EVERY * DROP_REPORTS_PER_STATISTICS)

    def report_drops(self) -> None:
        """Report what was dropped since the last time."""
        for reason, count in self._consumer.account.dropped_by_reason.items():
            new = count - self._reported_drops.get(reason, 0)
            if new:
                self._reported_drops[reason] = count
                self._report(events.DestinationDropped, reason=reason.value, count=new)

    def _report_throughput(self, seconds: float) -> None:
        account = self._consumer.account
        # What the stream still has may be sent after all: what was told once is not told again.
        dropped_so_far = max(self._reported[2], account.messages_dropped + self._missed())
        total = account.messages_sent, account.bytes_sent, dropped_so_far
        messages, size, dropped = (now - before for now, before in zip(total, self._reported, strict=True))
        self._reported = total
        self._report(
            events.DestinationStatistics,
            seconds=seconds,
            kbps=size / 125 / seconds,
            messages=messages,
            bytes=size,
            dropped=dropped,
            queued=self._consumer.messages_queued,
        )
