"""How long a server waits for a client, and how much the client may send before it is closed."""

from __future__ import annotations

from rtmprelay.allowance import Allowance
from rtmprelay.errors import LimitExceededError
from rtmprelay.session.lifecycle import Phase
from rtmprelay.wire.limits import ConnectionLimits

#: After a pause of the network, or at the start, this many seconds' worth may arrive at once.
_BURST_SECONDS = 10


class RateLimit:
    """A limit on how often something may happen."""

    __slots__ = ("_allowance", "_name", "_per_second")

    def __init__(self, name: str, per_second: int, now: float, seconds: float = _BURST_SECONDS) -> None:
        self._name = name
        self._per_second = per_second
        self._allowance = Allowance(per_second, seconds, now)

    def spend(self, count: int, now: float) -> None:
        """Count events; raise if there have been too many of them."""
        if not self._allowance.take(count, now):
            raise LimitExceededError(
                self._name, f"more than {self._per_second} a second for longer than a moment"
            )


class Timeouts:
    """Detects a client that is too slow or sends too much. The time is always an argument."""

    def __init__(self, limits: ConnectionLimits, now: float) -> None:
        self._limits = limits
        self._phase_began = now
        #: When the last whole message arrived; single bytes do not count. The session sets it.
        self.last_message = now
        #: At this many chunks, `count_chunks` is due.
        self.chunks_due = 0
        self._chunks = RateLimit("chunk_rate_before_publish", limits.chunk_rate_before_publish, now)
        self._chunks_counted = 0
        # Counting at each read would cost a call, so chunks are counted in steps of a tenth of a second's worth.
        self._chunks_step = limits.chunk_rate_before_publish // 10 + 1
        self._commands = RateLimit("command_rate", limits.command_rate, now)
        self._values = RateLimit("amf_value_rate_before_publish", limits.amf_value_rate_before_publish, now)
        # Since when there has been an unfinished message all the time.
        self._unfinished_since: float | None = None

    def count_chunks(self, total: int, now: float) -> None:
        """Count the chunks since the last time; `total` is their number since the connection began."""
        self._chunks.spend(total - self._chunks_counted, now)
        self._chunks_counted = total
        self.chunks_due = total + self._chunks_step

    def count_command(self, now: float) -> None:
        self._commands.spend(1, now)

    def count_values(self, count: int, now: float) -> None:
        """Count the AMF values of a command, before a publish is accepted."""
        self._values.spend(count, now)

    def note_unfinished(self, unfinished: bool, now: float) -> None:
        """Called after each read before a publish is accepted: whether a message is unfinished now."""
        if not unfinished:
            self._unfinished_since = None
        elif self._unfinished_since is None:
            self._unfinished_since = now
        else:
            self.check_message(now)

    def publish_accepted(self, chunks_read: int) -> None:
        """The client may send media: other limits hold from now on."""
        limits = self._limits
        self._unfinished_since = None
        self._chunks = RateLimit("chunk_rate", limits.chunk_rate, self.last_message)
        self._chunks_counted = chunks_read
        self._chunks_step = limits.chunk_rate // 10 + 1
        self.chunks_due = chunks_read + self._chunks_step

    @property
    def message_deadline(self) -> float | None:
        """When the message that is unfinished will have taken too long; None if there is none."""
        since = self._unfinished_since
        return None if since is None else since + self._limits.message_timeout

    def check_message(self, now: float) -> None:
        """Raise if a message has been unfinished for too long, whatever else came meanwhile."""
        deadline = self.message_deadline
        if deadline is not None and now >= deadline:
            raise LimitExceededError(
                "message_timeout", f"a message was not complete within {self._limits.message_timeout:g} s"
            )

    def next_deadline(self, phase: Phase, plays: bool) -> float | None:
        """When the client will have been too slow if nothing arrives until then; None while it plays."""
        message = self.message_deadline
        if plays:
            return message
        deadline = self.deadline(phase)
        return deadline if message is None else min(deadline, message)

    def phase_began(self, now: float) -> None:
        """The connection has come one step further: its next deadline starts here."""
        self._phase_began = self.last_message = now

    def deadline(self, phase: Phase) -> float:
        """When the client will have been too slow if nothing arrives until then."""
        if phase is Phase.HANDSHAKE:
            return self._phase_began + self._limits.handshake_timeout
        if phase is Phase.HANDSHAKEN:
            return self._phase_began + self._limits.connect_timeout
        return self.last_message + self._limits.idle_timeout

    def check(self, phase: Phase, plays: bool, now: float) -> None:
        """Raise if the client has been too slow."""
        self.check_message(now)
        if plays or now < self.deadline(phase):
            return
        limits = self._limits
        if phase is Phase.HANDSHAKE:
            raise LimitExceededError(
                "handshake_timeout", f"no whole handshake within {limits.handshake_timeout:g} s"
            )
        if phase is Phase.HANDSHAKEN:
            raise LimitExceededError(
                "connect_timeout", f"no connect command within {limits.connect_timeout:g} s"
            )
        raise LimitExceededError("idle_timeout", f"no whole message for {limits.idle_timeout:g} s")
