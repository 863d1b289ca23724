"""From the handshake to an answered connect, and the calls that belong to the connection."""

from __future__ import annotations

import pytest

from rtmprelay.errors import LimitExceededError, RemoteProtocolError
from rtmprelay.session.client import ClientSession
from rtmprelay.session.lifecycle import Phase
from rtmprelay.session.reports import (
    CommandNotUnderstood,
    ConnectAccepted,
    ConnectRequested,
    HandshakeDone,
    PublishRequested,
    SessionReport,
    StatusReceived,
    StreamCreated,
)
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.commands import StatusCode
from rtmprelay.wire.handshake import ServerHandshake
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.messages import (
    Command,
    MessageType,
    SetChunkSize,
    SetPeerBandwidth,
    UserControl,
    UserControlType,
    WindowAcknowledgementSize,
    to_raw,
)
from tests.session.helpers import (
    AUDIO,
    ConversationPair,
    HandMadeClient,
    call,
    connected_client,
    media,
    only,
)


@pytest.mark.parametrize("use_digest", [False, True], ids=["simple", "digest"])
def test_both_forms_of_the_handshake_are_reported(use_digest: bool) -> None:
    assert HandMadeClient(use_digest=use_digest).first_events == [HandshakeDone(use_digest)]


@pytest.mark.parametrize("use_digest", [False, True], ids=["simple", "digest"])
def test_client_and_server_session_understand_each_other(use_digest: bool) -> None:
    pair = ConversationPair(use_digest=use_digest)
    assert pair.client_saw == [HandshakeDone(use_digest), ConnectAccepted()]
    assert pair.server_saw[0] == HandshakeDone(use_digest)
    assert only(pair.server_saw, ConnectRequested).app == "live"
    assert pair.server.phase is Phase.CONNECTED


def test_the_server_announces_its_sizes_before_anything_else() -> None:
    client = HandMadeClient()
    written = client.session.bytes_to_send()
    # Read by hand: the chunk reader keeps Set Chunk Size to itself.
    assert written[0] & 0x3F == 2
    size = to_raw(SetChunkSize(65536)).payload
    assert written.endswith(size)
    client = HandMadeClient()
    window, bandwidth, *rest = client.heard()
    assert window == WindowAcknowledgementSize(2_500_000)
    assert isinstance(bandwidth, SetPeerBandwidth)
    assert bandwidth.size == 2_500_000
    assert rest == []


def test_the_announcements_stand_before_the_answer_to_a_connect_in_the_same_read() -> None:
    client = HandMadeClient(shake=False)
    client.feed(client._handshake.bytes_to_send())
    client._handshake.feed(client.session.bytes_to_send())
    connect = client.encode(Command("connect", 1.0, {"app": "live"}))
    events = client.feed(client._handshake.bytes_to_send() + connect)
    client.session.accept(only(events, ConnectRequested).request_id)
    assert [type(message) for message in client.heard()] == [
        WindowAcknowledgementSize,
        SetPeerBandwidth,
        Command,
    ]


def test_the_answer_to_connect_offers_enhanced_rtmp() -> None:
    client = HandMadeClient()
    client.heard()
    request = only(client.send(Command("connect", 7.0, {"app": "live"})), ConnectRequested)
    client.session.accept(request.request_id)
    (answer,) = client.heard()
    assert isinstance(answer, Command)
    assert (answer.name, answer.transaction_id) == ("_result", 7.0)
    (information,) = answer.arguments
    for properties in (answer.command_object, information):
        assert isinstance(properties, dict)
        assert properties["fourCcList"] == ["*"]
        assert properties["videoFourCcInfoMap"] == {"*": 4.0}
        assert properties["audioFourCcInfoMap"] == {"*": 4.0}
        assert properties["capsEx"] == 14.0
    assert isinstance(information, dict)
    assert information["code"] == StatusCode.CONNECT_SUCCESS
    assert information["level"] == "status"


def test_a_client_without_a_command_object_connects_to_the_empty_application() -> None:
    events = HandMadeClient().send(call("connect", 1.0))
    request = only(events, ConnectRequested)
    assert (request.app, request.client) == ("", "")


def test_what_a_client_calls_itself_is_cut() -> None:
    events = HandMadeClient().send(Command("connect", 1.0, {"app": "a", "flashVer": "x" * 500}))
    assert only(events, ConnectRequested).client == "x" * 80


@pytest.mark.parametrize("name", ["createStream", "publish", "play", "deleteStream", "_result", "nonsense"])
def test_a_command_before_connect_is_an_error_that_names_it(name: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"'{name}' came while connect has not been sent"):
        HandMadeClient().send(call(name, 1.0))


def test_connect_twice_is_an_error() -> None:
    client = connected_client()
    with pytest.raises(RemoteProtocolError, match="'connect' came while the connection is open"):
        client.send(Command("connect", 2.0, {"app": "live"}))


def test_connect_twice_without_an_answer_is_an_error() -> None:
    client = HandMadeClient()
    client.send(Command("connect", 1.0, {"app": "live"}))
    with pytest.raises(RemoteProtocolError, match="connect has not been answered"):
        client.send(Command("connect", 2.0, {"app": "live"}))


def test_an_application_name_with_control_characters_is_an_error() -> None:
    with pytest.raises(RemoteProtocolError, match="control characters"):
        HandMadeClient().send(Command("connect", 1.0, {"app": "li\nve"}))


def test_after_a_refused_connect_nothing_is_heard() -> None:
    client = HandMadeClient()
    client.heard()
    request = only(client.send(Command("connect", 1.0, {"app": "live"})), ConnectRequested)
    client.session.reject(request.request_id, StatusCode.CONNECT_REJECTED, "No")
    (answer,) = client.heard()
    assert isinstance(answer, Command)
    assert answer.name == "_error"
    assert client.session.phase is Phase.REFUSED
    assert (
        client.send(call("createStream", 2.0), call("publish", 3.0, "cam", stream_id=1), media(AUDIO)) == []
    )
    assert client.heard() == []


def test_a_refused_connect_takes_what_was_asked_behind_it_along() -> None:
    """An encoder that does not wait for the answer must not get a publish in through the back door."""
    client = HandMadeClient()
    events = client.send(
        Command("connect", 1.0, {"app": "live"}), call("publish", 2.0, "cam", stream_id=1), media(AUDIO)
    )
    client.session.reject(only(events, ConnectRequested).request_id, StatusCode.CONNECT_REJECTED, "No")
    client.heard()
    client.session.accept(only(events, PublishRequested).request_id)
    assert client.heard() == []
    assert client.send(media(AUDIO)) == []


def test_the_client_session_reports_a_refused_connect() -> None:
    refused = HandMadeClient()
    request = only(refused.send(Command("connect", 1.0, {"app": "live"})), ConnectRequested)
    refused.session.reject(request.request_id, StatusCode.CONNECT_REJECTED, "No")
    # The answer to transaction 1 is fed to a client session that waits for exactly that.
    events = waiting_client_session_events(refused)
    assert events == [StatusReceived("error", StatusCode.CONNECT_REJECTED, "No")]


def waiting_client_session_events(refused: HandMadeClient) -> list[SessionReport]:
    client = ClientSession("live", "rtmp://host/live", use_digest=False)
    server = ServerHandshake()
    server.feed(client.bytes_to_send())
    client.receive_data(server.bytes_to_send(), 0.0)
    return client.receive_data(refused.session.bytes_to_send(), 0.0)


# -- createStream --------------------------------------------------------------------------------------------


def created_ids(client: HandMadeClient, count: int) -> list[int]:
    return [only(client.send(call("createStream", 2.0)), StreamCreated).stream_id for _ in range(count)]


def test_created_message_streams_have_different_ids_and_are_told() -> None:
    client = connected_client()
    assert created_ids(client, 3) == [1, 2, 3]
    answers = client.heard()
    assert [answer.arguments for answer in answers if isinstance(answer, Command)] == [(1.0,), (2.0,), (3.0,)]


def test_a_deleted_message_stream_gives_its_id_back() -> None:
    client = connected_client()
    created_ids(client, 3)
    client.send(call("deleteStream", 0.0, 2.0))
    assert created_ids(client, 2) == [2, 4]


def test_an_id_used_without_being_made_is_not_given_to_another() -> None:
    client = connected_client()
    client.publish(stream_id=1)
    assert created_ids(client, 1) == [2]


@pytest.mark.parametrize("how", ["createStream", "publish", "play"])
def test_more_message_streams_than_the_limit_are_an_error_that_names_it(how: str) -> None:
    client = connected_client(ConnectionLimits(message_streams=3))
    created_ids(client, 3)
    with pytest.raises(LimitExceededError) as raised:
        client.send(call(how, 9.0, "name", stream_id=77))
    assert raised.value.limit == "message_streams"


# -- other calls ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("releaseStream", None),
        ("FCPublish", None),
        ("_checkbw", None),
        ("getStreamLength", 0.0),
    ],
)
def test_small_calls_are_answered_when_an_answer_is_wanted(name: str, answer: object) -> None:
    client = connected_client()
    assert client.send(call(name, 5.0, "cam"), call(name, 0.0, "cam"), call(name, 6.0)) == []
    heard = [(item.name, item.transaction_id, item.arguments) for item in commands_heard(client)]
    assert heard == [("_result", 5.0, (answer,)), ("_result", 6.0, (answer,))]


def commands_heard(client: HandMadeClient) -> list[Command]:
    return [message for message in client.heard() if isinstance(message, Command)]


def test_fc_subscribe_is_confirmed() -> None:
    client = connected_client()
    client.send(call("FCSubscribe", 5.0, "cam"))
    assert [message.name for message in commands_heard(client)] == ["onFCSubscribe"]


def test_fc_publish_is_confirmed_with_the_publish_and_once() -> None:
    client = connected_client()
    client.send(call("FCPublish", 0.0, "cam"))
    for expected in (["onFCPublish", "onStatus"], ["onStatus"]):
        request = only(client.send(call("publish", 0.0, "cam", stream_id=1)), PublishRequested)
        client.session.accept(request.request_id)
        assert [message.name for message in commands_heard(client)] == expected
        client.send(call("closeStream", 0.0, stream_id=1))
        client.heard()


def test_an_unknown_command_is_answered_with_an_error_and_reported() -> None:
    client = connected_client()
    long_name = "x" * 300
    assert client.send(call(long_name, 4.0, 1.0)) == [CommandNotUnderstood("x" * 40)]
    (answer,) = commands_heard(client)
    assert (answer.name, answer.transaction_id) == ("_error", 4.0)
    assert client.heard_briefly() == []


def test_an_unknown_command_that_wants_no_answer_gets_none() -> None:
    client = connected_client()
    assert client.send(call("onSomething", 0.0)) == [CommandNotUnderstood("onSomething")]
    assert client.heard() == []


@pytest.mark.parametrize("name", ["_result", "_error", "onStatus", "onBWDone"])
def test_answers_from_a_client_are_not_answered(name: str) -> None:
    client = connected_client()
    assert client.send(call(name, 4.0)) == []
    assert client.heard() == []


def test_amf3_commands_are_understood() -> None:
    client = connected_client()
    body = to_raw(call("createStream", 3.0)).payload
    events = client.send(RawMessage(MessageType.COMMAND_AMF3, 0, 0, b"\x00" + body))
    assert events == [StreamCreated(1)]


def test_a_ping_is_answered_with_its_timestamp() -> None:
    client = connected_client()
    client.send(UserControl(UserControlType.PING_REQUEST, 4242))
    assert client.heard() == [UserControl(UserControlType.PING_RESPONSE, 4242)]


def test_the_answer_to_our_ping_is_counted() -> None:
    client = connected_client()
    client.session.channel.ping(2**32 + 5)
    assert client.heard() == [UserControl(UserControlType.PING_REQUEST, 5)]
    client.send(UserControl(UserControlType.PING_RESPONSE, 5))
    assert client.session.channel.ping_answered == 1


def test_messages_of_unknown_types_are_ignored() -> None:
    client = connected_client()
    assert client.send(RawMessage(99, 0, 0, b"?"), RawMessage(16, 0, 0, b"?")) == []
    assert client.heard() == []
