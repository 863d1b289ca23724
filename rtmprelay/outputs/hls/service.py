"""All streams that can be watched as HLS, and their viewers."""

from __future__ import annotations

import time
from collections.abc import Callable

from twisted.internet.defer import Deferred, TimeoutError, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from rtmprelay.event_bus import EventBus
from rtmprelay.files.writer_thread import CallInReactor
from rtmprelay.hls.signing import UriSigner
from rtmprelay.outputs.base import OnePerStream
from rtmprelay.outputs.hls.broadcast import HlsBroadcast
from rtmprelay.outputs.hls.segment_writer import SegmentWriter
from rtmprelay.outputs.hls.settings import HlsLimits, HlsSettings
from rtmprelay.outputs.hls.viewers import HlsViewers
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamRegistry

#: Streams whose files of an earlier run are looked for. Publishers of ever new streams must not fill the memory.
_MOST_BEGUN = 10_000

#: Seconds that a disk has for what waits for it when the relay stops.
_STOP_WITHIN = 5.0

#: Broadcasts that are over and can still be read. Publishers of ever new streams must not fill the memory.
_MOST_ENDED = 100


class Hls:
    """Makes a broadcast of each stream that the settings name.

    A broadcast goes on for as long as its window when its publisher leaves. Then it ends, and its playlist says so for
    as long again.

    Args:
        clock: A clock that never jumps.
        wall_clock: Seconds since 1970.
        call_in_reactor: `reactor.callFromThread`, for the thread that writes segments. None for no thread.
    """

    _log = Logger()

    def __init__(
        self,
        settings: HlsSettings,
        limits: HlsLimits,
        registry: StreamRegistry,
        event_bus: EventBus,
        clock: IReactorTime,
        wall_clock: Callable[[], float] = time.time,
        call_in_reactor: CallInReactor | None = None,
    ) -> None:
        self.settings = settings
        self.signer = UriSigner(settings.sign_key, settings.window)
        self.wall_clock = wall_clock
        self._limits = limits
        self._clock = clock
        self._live = OnePerStream(registry, self._make, clock, keep_for=settings.window)
        self._writer = None if settings.folder is None else SegmentWriter(call_in_reactor, clock.seconds)
        self._all: dict[str, HlsBroadcast] = {}
        # Streams that were published in this run: their files are of this run, and are no leftovers.
        self._begun: set[str] = set()
        # Variants that were left out, and the log says so.
        self._told: dict[str, None] = {}
        self._forgetting: dict[str, IDelayedCall] = {}
        self.viewers = HlsViewers(
            registry,
            event_bus,
            clock,
            limits.hls_viewers,
            self._target_duration,
            limits.hls_viewers_per_address,
            self.signer.longest,
        )

    def start(self) -> None:
        """Package streams from now on, those that are live already included."""
        self._live.start()

    def stop(self) -> Deferred[None]:
        """End all broadcasts and sessions; fires when the files are complete, or after some seconds."""
        self._live.stop("the server stops")
        self.viewers.stop()
        for key in list(self._all):
            self._forget(key, is_over=False)
        if self._writer is None:
            return succeed(None)
        return self._writer.stop().addTimeout(_STOP_WITHIN, self._clock).addErrback(_give_up)

    def get(self, key: str) -> HlsBroadcast | None:
        """The broadcast of a stream, going on or just over."""
        return self._all.get(key)

    def members(self, group: str) -> list[HlsBroadcast]:
        """The live variants of a presentation that is published under several names. They have one target duration."""
        found = [
            broadcast
            for one in self.settings.variants
            for key in one.members_of(group)
            if (broadcast := self._all.get(key)) is not None and broadcast.ended_at is None
        ]
        ready = [broadcast for broadcast in found if broadcast.is_ready]
        for broadcast in ready:
            if broadcast.target_duration != ready[0].target_duration and broadcast.key not in self._told:
                self._told[broadcast.key] = None
                self._log.warn(
                    "{stream} is no variant of {group}: its segments have another target duration",
                    stream=broadcast.key,
                    group=group,
                )
        return [one for one in ready if one.target_duration == ready[0].target_duration] or found

    def other_variants(self, key: str) -> list[HlsBroadcast]:
        """The other variants of the presentation that a stream belongs to."""
        for one in self.settings.variants:
            group = one.name_of(key)
            if group is not None:
                return [other for other in self.members(group) if other.key != key and other.is_ready]
        return []

    @property
    def held_bytes(self) -> int:
        """Media in memory."""
        return sum(broadcast.held_bytes for broadcast in self._all.values())

    def _make(self, stream: LiveStream) -> HlsBroadcast | None:
        if not self.settings.wants(stream.key):
            return None
        self._forget(stream.key)
        broadcast = HlsBroadcast(
            stream,
            self.settings,
            self._limits,
            self._clock,
            self.wall_clock,
            self._broadcast_ended,
            self._writer,
            continues=stream.key not in self._begun and len(self._begun) < _MOST_BEGUN,
        )
        if self._writer is not None and len(self._begun) < _MOST_BEGUN:
            self._begun.add(stream.key)
        self._all[stream.key] = broadcast
        return broadcast

    def _broadcast_ended(self, broadcast: HlsBroadcast) -> None:
        self._forget_later(broadcast.key)
        ended = [key for key, one in self._all.items() if one.ended_at is not None]
        for key in ended[:-_MOST_ENDED]:
            self._forget(key)

    def _forget_later(self, key: str) -> None:
        if key in self._all:
            self._forgetting[key] = self._clock.callLater(self.settings.window, self._forget, key)

    def _forget(self, key: str, is_over: bool = True) -> None:
        """Forget a broadcast. Its files stay if the relay stops: the next run goes on with them."""
        timer = self._forgetting.pop(key, None)
        if timer is not None and timer.active():
            timer.cancel()
        broadcast = self._all.pop(key, None)
        if broadcast is not None and is_over:
            broadcast.delete_files()

    def _target_duration(self, key: str) -> float:
        broadcast = self._all.get(key)
        return 0.0 if broadcast is None else broadcast.target_duration


def _give_up(failure: Failure) -> None:
    """The disk does not answer."""
    failure.trap(TimeoutError)
