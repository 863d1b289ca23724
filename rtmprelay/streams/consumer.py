"""One receiver of a live stream: takes frames at its own pace, and never holds up anyone else.

Players, destinations and HTTP readers all have one. It writes shared bytes straight on while the receiver keeps
up, queues frames when the transport says stop, and keeps the exact account of what became of each message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rtmprelay.media import MediaKind
from rtmprelay.streams.accounting import DeliveryAccount, DropReason
from rtmprelay.streams.frame_queue import FrameQueue
from rtmprelay.streams.frames import FrameBatch, FrameEncoder, FrameRole, LiveFrame, summarize
from rtmprelay.streams.limits import QueueLimits
from rtmprelay.streams.summary import FrameSummary

#: How much is encoded and written at a time while a queue drains; a transport says stop at this fill.
_WRITE_SIZE = 65536


def _write_nowhere(data: bytes) -> None:
    """There is no transport."""


class Consumer:
    """Delivers frames through `write`, as bytes made by `encoder`.

    Without them it begins detached: everything is dropped, and counted, until `attach`.
    """

    #: Whether `sent` is to be called; players save themselves the call.
    observes_sending = False

    #: For a player, by what it gets the stream: "rtmp", "flv" or "mp4". None for what is no player.
    audience: str | None = None

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
        # Whether frames may go straight to the transport; one look at it decides the common case.
        self._direct = False
        if write is not None and encoder is not None:
            self.attach(write, encoder)

    def attach(self, write: Callable[[bytes], None], encoder: FrameEncoder) -> None:
        """There is a transport to write to."""
        self.write = write
        self._encoder = encoder
        self._absent = None
        self._transport_full = False
        self.update_direct()

    def detach(self) -> None:
        """The transport has gone, and another one may come."""
        self._leave(DropReason.NOT_CONNECTED)

    def close(self) -> None:
        """The receiver has gone: what waits for it is dropped."""
        self._leave(DropReason.CLOSED)

    def _leave(self, reason: DropReason) -> None:
        self._absent = reason
        # The frames that were taken for this receiver are written later: nothing is written after a goodbye.
        self.write = _write_nowhere
        self._transport_full = True
        self._direct = False
        self._queue.clear(reason)

    def looks_at_frames(self) -> bool:
        """Whether `frames_arrived_indirectly` is to see all frames now."""
        return False

    def drained(self) -> None:
        """Nothing waits any more."""

    def dropped_for_failure(self) -> None:
        """A bug in this consumer was caught and logged: the stream gives it nothing more."""

    def sent(self, summary: FrameSummary) -> None:
        """Some frames were handed to the transport."""

    @property
    def messages_queued(self) -> int:
        """How many messages wait."""
        return len(self._queue)

    @property
    def bytes_queued(self) -> int:
        """How many bytes of live frames wait."""
        return self._queue.bytes_queued

    @property
    def is_balanced(self) -> bool:
        """Whether every message is accounted for: sent, dropped or queued. It always must be."""
        account = self.account
        return account.messages_in == account.messages_sent + account.messages_dropped + len(self._queue)

    # -- from the stream -------------------------------------------------------------------------------------

    def begin(self, startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        """Start, or start again after the publisher returned."""
        self._queue.waiting_for_keyframe = wait_for_keyframe
        self._queue.begin(startup)
        self._drain()

    def frames_arrived(self, batch: FrameBatch) -> bytes | None:
        """Live frames came in; what to write now, unless they were queued or dropped."""
        if not self._direct:
            self.frames_arrived_indirectly(batch)
            return None
        data = batch.encoded(self._encoder)
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
        """Live frames came in that cannot simply be written."""
        account = self.account
        for frame in batch.frames:
            reason = self._reason_not_to_take(frame)
            if reason is None:
                self._queue.push(frame)
            else:
                account.messages_in += 1
                account.dropped(reason, frame.size)
        self._drain()

    def _reason_not_to_take(self, frame: LiveFrame) -> DropReason | None:
        if self._absent is not None:
            return self._absent
        if frame.role is FrameRole.STARTUP:
            return None
        if self._held:
            return DropReason.PAUSED
        if self._unwanted and frame.frame.kind in self._unwanted:
            return DropReason.NOT_WANTED
        return None

    # -- from the receiver -----------------------------------------------------------------------------------

    def hold(self, held: bool) -> None:
        """The viewer paused, or goes on: then at the next keyframe."""
        if self._held and not held:
            self._queue.waiting_for_keyframe = True
        self._held = held
        self.update_direct()

    def want(self, kind: MediaKind, wanted: bool) -> None:
        """The viewer wants audio or video, or does not."""
        if wanted and kind in self._unwanted and kind is MediaKind.VIDEO:
            self._queue.waiting_for_keyframe = True
        (self._unwanted.discard if wanted else self._unwanted.add)(kind)
        self.update_direct()

    # -- from the transport ----------------------------------------------------------------------------------

    def transport_full(self) -> None:
        """Do not write now."""
        self._transport_full = True
        self._direct = False

    def transport_ready(self) -> None:
        """Write on."""
        self._transport_full = self._absent is not None
        self._drain()

    def _drain(self) -> None:
        queue = self._queue
        account = self.account
        while queue and not self._transport_full:
            frames = queue.take(_WRITE_SIZE)
            account.messages_sent += len(frames)
            account.bytes_sent += sum(frame.size for frame in frames)
            self.write(self._encoder.encode(frames))
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
            or self._queue.waiting_for_keyframe
            or self._queue
        )
