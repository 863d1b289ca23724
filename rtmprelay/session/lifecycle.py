"""The state machines of a server's conversation: the order in which things may happen.

Everything that decides or changes the state of a connection or of a message stream is in this file. The machines see
commands, never media: they set `phase` and `role`, and the frame path reads those.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol

import attrs
from automat import NoTransition, TypeMachineBuilder

from rtmprelay.errors import RemoteProtocolError


class Phase(enum.Enum):
    """How far a connection has come; the value is the wording of log lines."""

    HANDSHAKE = "the handshake is not complete"
    HANDSHAKEN = "connect has not been sent"
    CONNECTING = "connect has not been answered"
    CONNECTED = "the connection is open"
    REFUSED = "connect has been refused"


class Role(enum.Enum):
    """What a message stream does; the value is the wording of refusals."""

    IDLE = "idle"
    REQUESTING_PUBLISH = "waiting for permission to publish"
    PUBLISHING = "publishing"
    REQUESTING_PLAY = "waiting for permission to play"
    PLAYING = "playing"


@attrs.define(eq=False)
class ConnectionState:
    """The state of a connection, which only its machine changes."""

    phase: Phase = Phase.HANDSHAKE


@attrs.define(eq=False)
class StreamState:
    """The state of a message stream, which only its machine changes."""

    role: Role = Role.IDLE


class ConnectionLifecycle(Protocol):
    """The inputs of a connection's machine."""

    def handshake_completed(self) -> None: ...

    def connect_requested(self) -> None: ...

    def connect_accepted(self) -> None: ...

    def connect_refused(self) -> None: ...

    def command_received(self) -> None:
        """The client sent a command other than `connect`."""


class StreamLifecycle(Protocol):
    """The inputs of a message stream's machine."""

    def publish_requested(self) -> None: ...

    def play_requested(self) -> None: ...

    def accepted(self) -> None: ...

    def refused(self) -> None: ...

    def released(self) -> None:
        """The publish or play, or the request for it, is over."""


class Connection:
    """The state of a connection. A command out of order is the peer's error."""

    def __init__(self) -> None:
        self.state = ConnectionState()
        self._machine = _new_connection_machine(self.state)

    def handshake_completed(self) -> None:
        self._machine.handshake_completed()

    def connect_requested(self) -> None:
        """Accept only the first `connect`, after the handshake."""
        self._in_order("connect", self._machine.connect_requested)

    def command_received(self, name: str) -> None:
        """Accept any other command only after `connect`."""
        self._in_order(name, self._machine.command_received)

    def connect_accepted(self) -> None:
        self._machine.connect_accepted()

    def connect_refused(self) -> None:
        self._machine.connect_refused()

    def _in_order(self, name: str, step: Callable[[], None]) -> None:
        try:
            step()
        except NoTransition as wrong_order:
            raise RemoteProtocolError(f"{name[:40]!r} came while {self.state.phase.value}") from wrong_order


class MessageStream:
    """The state of a message stream. A request on a busy one is refused; that is not an error."""

    def __init__(self, stream_id: int) -> None:
        self.stream_id = stream_id
        self.state = StreamState()
        self._machine = _new_stream_machine(self.state)

    @property
    def role(self) -> Role:
        return self.state.role

    def publish_requested(self) -> bool:
        """Start a request to publish; False if the message stream is busy."""
        return self._if_possible(self._machine.publish_requested)

    def play_requested(self) -> bool:
        """Start a request to play; False if the message stream is busy."""
        return self._if_possible(self._machine.play_requested)

    def accepted(self) -> None:
        self._machine.accepted()

    def refused(self) -> None:
        self._machine.refused()

    def released(self) -> None:
        self._machine.released()

    @staticmethod
    def _if_possible(step: Callable[[], None]) -> bool:
        try:
            step()
        except NoTransition:
            return False
        return True


def _build_connection_machine() -> Callable[[ConnectionState], ConnectionLifecycle]:
    machine = TypeMachineBuilder(ConnectionLifecycle, ConnectionState)
    handshake = machine.state("handshake")
    handshaken = machine.state("handshaken")
    connecting = machine.state("connecting")
    connected = machine.state("connected")
    refused = machine.state("refused")

    @handshake.upon(ConnectionLifecycle.handshake_completed).to(handshaken)
    def _(_machine: ConnectionLifecycle, state: ConnectionState) -> None:
        state.phase = Phase.HANDSHAKEN

    @handshaken.upon(ConnectionLifecycle.connect_requested).to(connecting)
    def _(_machine: ConnectionLifecycle, state: ConnectionState) -> None:
        state.phase = Phase.CONNECTING

    @connecting.upon(ConnectionLifecycle.connect_accepted).to(connected)
    def _(_machine: ConnectionLifecycle, state: ConnectionState) -> None:
        state.phase = Phase.CONNECTED

    @connecting.upon(ConnectionLifecycle.connect_refused).to(refused)
    def _(_machine: ConnectionLifecycle, state: ConnectionState) -> None:
        state.phase = Phase.REFUSED

    # An encoder may send commands without waiting for the answer to connect; after a refusal they are ignored.
    for open_or_refused in (connecting, connected, refused):
        open_or_refused.upon(ConnectionLifecycle.command_received).to(open_or_refused).returns(None)
    return machine.build()


def _build_stream_machine() -> Callable[[StreamState], StreamLifecycle]:
    machine = TypeMachineBuilder(StreamLifecycle, StreamState)
    idle = machine.state("idle")
    requesting_publish = machine.state("requesting publish")
    publishing = machine.state("publishing")
    requesting_play = machine.state("requesting play")
    playing = machine.state("playing")

    @idle.upon(StreamLifecycle.publish_requested).to(requesting_publish)
    def _(_machine: StreamLifecycle, state: StreamState) -> None:
        state.role = Role.REQUESTING_PUBLISH

    @idle.upon(StreamLifecycle.play_requested).to(requesting_play)
    def _(_machine: StreamLifecycle, state: StreamState) -> None:
        state.role = Role.REQUESTING_PLAY

    @requesting_publish.upon(StreamLifecycle.accepted).to(publishing)
    def _(_machine: StreamLifecycle, state: StreamState) -> None:
        state.role = Role.PUBLISHING

    @requesting_play.upon(StreamLifecycle.accepted).to(playing)
    def _(_machine: StreamLifecycle, state: StreamState) -> None:
        state.role = Role.PLAYING

    def to_idle(_machine: StreamLifecycle, state: StreamState) -> None:
        state.role = Role.IDLE

    requesting_publish.upon(StreamLifecycle.refused).to(idle)(to_idle)
    requesting_play.upon(StreamLifecycle.refused).to(idle)(to_idle)
    for busy in (requesting_publish, publishing, requesting_play, playing):
        busy.upon(StreamLifecycle.released).to(idle)(to_idle)
    idle.upon(StreamLifecycle.released).to(idle).returns(None)
    return machine.build()


_new_connection_machine = _build_connection_machine()
_new_stream_machine = _build_stream_machine()
