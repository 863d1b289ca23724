"""Outputs of which each stream has one, such as a recording.

An output that each viewer has for itself is a `Consumer` that subscribes when the viewer comes (see `http_viewer`). One
that belongs to the stream is made and ended here, whether anybody watches or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, TypeVar

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer

from rtmprelay.interfaces import IStreamObserver, IStreamOutput
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.merging import Pace
from rtmprelay.streams.registry import StreamRegistry

_Output = TypeVar("_Output", bound=IStreamOutput)


@attrs.define(eq=False)
class _Entry(Generic[_Output]):
    """The output of one stream.

    Attributes:
        ending: Ends the output unless the publisher returns first.
    """

    stream: LiveStream
    output: _Output
    ending: IDelayedCall | None = None


@implementer(IStreamObserver)
class OnePerStream(Generic[_Output]):
    """Makes an output for each stream that begins, and ends it after its publisher has gone.

    Args:
        make: Makes the output of a stream; None if this stream has none.
        keep_for: How many seconds an output waits for its publisher to return. Until then it stays subscribed, is told
            when the publisher leaves and returns as every subscriber is, and the timestamps go on. With 0 the next
            publisher gets a new output.
    """

    def __init__(
        self,
        registry: StreamRegistry,
        make: Callable[[LiveStream], _Output | None],
        clock: IReactorTime,
        keep_for: float = 0.0,
    ) -> None:
        self._registry = registry
        self._make = make
        self._clock = clock
        self._keep_for = keep_for
        self._entries: dict[str, _Entry[_Output]] = {}
        self._running = False
        registry.add_observer(self)

    def __iter__(self) -> Iterator[_Output]:
        return iter([entry.output for entry in self._entries.values()])

    def get(self, key: str) -> _Output | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.output

    def start(self) -> None:
        """Make outputs from now on, for streams that are live already too."""
        self._running = True
        for stream in self._registry:
            if stream.publisher is not None:
                self.stream_started(stream)

    def stop(self, reason: str) -> None:
        """End all outputs, and make no more."""
        self._running = False
        for key in list(self._entries):
            self.end(key, reason)

    def end(self, key: str, reason: str) -> _Output | None:
        """End the output of this stream now, if it has one."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        if entry.ending is not None and entry.ending.active():
            entry.ending.cancel()
        self._registry.leave(entry.stream, entry.output)
        entry.output.end(reason)
        return entry.output

    # -- streams ---------------------------------------------------------------------------------------------

    def stream_started(self, stream: LiveStream) -> None:
        key = stream.key
        entry = self._entries.get(key)
        if entry is not None:
            if entry.ending is not None:
                entry.ending.cancel()
                entry.ending = None
            if entry.output in stream.subscribers:
                return
            # The stream dropped it because it raised: a new publisher is a new attempt.
            self.end(key, "an internal error")
        output = self._make(stream) if self._running else None
        if output is not None:
            self._entries[key] = _Entry(stream, output)
            stream.subscribe(output, Pace.AT_ONCE)

    def stream_stopped(self, stream: LiveStream, clean: bool) -> None:
        entry = self._entries.get(stream.key)
        if entry is None:
            return
        end = partial(self.end, stream.key, "the publisher ended" if clean else "the publisher was lost")
        if self._keep_for:
            entry.ending = self._clock.callLater(self._keep_for, end)
        else:
            end()
