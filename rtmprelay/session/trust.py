"""How much a client may send: little until a publish of it is accepted, and as much as frames need after that."""

from __future__ import annotations

from rtmprelay.amf.values import Budget
from rtmprelay.memory import MemoryPool
from rtmprelay.session.timeouts import Timeouts
from rtmprelay.wire.chunks import ChunkReader
from rtmprelay.wire.limits import ConnectionLimits


class Trust:
    """Sets the limits of one client's chunk reader and deadlines.

    Args:
        strangers, publishers: Count the unfinished messages of all connections before and after a publish is accepted.

    Attributes:
        may_publish: Whether a publish of the client has been accepted.
    """

    __slots__ = ("_limits", "_publishers", "_reader", "_timeouts", "may_publish")

    def __init__(
        self,
        limits: ConnectionLimits,
        reader: ChunkReader,
        timeouts: Timeouts,
        strangers: MemoryPool | None,
        publishers: MemoryPool | None,
    ) -> None:
        self._limits = limits
        self._reader = reader
        self._timeouts = timeouts
        self._publishers = publishers or MemoryPool("")
        self.may_publish = False
        reader.limit_messages(limits.message_size_before_connect, "message_size_before_connect")
        reader.limit_assembly(
            limits.assembly_size_before_publish, "assembly_size_before_publish", strangers or MemoryPool("")
        )
        # The answer to a publish decides how long the messages after it may be.
        reader.stops_at_commands = True

    def connect_accepted(self) -> None:
        self._reader.limit_messages(self._limits.message_size_before_publish, "message_size_before_publish")

    def publish_accepted(self) -> None:
        if not self.may_publish:
            self.may_publish = True
            self._reader.limit_messages(self._limits.message_size)
            self._reader.limit_assembly(self._limits.assembly_size, "assembly_size", self._publishers)
            self._timeouts.publish_accepted(self._reader.chunks_read)

    def budget(self) -> Budget:
        """How many AMF values the next command may have."""
        limits = self._limits
        if self.may_publish:
            return Budget(limits.amf_depth, limits.amf_values)
        return Budget(limits.amf_depth, limits.amf_values_before_publish, "amf_values_before_publish")

    def spent(self, budget: Budget, now: float) -> None:
        """A command was read. Raise if all commands together have had too many values."""
        if not self.may_publish:
            self._timeouts.count_values(budget.used, now)
