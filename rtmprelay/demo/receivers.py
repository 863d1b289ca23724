"""Those who get the demo's stream: what each is called, how it is, and what it got."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from rtmprelay.demo.source import Source
from rtmprelay.demo.table import DIFFERS, IDENTICAL, Rate, Row
from rtmprelay.demo.tape import ReceivedTape, Tape
from rtmprelay.demo.verdict import ReceiverResult

CHECKED_LATER = "compared at the end"


@attrs.define(eq=False)
class Receiver:
    """Somebody who gets the stream.

    Attributes:
        state: How it is now, in a word.
        failure: What is wrong with it, in words; None if nothing is known.
    """

    tape: ReceivedTape
    state: Callable[[], str]
    failure: Callable[[], str | None] = lambda: None
    _rate: Rate = attrs.field(factory=Rate, init=False)

    def row(self, now: float) -> Row:
        """How it is now."""
        tape = self.tape
        media = DIFFERS if tape.difference is not None else IDENTICAL if tape.messages else ""
        return Row(
            name=tape.name,
            state=self.state(),
            messages=tape.messages,
            kbps=self._rate.update(now, tape.bytes),
            latency=tape.latency,
            worst_latency=tape.recent_worst_latency,
            media=media,
        )

    def result(self) -> ReceiverResult:
        """What it got, when nothing more is to come."""
        return ReceiverResult.of(self.tape, self.failure())


@attrs.define(eq=False)
class RecordingReceiver(Receiver):
    """The recording. It is compared when it is finished; until then only its size is known.

    Attributes:
        written: Messages and bytes that were written so far.
    """

    written: Callable[[], tuple[int, int]] = lambda: (0, 0)

    def row(self, now: float) -> Row:
        """How far it has come."""
        messages, size = self.written()
        return Row(
            name=self.tape.name,
            state=self.state(),
            messages=messages,
            kbps=self._rate.update(now, size),
            media=CHECKED_LATER,
        )


class SourceRow:
    """The first row of the table: what is sent."""

    def __init__(self) -> None:
        self._rate = Rate()

    def row(self, source: Source, now: float) -> Row:
        """What was sent so far."""
        tape: Tape = source.tape
        return Row(
            name="source",
            state="publishing",
            messages=tape.messages,
            kbps=self._rate.update(now, tape.bytes),
        )
