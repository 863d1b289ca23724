"""The state machines alone: every step from every state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rtmprelay.errors import RemoteProtocolError
from rtmprelay.session.lifecycle import Connection, MessageStream, Phase, Role

_WAYS: dict[Role, list[Callable[[MessageStream], object]]] = {
    Role.IDLE: [],
    Role.REQUESTING_PUBLISH: [MessageStream.publish_requested],
    Role.PUBLISHING: [MessageStream.publish_requested, MessageStream.accepted],
    Role.REQUESTING_PLAY: [MessageStream.play_requested],
    Role.PLAYING: [MessageStream.play_requested, MessageStream.accepted],
}


def stream_in(role: Role) -> MessageStream:
    stream = MessageStream(1)
    for step in _WAYS[role]:
        step(stream)
    assert stream.role is role
    return stream


@pytest.mark.parametrize("role", list(Role), ids=lambda role: role.name)
def test_message_stream_can_be_released_from_every_role(role: Role) -> None:
    stream = stream_in(role)
    stream.released()
    assert stream.role is Role.IDLE
    assert stream.publish_requested()


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.IDLE], ids=lambda role: role.name)
def test_busy_message_stream_accepts_no_request(role: Role) -> None:
    stream = stream_in(role)
    assert not stream.publish_requested()
    assert not stream.play_requested()
    assert stream.role is role


@pytest.mark.parametrize("role", [Role.REQUESTING_PUBLISH, Role.REQUESTING_PLAY], ids=lambda role: role.name)
def test_refused_request_leaves_the_message_stream_idle(role: Role) -> None:
    stream = stream_in(role)
    stream.refused()
    assert stream.role is Role.IDLE


def test_message_streams_do_not_share_their_state() -> None:
    publishing, other = stream_in(Role.PUBLISHING), MessageStream(2)
    assert (publishing.role, other.role) == (Role.PUBLISHING, Role.IDLE)


def test_connection_goes_through_its_phases() -> None:
    connection = Connection()
    phases = [connection.state.phase]
    for step in (connection.handshake_completed, connection.connect_requested, connection.connect_accepted):
        step()
        phases.append(connection.state.phase)
    assert phases == [Phase.HANDSHAKE, Phase.HANDSHAKEN, Phase.CONNECTING, Phase.CONNECTED]
    connection.command_received("publish")
    assert connection.state.phase is Phase.CONNECTED


def test_long_command_name_is_cut_in_the_error() -> None:
    connection = Connection()
    connection.handshake_completed()
    with pytest.raises(RemoteProtocolError) as raised:
        connection.command_received("x" * 5000)
    assert len(str(raised.value)) < 100
