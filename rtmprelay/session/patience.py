"""How long a server waits for a client."""

from __future__ import annotations

from rtmprelay.errors import LimitExceededError
from rtmprelay.session.lifecycle import Phase
from rtmprelay.wire.limits import ConnectionLimits


class Patience:
    """Knows when a client has been too slow. The time is always an argument."""

    def __init__(self, limits: ConnectionLimits, now: float) -> None:
        self._limits = limits
        self._phase_began = now
        self._last_message = now

    def phase_began(self, now: float) -> None:
        """The connection has come one step further."""
        self._phase_began = self._last_message = now

    def message_came(self, now: float) -> None:
        """A whole message came in: single bytes do not count."""
        self._last_message = now

    def deadline(self, phase: Phase) -> float:
        """When patience ends if nothing comes until then."""
        if phase is Phase.HANDSHAKE:
            return self._phase_began + self._limits.handshake_timeout
        if phase is Phase.HANDSHAKEN:
            return self._phase_began + self._limits.connect_timeout
        return self._last_message + self._limits.idle_timeout

    def check(self, phase: Phase, now: float) -> None:
        """Raise if the client has been too slow."""
        if now < self.deadline(phase):
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
