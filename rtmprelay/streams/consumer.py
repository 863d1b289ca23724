"""One receiver of a live stream: takes frames at its own pace, and never holds up anyone else.

Players, destinations and HTTP readers all have one. While the receiver keeps up, shared bytes go straight to it; when
its transport is full, frames are queued. The account says exactly what happened to each message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from rtmprelay.interfaces import IFrameSubscriber
from rtmprelay.media import MediaKind
from rtmprelay.streams.accounting import DeliveryAccount, DropReason, PlayReport
from rtmprelay.streams.frame_queue import FrameQueue
from rtmprelay.streams.frames import FrameBatch, FrameEncoder, FrameRole, LiveFrame, summarize
from rtmprelay.streams.limits import QueueLimits
from rtmprelay.streams.summary import FrameSummary

#: How many bytes are encoded and written at a time while a queue drains; a transport is full at this size.
_WRITE_SIZE = 65536


def _write_nowhere(data: bytes) -> None:
    """There is no transport."""


class Player(Protocol):
    """Somebody who watches a stream, in whatever way."""

    @property
    def audience(self) -> str | None:
        """The format in which the stream is watched."""

    @property
    def account(self) -> DeliveryAccount: ...

    @property
    def report(self) -> PlayReport | None:
        """Who watches, and since when; None where nobody knows."""

    @property
    def messages_queued(self) -> int: ...

    @property
    def bytes_queued(self) -> int: ...


class Consumer:
    """Delivers frames through `write`, as bytes made by `encoder`.

    Without them it begins detached: everything is dropped, and counted, until `attach`.
    """

    #: Whether `sent` is called; players save the call.
    observes_sending = False

    #: The format in which a player gets the stream: "rtmp", "flv", "mp4" or "hls". None for a consumer that is no player.
    audience: str | None = None

    #: Who watches, and since when.
    report: PlayReport | None = None

    def __init__(
        self,
        write: Callable[[bytes], None] | None = None,
        encoder: FrameEncoder | None = None,
        limits: QueueLimits | None = None,
    ) -> None:
        self.account = DeliveryAccount()
        #: Sends bytes to the receiver; does nothing without a transport.
        self.write: Callable[[bytes], None] = _write_nowhere
        self._queue = FrameQueue(limits or QueueLimits(), self.account)
        self._transport_full = True
        self._held = False
        self._unwanted: set[MediaKind] = set()
        # Why nothing can be delivered at all, if so.
        self._absent: DropReason | None = DropReason.NOT_CONNECTED
        # Whether frames may go straight to the transport: the one thing that the frame path looks at.
        self._direct = False
        if write is not None and encoder is not None:
            self.attach(write, encoder)

    def attach(self, write: Callable[[bytes], None], encoder: FrameEncoder) -> None:
        """Write to this transport from now on."""
        self.write = write
        self._encoder = encoder
        self._absent = None
        self._transport_full = False
        self.update_direct()

    def detach(self) -> None:
        """The transport is gone, and another one may come."""
        self._leave(DropReason.NOT_CONNECTED)

    def close(self) -> None:
        """The receiver is gone: what is queued for it is dropped."""
        self._leave(DropReason.CLOSED)

    def _leave(self, reason: DropReason) -> None:
        self._absent = reason
        # The fan-out may hold bytes for this receiver, but nothing is written after a goodbye.
        self.write = _write_nowhere
        self._transport_full = True
        self._direct = False
        self._queue.clear(reason)

    # -- for subclasses --------------------------------------------------------------------------------------

    def looks_at_frames(self) -> bool:
        """Whether `frames_arrived_indirectly` is to see all frames now."""
        return False

    def drained(self) -> None:
        """Nothing is queued any more."""

    def sent(self, summary: FrameSummary) -> None:
        """Some frames were handed to the transport. Must not call the stream."""

    def dropped_for_failure(self) -> None:
        """A bug in this consumer was caught and logged: the stream gives it nothing more."""

    @property
    def messages_queued(self) -> int:
        """How many messages are queued."""
        return len(self._queue)

    @property
    def bytes_queued(self) -> int:
        """How many bytes of live frames are queued."""
        return self._queue.bytes_queued

    def shrink_queue(self, size: int) -> None:
        """Drop frames until no more than so many bytes are queued: memory is scarce."""
        self._queue.shrink(size)
        self.update_direct()

    @property
    def is_balanced(self) -> bool:
        """Whether every message is accounted for: sent, dropped or queued. It always must be."""
        account = self.account
        return account.messages_in == account.messages_sent + account.messages_dropped + len(self._queue)

    # -- from the stream -------------------------------------------------------------------------------------

    def begin(self, startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        """Start, or start again after the publisher returned."""
        self._queue.begin(startup, wait_for_keyframe)
        self.drain()

    def frames_arrived(self, batch: FrameBatch) -> bytes | None:
        """Live frames arrived. Returns what to write now; None if they were queued or dropped."""
        if not self._direct:
            self.frames_arrived_indirectly(batch)
            return None
        encoder = self._encoder
        data = batch.encoded.get(encoder)
        if data is None:
            data = batch.encoded[encoder] = encoder.encode([live.frame for live in batch.frames])
        account = self.account
        account.messages_in += batch.count
        account.messages_sent += batch.count
        account.bytes_sent += batch.size
        if self.observes_sending:
            self.sent(batch.summary())
        return data

    def send(self, batch: FrameBatch) -> None:
        """Deliver frames that come from elsewhere than a stream."""
        data = self.frames_arrived(batch)
        if data is not None:
            self.write(data)

    def frames_arrived_indirectly(self, batch: FrameBatch) -> None:
        """Live frames arrived that cannot simply be written."""
        self.enqueue(batch.frames)
        self.drain()

    def enqueue(self, frames: Iterable[LiveFrame]) -> None:
        """Queue frames, apart from those that this receiver does not get."""
        account = self.account
        for frame in frames:
            reason = self._reason_to_drop(frame)
            if reason is None:
                self._queue.push(frame)
            else:
                account.messages_in += 1
                account.dropped(reason, frame.size)

    def _reason_to_drop(self, frame: LiveFrame) -> DropReason | None:
        if self._absent is not None:
            return self._absent
        if frame.role is FrameRole.STARTUP:
            return None
        if self._held:
            return DropReason.PAUSED
        if frame.frame.kind in self._unwanted:
            return DropReason.NOT_WANTED
        return None

    # -- from the receiver -----------------------------------------------------------------------------------

    def hold(self, held: bool) -> None:
        """The viewer paused, or resumes: then at the next keyframe."""
        if self._held and not held:
            self._queue.wait_for_keyframe()
        self._held = held
        self.update_direct()

    def want(self, kind: MediaKind, wanted: bool) -> None:
        """The viewer wants audio or video, or does not."""
        if not wanted:
            self._unwanted.add(kind)
        elif kind in self._unwanted:
            self._unwanted.discard(kind)
            if kind is MediaKind.VIDEO:
                self._queue.wait_for_keyframe()
        self.update_direct()

    # -- from the transport ----------------------------------------------------------------------------------

    def transport_full(self) -> None:
        """Stop writing for now."""
        self._transport_full = True
        self._direct = False

    def transport_ready(self) -> None:
        """Continue to write."""
        self._transport_full = self._absent is not None
        self.drain()

    def drain(self) -> None:
        """Write what is queued, for as long as the transport takes it."""
        queue = self._queue
        account = self.account
        while queue and not self._transport_full:
            frames = queue.take(_WRITE_SIZE)
            account.messages_sent += len(frames)
            account.bytes_sent += sum(frame.size for frame in frames)
            if len(frames) == 1 and frames[0].size > _WRITE_SIZE:
                self.write(frames[0].encoded_for_all(self._encoder))
            else:
                self.write(self._encoder.encode([live.frame for live in frames]))
            if self.observes_sending:
                self.sent(summarize(frames))
        self.update_direct()
        if not queue:
            self.drained()

    def update_direct(self) -> None:
        """Find out whether frames may go straight to the transport."""
        self._direct = not (
            self._transport_full
            or self._held
            or self.looks_at_frames()
            or self._unwanted
            or self._queue.is_waiting_for_keyframe
            or self._queue
        )


def players(subscribers: Iterable[IFrameSubscriber]) -> Iterator[Consumer]:
    """The players among the subscribers of a stream: no destinations, no recorders."""
    for subscriber in subscribers:
        if isinstance(subscriber, Consumer) and subscriber.audience is not None:
            yield subscriber
