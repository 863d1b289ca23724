"""The result of a demo, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rtmprelay.demo.tape import COMPARED, ReceivedTape, SentTape

#: Characters of a digest in the text.
_SHORT_DIGEST = 16


@attrs.frozen
class ReceiverResult:
    """What one receiver got. `problem` says what is wrong; None if everything is as it was sent."""

    name: str
    messages: int
    bytes: int
    digest: str
    problem: str | None
    worst_latency_ms: float | None

    @classmethod
    def of(cls, tape: ReceivedTape, failure: str | None = None) -> ReceiverResult:
        """
        Args:
            failure: Why something is missing, if that is known.
        """
        worst = tape.worst_latency
        problem = tape.problem()
        if failure is not None:
            problem = failure if problem is None else f"{problem} ({failure})"
        return cls(
            name=tape.name,
            messages=tape.messages,
            bytes=tape.bytes,
            digest=tape.digest,
            problem=problem,
            worst_latency_ms=None if worst is None else round(worst * 1000, 3),
        )


@attrs.frozen
class DemoVerdict:
    """Whether all receivers got what was sent."""

    seconds: float
    messages: int
    bytes: int
    digest: str
    receivers: tuple[ReceiverResult, ...]
    #: The path of the recording; None if it is not kept.
    recording: str | None = None
    #: What ended the demo too early.
    trouble: str | None = None

    @classmethod
    def of(
        cls,
        sent: SentTape,
        receivers: Sequence[ReceiverResult],
        seconds: float,
        recording: str | None = None,
        trouble: str | None = None,
    ) -> DemoVerdict:
        return cls(seconds, sent.messages, sent.bytes, sent.digest, tuple(receivers), recording, trouble)

    @property
    def passed(self) -> bool:
        """Whether something was sent, and all receivers got exactly that."""
        return (
            self.messages > 0
            and self.trouble is None
            and bool(self.receivers)
            and all(receiver.problem is None for receiver in self.receivers)
        )

    def lines(self) -> list[str]:
        lines = [
            f"Sent {self.messages} audio and video messages ({self.bytes} bytes) in {self.seconds:.1f} s,"
            f" digest {self.digest[:_SHORT_DIGEST]}"
        ]
        width = max((len(receiver.name) for receiver in self.receivers), default=0)
        for receiver in self.receivers:
            good = f"identical: {receiver.messages} messages, digest {receiver.digest[:_SHORT_DIGEST]}"
            lines.append(f"  {receiver.name:{width}}  {receiver.problem or good}")
        if self.recording is not None:
            lines.append(f"The recording is kept: {self.recording}")
        lines += ("", f"Compared: {COMPARED}", "", self.conclusion())
        return lines

    def conclusion(self) -> str:
        """The verdict in one line."""
        if self.trouble is not None:
            return f"FAILED: {self.trouble}"
        if not self.messages:
            return "FAILED: nothing was sent"
        bad = [
            f"{receiver.name} {receiver.problem}"
            for receiver in self.receivers
            if receiver.problem is not None
        ]
        if bad:
            return f"FAILED: {'; '.join(bad)}"
        names = [receiver.name for receiver in self.receivers]
        return f"OK: {', '.join(names[:-1])} and {names[-1]} got exactly what was sent"

    def as_json(self) -> dict[str, object]:
        return {
            "ok": self.passed,
            "conclusion": self.conclusion(),
            "seconds": round(self.seconds, 3),
            "sent": {"messages": self.messages, "bytes": self.bytes, "digest": self.digest},
            "receivers": [
                {**attrs.asdict(receiver), "identical": receiver.problem is None}
                for receiver in self.receivers
            ],
            "recording": self.recording,
            "compared": COMPARED,
        }
