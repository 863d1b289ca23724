"""Telling from time to time how a destination is doing: throughput, and what was dropped."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall

from rtmprelay import events
from rtmprelay.streams.accounting import DropReason
from rtmprelay.streams.consumer import Consumer

#: Seconds between two looks at what was dropped, and how many of them make a report on the throughput.
LOOK_EVERY = 5.0
LOOKS_PER_REPORT = 6

#: Tells an event of one destination and stream; the fields that name those are filled in.
Tell = Callable[..., None]


class DeliveryReporter:
    """Looks at a consumer's account and tells what is new in it."""

    def __init__(self, consumer: Consumer, tell: Tell, clock: IReactorTime) -> None:
        self._consumer = consumer
        self._tell = tell
        self._looks = 0
        self._reported = (0, 0, 0)
        self._reported_drops: dict[DropReason, int] = {}
        self._looking = LoopingCall(self._look)
        self._looking.clock = clock

    def start(self) -> None:
        """Look from now on."""
        self._looking.start(LOOK_EVERY, now=False)

    def stop(self) -> None:
        """Look no more."""
        if self._looking.running:
            self._looking.stop()

    def _look(self) -> None:
        self.report_drops()
        self._looks += 1
        if self._looks % LOOKS_PER_REPORT == 0:
            self._report_throughput(LOOK_EVERY * LOOKS_PER_REPORT)

    def report_drops(self) -> None:
        """Tell what was dropped since the last time."""
        for reason, count in self._consumer.account.dropped_by_reason.items():
            new = count - self._reported_drops.get(reason, 0)
            if new:
                self._reported_drops[reason] = count
                self._tell(events.DestinationDropped, reason=reason.value, count=new)

    def _report_throughput(self, seconds: float) -> None:
        account = self._consumer.account
        total = account.messages_sent, account.bytes_sent, account.messages_dropped
        messages, size, dropped = (now - before for now, before in zip(total, self._reported, strict=True))
        self._reported = total
        self._tell(
            events.DestinationStatistics,
            seconds=seconds,
            kbps=size / 125 / seconds,
            messages=messages,
            bytes=size,
            dropped=dropped,
            queued=self._consumer.messages_queued,
        )
