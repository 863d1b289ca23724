"""All streams that can be watched as HLS, and their viewers."""

from __future__ import annotations

import time
from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from rtmprelay.event_bus import EventBus
from rtmprelay.hls.signing import UriSigner
from rtmprelay.outputs.base import OnePerStream
from rtmprelay.outputs.hls.broadcast import HlsBroadcast
from rtmprelay.outputs.hls.settings import HlsLimits, HlsSettings
from rtmprelay.outputs.hls.viewers import HlsViewers
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamRegistry

#: Broadcasts that are over and can still be read. Publishers of ever new streams must not fill the memory.
_MOST_ENDED = 100


class Hls:
    """Makes a broadcast of each stream that the settings name.

    A broadcast goes on for as long as its window when its publisher leaves. Then it ends, and its playlist says so for
    as long again.

    Args:
        clock: A clock that never jumps.
        wall_clock: Seconds since 1970.
    """

    def __init__(
        self,
        settings: HlsSettings,
        limits: HlsLimits,
        registry: StreamRegistry,
        event_bus: EventBus,
        clock: IReactorTime,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.signer = UriSigner(settings.sign_key, settings.window)
        self.wall_clock = wall_clock
        self._limits = limits
        self._clock = clock
        self._live = OnePerStream(registry, self._make, clock, keep_for=settings.window)
        self._all: dict[str, HlsBroadcast] = {}
        self._forgetting: dict[str, IDelayedCall] = {}
        self.viewers = HlsViewers(registry, event_bus, clock, limits.hls_viewers, self._target_duration)

    def start(self) -> None:
        """Package streams from now on, those that are live already included."""
        self._live.start()

    def stop(self) -> None:
        """End all broadcasts and sessions."""
        self._live.stop("the server stops")
        self.viewers.stop()
        for key in list(self._all):
            self._forget(key)

    def get(self, key: str) -> HlsBroadcast | None:
        """The broadcast of a stream, going on or just over."""
        return self._all.get(key)

    @property
    def held_bytes(self) -> int:
        """Media in memory."""
        return sum(broadcast.held_bytes for broadcast in self._all.values())

    def _make(self, stream: LiveStream) -> HlsBroadcast | None:
        if not self.settings.wants(stream.key):
            return None
        self._forget(stream.key)
        broadcast = HlsBroadcast(
            stream, self.settings, self._limits, self._clock, self.wall_clock, self._broadcast_ended
        )
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

    def _forget(self, key: str) -> None:
        timer = self._forgetting.pop(key, None)
        if timer is not None and timer.active():
            timer.cancel()
        self._all.pop(key, None)

    def _target_duration(self, key: str) -> float:
        broadcast = self._all.get(key)
        return 0.0 if broadcast is None else broadcast.target_duration
