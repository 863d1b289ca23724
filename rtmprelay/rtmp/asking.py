"""The wishes of one connection on their way through the gate, and what comes from an encoder meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from rtmprelay.access.gate import Gate
from rtmprelay.access.request import AccessRequest, Verdict
from rtmprelay.media import MediaFrame

#: Bytes of media of an encoder that does not wait for the answer; behind them, its socket is left unread.
MOST_EARLY_BYTES = 1024 * 1024


class Asking:
    """Asks the gate, once for each message stream at a time.

    Media that comes before the answer is kept: an encoder that does not wait for it sends its decoder configuration
    once, and without that nobody could watch.

    Args:
        failed: Called if acting on a verdict fails.
    """

    def __init__(self, gate: Gate, failed: Callable[[Failure], None]) -> None:
        self._gate = gate
        self._failed = failed
        self._open: dict[int, Deferred[Verdict]] = {}
        self._early: dict[int, list[MediaFrame]] = {}
        self._early_bytes = 0
        # A transport that is left unread until the answer comes.
        self._unread: Any = None

    @property
    def is_busy(self) -> bool:
        """Whether the client waits for an answer."""
        return bool(self._open)

    def ask(self, stream_id: int, request: AccessRequest, judged: Callable[[Verdict], None]) -> None:
        """Ask, and tell the verdict: now, or when it is there. Not at all if the wish is taken back before."""
        asked = self._gate.ask(request)
        self._open[stream_id] = asked
        asked.addCallback(self._answered, asked, stream_id, judged)
        asked.addErrback(self._failed)

    def _answered(
        self,
        verdict: Verdict,
        asked: Deferred[Verdict],
        stream_id: int,
        judged: Callable[[Verdict], None],
    ) -> None:
        if self._open.get(stream_id) is not asked:
            return
        del self._open[stream_id]
        try:
            judged(verdict)
        finally:
            self._let_go(stream_id)

    # -- media that is early ---------------------------------------------------------------------------------

    def keep(self, stream_id: int, frames: Sequence[MediaFrame], transport: object) -> None:
        """Keep media until the answer is there; what nobody asks for is dropped."""
        if stream_id not in self._open or self._early_bytes > 2 * MOST_EARLY_BYTES:
            return
        self._early.setdefault(stream_id, []).extend(frames)
        self._early_bytes += sum(len(frame.payload) for frame in frames)
        if self._early_bytes > MOST_EARLY_BYTES and self._unread is None:
            # Transports in memory cannot be left unread; they have no network to wait in.
            with suppress(AttributeError):
                transport.pauseProducing()  # type: ignore[attr-defined]
                self._unread = transport

    def take_early(self, stream_id: int) -> list[MediaFrame]:
        """The media that came before the answer."""
        return self._early.pop(stream_id, [])

    def _let_go(self, stream_id: int) -> None:
        """Forget what is left of a wish, and read on."""
        self._early.pop(stream_id, None)
        self._early_bytes = sum(len(frame.payload) for kept in self._early.values() for frame in kept)
        if self._unread is not None and self._early_bytes <= MOST_EARLY_BYTES:
            unread, self._unread = self._unread, None
            unread.resumeProducing()

    # -- the end ---------------------------------------------------------------------------------------------

    def take_back(self, stream_id: int) -> None:
        """The client does not want it any more."""
        asked = self._open.pop(stream_id, None)
        if asked is not None:
            asked.cancel()
            self._let_go(stream_id)

    def take_all_back(self) -> None:
        """The client has gone."""
        self._unread = None
        for stream_id in list(self._open):
            self.take_back(stream_id)
