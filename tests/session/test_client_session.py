"""The client's session: what it sends, and what it reports of the server's answers."""

from __future__ import annotations

import weakref

import pytest

from rtmprelay.errors import LocalProtocolError
from rtmprelay.session.reports import (
    HandshakeDone,
    MediaReceived,
    PlayAccepted,
    PublishAccepted,
    StatusReceived,
)
from rtmprelay.wire import commands
from rtmprelay.wire.commands import StatusCode
from rtmprelay.wire.messages import Command, UserControl, UserControlType
from tests.session.helpers import AUDIO, ScriptedServer, call, connected_server, frames_of, media


def server_with_publish() -> tuple[ScriptedServer, float]:
    """A server that has just received createStream, and its transaction."""
    server = connected_server()
    server.session.publish("cam?key=1")
    *_, create = server.received()
    return server, create.transaction_id


def test_client_sends_connect_right_after_the_handshake() -> None:
    server = ScriptedServer()
    assert server.first_reports == [HandshakeDone(False)]
    (connect,) = server.received()
    properties = connect.command_object
    assert isinstance(properties, dict)
    assert (properties["app"], properties["tcUrl"]) == ("live", "rtmp://host/live")


def test_client_sends_the_calls_of_a_publish_in_the_order_that_platforms_expect() -> None:
    server = connected_server()
    server.session.publish("cam?key=1")
    calls = server.received()
    assert [command.name for command in calls] == ["releaseStream", "FCPublish", "createStream"]
    server.send(commands.result(calls[-1].transaction_id, None, 5.0))
    (publish,) = server.received()
    assert (publish.name, publish.stream_id, publish.arguments) == ("publish", 5, ("cam?key=1", "live"))
    assert server.send(commands.on_status(5, "status", StatusCode.PUBLISH_START, "")) == [PublishAccepted(5)]


def test_errors_to_release_stream_and_fc_publish_are_ignored() -> None:
    server = connected_server()
    server.session.publish("cam")
    release, fc_publish, _ = server.received()
    assert server.send(*[commands.error(c.transaction_id, "x", "y") for c in (release, fc_publish)]) == []


@pytest.mark.parametrize(
    "answer",
    [
        commands.error(0.0, "", ""),
        commands.result(0.0),
        commands.result(0.0, None, "one"),
        commands.result(0.0, None, -1.0),
        commands.result(0.0, None, 0.0),
        commands.result(0.0, None, float("nan")),
        commands.result(0.0, None, float("inf")),
    ],
    ids=["error", "nothing", "text", "negative", "zero", "nan", "infinite"],
)
def test_answer_without_a_message_stream_is_reported_as_a_refusal(answer: Command) -> None:
    server, transaction = server_with_publish()
    answer = Command(answer.name, transaction, None, answer.arguments)
    assert server.send(answer) == [StatusReceived("error", StatusCode.CALL_FAILED, "no stream")]
    assert server.received() == []
    with pytest.raises(LocalProtocolError):
        server.session.send_media(AUDIO)


def test_publish_refused_with_an_error_answer_is_reported() -> None:
    server, transaction = server_with_publish()
    server.send(commands.result(transaction, None, 1.0))
    (publish,) = server.received()
    assert server.send(commands.result(publish.transaction_id)) == []
    server, transaction = server_with_publish()
    server.send(commands.result(transaction, None, 1.0))
    (publish,) = server.received()
    refusal = commands.error(publish.transaction_id, StatusCode.PUBLISH_DENIED, "No")
    assert server.send(refusal) == [StatusReceived("error", StatusCode.PUBLISH_DENIED, "No")]


def test_publish_refused_with_a_status_is_reported() -> None:
    server, transaction = server_with_publish()
    server.send(commands.result(transaction, None, 1.0))
    status = commands.on_status(1, "error", StatusCode.PUBLISH_BAD_NAME, "Taken")
    assert server.send(status) == [StatusReceived("error", StatusCode.PUBLISH_BAD_NAME, "Taken")]


def test_publish_ended_before_its_stream_was_created_sends_no_publish() -> None:
    server, transaction = server_with_publish()
    server.session.end()
    assert [command.name for command in server.received()] == ["FCUnpublish"]
    assert server.send(commands.result(transaction, None, 1.0)) == []
    assert server.received() == []


def test_end_sends_the_name_and_the_message_stream() -> None:
    server, transaction = server_with_publish()
    server.send(commands.result(transaction, None, 4.0))
    server.received()
    server.session.end()
    assert [(command.name, command.arguments) for command in server.received()] == [
        ("FCUnpublish", ("cam?key=1",)),
        ("deleteStream", (4.0,)),
    ]
    with pytest.raises(LocalProtocolError):
        server.session.send_media(AUDIO)


def test_media_of_a_play_is_reported_until_it_ends() -> None:
    server = connected_server()
    server.session.play("cam")
    (create,) = server.received()
    server.send(commands.result(create.transaction_id, None, 1.0))
    events = server.send(commands.on_status(1, "status", StatusCode.PLAY_START, ""), media(AUDIO))
    assert events == [PlayAccepted(1), MediaReceived(1, [AUDIO])]
    server.session.end()
    assert server.send(media(AUDIO)) == []


def test_last_frame_is_freed_after_the_connection_is_lost() -> None:
    server = connected_server()
    server.session.play("cam")
    (create,) = server.received()
    server.send(commands.result(create.transaction_id, None, 1.0))
    last = weakref.ref(frames_of(server.send(media(AUDIO)))[0])
    server.session.forget()
    assert last() is None


def test_unexpected_answers_and_unknown_commands_are_ignored() -> None:
    server = connected_server()
    assert server.send(commands.result(77.0), commands.error(1.0, "x", "y"), call("onFCPublish", 0.0)) == []
    assert server.received() == []


@pytest.mark.parametrize("name", ["onBWDone", "ping"])
def test_calls_of_the_server_are_answered_if_it_expects_that(name: str) -> None:
    server = connected_server()
    server.send(call(name, 9.0), call(name, 0.0))
    assert [(command.name, command.transaction_id) for command in server.received()] == [("_result", 9.0)]


def test_ping_of_the_server_is_answered() -> None:
    server = connected_server()
    server.send(UserControl(UserControlType.PING_REQUEST, 3))
    assert server.decode(server.session.bytes_to_send()) == [UserControl(UserControlType.PING_RESPONSE, 3)]


def test_client_session_has_no_deadlines() -> None:
    client = connected_server().session
    client.check_deadline(1e9)
    assert client.next_deadline() is None


def test_connect_has_the_properties_of_an_encoder() -> None:
    (connect,) = ScriptedServer().received()
    assert (connect.name, connect.transaction_id, connect.stream_id) == ("connect", 1.0, 0)
    assert connect.command_object == {
        "app": "live",
        "type": "nonprivate",
        "flashVer": "FMLE/3.0 (compatible; rtmprelay)",
        "tcUrl": "rtmp://host/live",
    }


def test_play_asks_for_the_live_stream_to_its_end_on_the_new_message_stream() -> None:
    server = connected_server()
    server.session.play("cam")
    (create,) = server.received()
    assert (create.name, create.stream_id) == ("createStream", 0)
    server.send(commands.result(create.transaction_id, None, 7.0))
    (play,) = server.received()
    assert (play.name, play.stream_id, play.arguments) == ("play", 7, ("cam", -2.0, -1.0, True))


@pytest.mark.parametrize(("number", "accepted"), [(2.0**32 - 1, True), (2.0**32, False)])
def test_number_of_a_message_stream_has_at_most_32_bits(number: float, accepted: bool) -> None:
    server, transaction = server_with_publish()
    reports = server.send(commands.result(transaction, None, number))
    assert (reports == []) is accepted
    assert server.session.stream_id == (number if accepted else 0)


def test_error_answer_with_a_number_creates_no_message_stream() -> None:
    server, transaction = server_with_publish()
    refusal = Command("_error", transaction, None, (5.0,))
    assert server.send(refusal) == [StatusReceived("error", StatusCode.CALL_FAILED, "no stream")]
    assert server.session.stream_id == 0


def test_player_that_ends_says_nothing_of_a_publish() -> None:
    server = connected_server()
    server.session.play("cam")
    (create,) = server.received()
    server.send(commands.result(create.transaction_id, None, 7.0))
    server.received()
    server.session.end()
    (delete,) = server.received()
    assert (delete.name, delete.stream_id, delete.arguments) == ("deleteStream", 0, (7.0,))
    assert server.session.stream_id == 0
