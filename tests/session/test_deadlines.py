"""How long a server session waits, and what counts as a sign of life."""

from __future__ import annotations

import pytest

from rtmprelay.errors import LimitExceededError
from rtmprelay.session.reports import ConnectRequested
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.messages import Command
from tests.session.helpers import AUDIO, ScriptedClient, call, connected_client, media, only


def limit_at(client: ScriptedClient, now: float) -> str | None:
    try:
        client.session.check_deadline(now)
    except LimitExceededError as error:
        return error.limit
    return None


def assert_deadline(client: ScriptedClient, when: float, limit: str) -> None:
    assert client.session.next_deadline() == when
    assert limit_at(client, when - 0.001) is None
    assert limit_at(client, when) == limit


def test_handshake_may_take_5_seconds_however_often_a_byte_arrives() -> None:
    client = ScriptedClient(shake=False)
    for second in range(5):
        client.now = float(second)
        client.feed(b"\x03")
    assert_deadline(client, 5.0, "handshake_timeout")


def test_connect_may_take_10_seconds_whatever_else_arrives() -> None:
    client = ScriptedClient(shake=False)
    client.now = 3.0
    client.shake_hands()
    client.now = 12.0
    client.send(media(AUDIO))
    assert_deadline(client, 13.0, "connect_timeout")


def test_idle_client_has_60_seconds_from_its_last_whole_message() -> None:
    client = connected_client()
    client.publish()
    client.now = 30.0
    client.send(media(AUDIO))
    assert_deadline(client, 90.0, "idle_timeout")


def test_single_bytes_do_not_extend_the_deadline() -> None:
    client = connected_client()
    client.publish()
    for second, byte in enumerate(client.encode(media(AUDIO))[:-1]):
        client.now = float(second)
        client.feed(bytes([byte]))
    assert_deadline(client, 60.0, "idle_timeout")


def test_client_waiting_for_the_answer_to_connect_has_the_idle_timeout() -> None:
    client = ScriptedClient()
    client.now = 8.0
    request = only(client.send(Command("connect", 1.0, {"app": "live"})), ConnectRequested)
    assert_deadline(client, 68.0, "idle_timeout")
    client.session.accept(request.request_id)
    assert_deadline(client, 68.0, "idle_timeout")


def test_player_has_no_deadline() -> None:
    client = connected_client()
    client.play()
    assert client.session.next_deadline() is None
    assert limit_at(client, 1e9) is None
    client.now = 100.0
    client.send(call("closeStream", 0.0, stream_id=1))
    assert_deadline(client, 160.0, "idle_timeout")


def test_client_waiting_for_permission_to_play_has_the_idle_timeout() -> None:
    client = connected_client()
    client.send(call("play", 0.0, "cam", stream_id=1))
    assert_deadline(client, 60.0, "idle_timeout")


@pytest.mark.parametrize(
    ("field", "limits"),
    [
        ("handshake_timeout", ConnectionLimits(handshake_timeout=1.5)),
        ("connect_timeout", ConnectionLimits(connect_timeout=1.5)),
        ("idle_timeout", ConnectionLimits(idle_timeout=1.5)),
    ],
)
def test_each_timeout_can_be_configured(field: str, limits: ConnectionLimits) -> None:
    client = ScriptedClient(limits=limits, shake=field != "handshake_timeout")
    if field == "idle_timeout":
        client.connect()
    assert_deadline(client, 1.5, field)


@pytest.mark.parametrize(
    ("limit", "limits", "data"),
    [
        (
            "message_size_before_connect",
            ConnectionLimits(message_size_before_connect=100),
            b"\x03\x00\x00\x00\x00\x00\x65\x14\x00\x00\x00\x00",
        ),
        ("chunk_streams", ConnectionLimits(chunk_streams=2), bytes([0xC9, 0xCA, 0xCB])),
        (
            "assembly_size_before_publish",
            ConnectionLimits(assembly_size_before_publish=100),
            b"\x03\x00\x00\x00\x00\x10\x00\x14\x00\x00\x00\x00" + bytes(128),
        ),
    ],
    ids=["message_size_before_connect", "chunk_streams", "assembly_size_before_publish"],
)
def test_exceeded_limits_of_the_chunk_stream_are_named(
    limit: str, limits: ConnectionLimits, data: bytes
) -> None:
    client = ScriptedClient(limits=limits)
    with pytest.raises(LimitExceededError) as raised:
        client.feed(data)
    assert raised.value.limit == limit


@pytest.mark.parametrize(
    ("limit", "limits"),
    [
        ("amf_depth", ConnectionLimits(amf_depth=2)),
        ("amf_values_before_publish", ConnectionLimits(amf_values_before_publish=3)),
        ("amf_value_rate_before_publish", ConnectionLimits(amf_value_rate_before_publish=0)),
    ],
)
def test_exceeded_limits_of_commands_are_named(limit: str, limits: ConnectionLimits) -> None:
    connect = Command("connect", 1.0, {"app": "live", "more": {"deep": {"deeper": 1.0}}})
    ScriptedClient().send(connect)
    with pytest.raises(LimitExceededError) as raised:
        ScriptedClient(limits=limits).send(connect)
    assert raised.value.limit == limit
