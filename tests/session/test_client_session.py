"""The client's side: what it sends, and how it takes what servers answer."""

from __future__ import annotations

import weakref

import pytest

from rtmprelay.errors import LocalProtocolError
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import (
    ConnectAccepted,
    HandshakeDone,
    MediaReceived,
    PlayAccepted,
    PublishAccepted,
    SessionReport,
    StatusReceived,
)
from rtmprelay.wire import commands
from rtmprelay.wire.chunk_writer import ChunkWriter
from rtmprelay.wire.chunks import ChunkReader, RawMessage
from rtmprelay.wire.commands import StatusCode
from rtmprelay.wire.handshake import ServerHandshake
from rtmprelay.wire.messages import Command, Message, UserControl, UserControlType, from_raw, to_raw
from tests.session.helpers import AUDIO, call, frames_of, media


class HandMadeServer:
    """Shakes hands, and answers what a test says."""

    def __init__(self) -> None:
        self.client = ClientSession("live", "rtmp://host/live", {"extra": 1.0}, use_digest=False)
        self._reader = ChunkReader()
        self._writer = ChunkWriter()
        handshake = ServerHandshake()
        handshake.feed(self.client.bytes_to_send())
        self.first_events = self.client.receive_data(handshake.bytes_to_send(), 0.0)
        handshake.feed(self.client.bytes_to_send())
        self._first = handshake.leftover

    def heard(self) -> list[Command]:
        data, self._first = self._first + self.client.bytes_to_send(), b""
        messages = [from_raw(raw) for raw in self._reader.feed(data)]
        return [message for message in messages if isinstance(message, Command)]

    def say(self, *messages: Message | RawMessage) -> list[SessionReport]:
        raws = [item if isinstance(item, RawMessage) else to_raw(item) for item in messages]
        data = b"".join(self._writer.encode(raw, 3 + raw.type_id) for raw in raws)
        return self.client.receive_data(data, 0.0)


def connected_server() -> HandMadeServer:
    server = HandMadeServer()
    (connect,) = server.heard()
    assert server.say(commands.result(connect.transaction_id)) == [ConnectAccepted()]
    return server


def server_asked_to_publish() -> tuple[HandMadeServer, float]:
    """A server that has just got createStream, and its transaction."""
    server = connected_server()
    server.client.publish("cam?key=1")
    *_, create = server.heard()
    return server, create.transaction_id


def test_connect_follows_the_handshake_at_once() -> None:
    server = HandMadeServer()
    assert server.first_events == [HandshakeDone(False)]
    (connect,) = server.heard()
    properties = connect.command_object
    assert isinstance(properties, dict)
    assert (properties["app"], properties["tcUrl"], properties["extra"]) == ("live", "rtmp://host/live", 1.0)


def test_publish_is_asked_in_the_order_that_platforms_expect() -> None:
    server = connected_server()
    server.client.publish("cam?key=1")
    asked = server.heard()
    assert [command.name for command in asked] == ["releaseStream", "FCPublish", "createStream"]
    server.say(commands.result(asked[-1].transaction_id, None, 5.0))
    (publish,) = server.heard()
    assert (publish.name, publish.stream_id, publish.arguments) == ("publish", 5, ("cam?key=1", "live"))
    assert server.say(commands.on_status(5, "status", StatusCode.PUBLISH_START, "")) == [PublishAccepted(5)]


def test_errors_to_the_polite_calls_do_not_matter() -> None:
    server = connected_server()
    server.client.publish("cam")
    release, announce, _ = server.heard()
    assert server.say(*[commands.error(c.transaction_id, "x", "y") for c in (release, announce)]) == []


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
def test_no_message_stream_is_reported_as_a_refusal(answer: Command) -> None:
    server, transaction = server_asked_to_publish()
    answer = Command(answer.name, transaction, None, answer.arguments)
    assert server.say(answer) == [StatusReceived("error", StatusCode.CALL_FAILED, "no stream")]
    assert server.heard() == []
    with pytest.raises(LocalProtocolError):
        server.client.send_media(AUDIO)


def test_a_publish_refused_with_error_instead_of_a_status_is_reported() -> None:
    server, transaction = server_asked_to_publish()
    server.say(commands.result(transaction, None, 1.0))
    (publish,) = server.heard()
    assert server.say(commands.result(publish.transaction_id)) == []
    server, transaction = server_asked_to_publish()
    server.say(commands.result(transaction, None, 1.0))
    (publish,) = server.heard()
    refusal = commands.error(publish.transaction_id, StatusCode.PUBLISH_DENIED, "No")
    assert server.say(refusal) == [StatusReceived("error", StatusCode.PUBLISH_DENIED, "No")]


def test_a_refusal_by_status_is_reported() -> None:
    server, transaction = server_asked_to_publish()
    server.say(commands.result(transaction, None, 1.0))
    status = commands.on_status(1, "error", StatusCode.PUBLISH_BAD_NAME, "Taken")
    assert server.say(status) == [StatusReceived("error", StatusCode.PUBLISH_BAD_NAME, "Taken")]


def test_a_publish_that_ended_before_its_stream_was_made_is_not_published() -> None:
    server, transaction = server_asked_to_publish()
    server.client.end()
    assert [command.name for command in server.heard()] == ["FCUnpublish"]
    assert server.say(commands.result(transaction, None, 1.0)) == []
    assert server.heard() == []


def test_the_end_is_told_with_the_name_and_the_stream() -> None:
    server, transaction = server_asked_to_publish()
    server.say(commands.result(transaction, None, 4.0))
    server.heard()
    server.client.end()
    assert [(command.name, command.arguments) for command in server.heard()] == [
        ("FCUnpublish", ("cam?key=1",)),
        ("deleteStream", (4.0,)),
    ]
    with pytest.raises(LocalProtocolError):
        server.client.send_media(AUDIO)


def test_media_of_a_play_is_reported_until_its_end() -> None:
    server = connected_server()
    server.client.play("cam")
    (create,) = server.heard()
    server.say(commands.result(create.transaction_id, None, 1.0))
    events = server.say(commands.on_status(1, "status", StatusCode.PLAY_START, ""), media(AUDIO))
    assert events == [PlayAccepted(1), MediaReceived(1, [AUDIO])]
    server.client.end()
    assert server.say(media(AUDIO)) == []


def test_when_the_server_has_gone_the_last_frame_is_let_go() -> None:
    server = connected_server()
    server.client.play("cam")
    (create,) = server.heard()
    server.say(commands.result(create.transaction_id, None, 1.0))
    last = weakref.ref(frames_of(server.say(media(AUDIO)))[0])
    server.client.forget()
    assert last() is None


def test_answers_to_nothing_and_unknown_commands_are_ignored() -> None:
    server = connected_server()
    assert server.say(commands.result(77.0), commands.error(1.0, "x", "y"), call("onFCPublish", 0.0)) == []
    assert server.heard() == []


@pytest.mark.parametrize("name", ["onBWDone", "ping"])
def test_calls_that_expect_an_answer_get_one(name: str) -> None:
    server = connected_server()
    server.say(call(name, 9.0), call(name, 0.0))
    assert [(command.name, command.transaction_id) for command in server.heard()] == [("_result", 9.0)]


def test_other_commands_can_be_sent_and_pings_are_answered() -> None:
    server = connected_server()
    server.client.send_command(call("getStreamLength", 3.0, "cam"))
    assert [command.name for command in server.heard()] == ["getStreamLength"]
    server.say(UserControl(UserControlType.PING_REQUEST, 3))
    assert server.client.channel.has_output


def test_clients_are_timed_by_their_owner() -> None:
    client = connected_server().client
    client.check_time(1e9)
    assert client.next_deadline() is None
