"""The state machines of a server's conversation: what may follow what.

Everything that decides or changes the state of a connection or of a message stream lives in this file. The
machines see commands, never media: they set `phase` and `role`, and the frame path reads those.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol

import attrs
from automat import NoTransition, TypeMachineBuilder

from rtmprelay.errors import RemoteProtocolError


class Phase(enum.Enum):
    """How far a connection has come; the value is how a log line puts it."""

    HANDSHAKE = "the handshake is not over"
    HANDSHAKEN = "connect has not been sent"
    CONNECTING = "connect has not been answered"
    CONNECTED = "the connection is open"
    REFUSED = "connect has been refused"


@attrs.define(eq=False)
class ConnectionState:
    """The state of a connection, as others may read it."""

    phase: Phase = Phase.HANDSHAKE


class ConnectionLifecycle(Protocol):
    """What can happen to a connection."""

    def handshake_completed(self) -> None:
        """Both sides have shaken hands."""

    def connect_requested(self) -> None:
        """The client sent `connect`."""

    def connect_accepted(self) -> None:
        """The application may be used."""

    def connect_refused(self) -> None:
        """The application may not be used."""

    def command_received(self) -> None:
        """The client sent a command other than `connect`."""


def _build_connection_machine() -> Callable[[ConnectionState], ConnectionLifecycle]:
    machine = TypeMachineBuilder(ConnectionLifecycle, ConnectionState)
    shaking = machine.state("handshake")
    shaken = machine.state("handshaken")
    connecting = machine.state("connecting")
    connected = machine.state("connected")
    refused = machine.state("refused")

    @shaking.upon(ConnectionLifecycle.handshake_completed).to(shaken)
    def _(_machine: ConnectionLifecycle, state: ConnectionState) -> None:
        state.phase = Phase.HANDSHAKEN

    @shaken.upon(ConnectionLifecycle.connect_requested).to(connecting)
    def _(_machine: ConnectionLifecycle, state: ConnectionState) -> None:
        state.phase = Phase.CONNECTING

    @connecting.upon(ConnectionLifecycle.connect_accepted).to(connected)
    def _(_machine: ConnectionLifecycle, state: ConnectionState) -> None:
        state.phase = Phase.CONNECTED

    @connecting.upon(ConnectionLifecycle.connect_refused).to(refused)
    def _(_machine: ConnectionLifecycle, state: ConnectionState) -> None:
        state.phase = Phase.REFUSED

    # An encoder may send on without waiting for the answer to connect; what a refused one still sends is not heard.
    connecting.upon(ConnectionLifecycle.command_received).to(connecting).returns(None)
    connected.upon(ConnectionLifecycle.command_received).to(connected).returns(None)
    refused.upon(ConnectionLifecycle.command_received).to(refused).returns(None)
    return machine.build()


class Role(enum.Enum):
    """What a message stream does."""

    IDLE = "idle"
    ASKING_TO_PUBLISH = "waiting for leave to publish"
    PUBLISHING = "publishing"
    ASKING_TO_PLAY = "waiting for leave to play"
    PLAYING = "playing"


@attrs.define(eq=False)
class StreamState:
    """The state of a message stream, as others may read it."""

    role: Role = Role.IDLE


class StreamLifecycle(Protocol):
    """What can happen to a message stream."""

    def publish_requested(self) -> None:
        """The client wants to publish on it."""

    def play_requested(self) -> None:
        """The client wants to play on it."""

    def accepted(self) -> None:
        """The wish is granted."""

    def refused(self) -> None:
        """The wish is not granted."""

    def released(self) -> None:
        """Publishing or playing, or the wish for it, is over."""


def _build_stream_machine() -> Callable[[StreamState], StreamLifecycle]:
    machine = TypeMachineBuilder(StreamLifecycle, StreamState)
    idle = machine.state("idle")
    asking_to_publish = machine.state("asking to publish")
    publishing = machine.state("publishing")
    asking_to_play = machine.state("asking to play")
    playing = machine.state("playing")

    @idle.upon(StreamLifecycle.publish_requested).to(asking_to_publish)
    def _(_machine: StreamLifecycle, state: StreamState) -> None:
        state.role = Role.ASKING_TO_PUBLISH

    @idle.upon(StreamLifecycle.play_requested).to(asking_to_play)
    def _(_machine: StreamLifecycle, state: StreamState) -> None:
        state.role = Role.ASKING_TO_PLAY

    @asking_to_publish.upon(StreamLifecycle.accepted).to(publishing)
    def _(_machine: StreamLifecycle, state: StreamState) -> None:
        state.role = Role.PUBLISHING

    @asking_to_play.upon(StreamLifecycle.accepted).to(playing)
    def _(_machine: StreamLifecycle, state: StreamState) -> None:
        state.role = Role.PLAYING

    def to_idle(_machine: StreamLifecycle, state: StreamState) -> None:
        state.role = Role.IDLE

    asking_to_publish.upon(StreamLifecycle.refused).to(idle)(to_idle)
    asking_to_play.upon(StreamLifecycle.refused).to(idle)(to_idle)
    for busy in (asking_to_publish, publishing, asking_to_play, playing):
        busy.upon(StreamLifecycle.released).to(idle)(to_idle)
    idle.upon(StreamLifecycle.released).to(idle).returns(None)
    return machine.build()


_connection_machine = _build_connection_machine()
_stream_machine = _build_stream_machine()


class Connection:
    """A connection's machine, with the peer's wrong order turned into the peer's error."""

    def __init__(self) -> None:
        self.state = ConnectionState()
        self._machine = _connection_machine(self.state)

    def handshake_completed(self) -> None:
        """The handshake is over."""
        self._machine.handshake_completed()

    def connect_requested(self) -> None:
        """The client sent `connect`; only the first one is in order."""
        self._in_order("connect", self._machine.connect_requested)

    def command_received(self, name: str) -> None:
        """The client sent another command, which is in order only behind `connect`."""
        self._in_order(name, self._machine.command_received)

    def connect_accepted(self) -> None:
        """`connect` was answered with yes."""
        self._machine.connect_accepted()

    def connect_refused(self) -> None:
        """`connect` was answered with no."""
        self._machine.connect_refused()

    def _in_order(self, name: str, step: Callable[[], None]) -> None:
        try:
            step()
        except NoTransition as wrong_order:
            shown = name[:40]
            raise RemoteProtocolError(f"{shown!r} came while {self.state.phase.value}") from wrong_order


class MessageStream:
    """A message stream's machine; a wish that comes while it is busy is answered, not punished."""

    def __init__(self, stream_id: int) -> None:
        self.stream_id = stream_id
        self.state = StreamState()
        self._machine = _stream_machine(self.state)

    @property
    def role(self) -> Role:
        """What the message stream does now."""
        return self.state.role

    def publish_requested(self) -> bool:
        """The client wants to publish; False if the message stream is busy."""
        return self._if_possible(self._machine.publish_requested)

    def play_requested(self) -> bool:
        """The client wants to play; False if the message stream is busy."""
        return self._if_possible(self._machine.play_requested)

    def accepted(self) -> None:
        """The wish is granted."""
        self._machine.accepted()

    def refused(self) -> None:
        """The wish is not granted."""
        self._machine.refused()

    def released(self) -> None:
        """Whatever it did is over."""
        self._machine.released()

    @staticmethod
    def _if_possible(step: Callable[[], None]) -> bool:
        try:
            step()
        except NoTransition:
            return False
        return True
