"""From the handshake to the answer to connect, and the calls that belong to the connection."""

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
    ScriptedClient,
    SessionPair,
    call,
    connected_client,
    media,
    only,
    phase_of,
)


@pytest.mark.parametrize("use_digest", [False, True], ids=["simple", "digest"])
def test_server_reports_the_form_of_the_handshake(use_digest: bool) -> None:
    assert ScriptedClient(use_digest=use_digest).first_reports == [HandshakeDone(use_digest)]


@pytest.mark.parametrize("use_digest", [False, True], ids=["simple", "digest"])
def test_client_and_server_session_connect(use_digest: bool) -> None:
    pair = SessionPair(use_digest=use_digest)
    assert pair.client_reports == [HandshakeDone(use_digest), ConnectAccepted()]
    assert pair.server_reports[0] == HandshakeDone(use_digest)
    assert only(pair.server_reports, ConnectRequested).app == "live"
    assert phase_of(pair.server) is Phase.CONNECTED


def test_server_announces_its_sizes_before_anything_else() -> None:
    client = ScriptedClient()
    written = client.session.bytes_to_send()
    # Parsed by hand: the chunk reader does not return Set Chunk Size.
    assert written[0] & 0x3F == 2
    size = to_raw(SetChunkSize(65536)).payload
    assert written.endswith(size)
    client = ScriptedClient()
    window, bandwidth, *rest = client.received()
    assert window == WindowAcknowledgementSize(2_500_000)
    assert isinstance(bandwidth, SetPeerBandwidth)
    assert bandwidth.size == 2_500_000
    assert rest == []


def test_announcements_come_before_the_answer_to_a_connect_in_the_same_read() -> None:
    client = ScriptedClient(shake=False)
    client.feed(client.handshake.bytes_to_send())
    client.handshake.feed(client.session.bytes_to_send())
    connect = client.encode(Command("connect", 1.0, {"app": "live"}))
    events = client.feed(client.handshake.bytes_to_send() + connect)
    client.session.accept(only(events, ConnectRequested).request_id)
    assert [type(message) for message in client.received()] == [
        WindowAcknowledgementSize,
        SetPeerBandwidth,
        Command,
    ]


def test_answer_to_connect_offers_enhanced_rtmp() -> None:
    client = ScriptedClient()
    client.received()
    request = only(client.send(Command("connect", 7.0, {"app": "live"})), ConnectRequested)
    client.session.accept(request.request_id)
    (answer,) = client.received()
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


def test_connect_without_a_command_object_names_the_empty_application() -> None:
    events = ScriptedClient().send(call("connect", 1.0))
    request = only(events, ConnectRequested)
    assert (request.app, request.client) == ("", "")


def test_name_of_the_client_software_is_cut() -> None:
    events = ScriptedClient().send(Command("connect", 1.0, {"app": "a", "flashVer": "x" * 500}))
    assert only(events, ConnectRequested).client == "x" * 80


@pytest.mark.parametrize("name", ["createStream", "publish", "play", "deleteStream", "_result", "nonsense"])
def test_command_before_connect_is_an_error_that_names_it(name: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"'{name}' came while connect has not been sent"):
        ScriptedClient().send(call(name, 1.0))


def test_second_connect_is_an_error() -> None:
    client = connected_client()
    with pytest.raises(RemoteProtocolError, match="'connect' came while the connection is open"):
        client.send(Command("connect", 2.0, {"app": "live"}))


def test_second_connect_is_an_error_when_it_is_read() -> None:
    client = ScriptedClient()
    request = only(client.send(Command("connect", 1.0, {"app": "live"})), ConnectRequested)
    assert client.send(Command("connect", 2.0, {"app": "live"})) == []
    client.session.accept(request.request_id)
    with pytest.raises(RemoteProtocolError, match="the connection is open"):
        client.feed(b"")


def test_application_name_with_control_characters_is_an_error() -> None:
    with pytest.raises(RemoteProtocolError, match="control characters"):
        ScriptedClient().send(Command("connect", 1.0, {"app": "li\nve"}))


def test_commands_after_a_refused_connect_are_ignored() -> None:
    client = ScriptedClient()
    client.received()
    request = only(client.send(Command("connect", 1.0, {"app": "live"})), ConnectRequested)
    client.session.reject(request.request_id, StatusCode.CONNECT_REJECTED, "No")
    (answer,) = client.received()
    assert isinstance(answer, Command)
    assert answer.name == "_error"
    assert phase_of(client.session) is Phase.REFUSED
    assert (
        client.send(call("createStream", 2.0), call("publish", 3.0, "cam", stream_id=1), media(AUDIO)) == []
    )
    assert client.received() == []


def test_requests_after_a_refused_connect_are_ignored() -> None:
    # An encoder that does not wait for the answer must not get a publish accepted.
    client = ScriptedClient()
    (request,) = client.send(
        Command("connect", 1.0, {"app": "live"}), call("publish", 2.0, "cam", stream_id=1), media(AUDIO)
    )
    assert isinstance(request, ConnectRequested)
    client.session.reject(request.request_id, StatusCode.CONNECT_REJECTED, "No")
    client.received()
    assert client.feed(b"") == []
    assert client.received() == []
    assert client.send(media(AUDIO)) == []


def test_client_session_reports_a_refused_connect() -> None:
    refused = ScriptedClient()
    request = only(refused.send(Command("connect", 1.0, {"app": "live"})), ConnectRequested)
    refused.session.reject(request.request_id, StatusCode.CONNECT_REJECTED, "No")
    # A client session gets the answer to its transaction 1.
    events = reports_of_client_session(refused)
    assert events == [StatusReceived("error", StatusCode.CONNECT_REJECTED, "No")]


def reports_of_client_session(refused: ScriptedClient) -> list[SessionReport]:
    client = ClientSession("live", "rtmp://host/live", use_digest=False)
    server = ServerHandshake()
    server.feed(client.bytes_to_send())
    client.receive_data(server.bytes_to_send(), 0.0)
    return client.receive_data(refused.session.bytes_to_send(), 0.0)


# -- createStream --------------------------------------------------------------------------------------------


def created_ids(client: ScriptedClient, count: int) -> list[int]:
    return [only(client.send(call("createStream", 2.0)), StreamCreated).stream_id for _ in range(count)]


def test_created_message_streams_get_different_ids_and_are_reported() -> None:
    client = connected_client()
    assert created_ids(client, 3) == [1, 2, 3]
    answers = client.received()
    assert [answer.arguments for answer in answers if isinstance(answer, Command)] == [(1.0,), (2.0,), (3.0,)]


def test_id_of_a_deleted_message_stream_is_used_again() -> None:
    client = connected_client()
    created_ids(client, 3)
    client.send(call("deleteStream", 0.0, 2.0))
    assert created_ids(client, 2) == [2, 4]


def test_id_used_without_create_stream_is_not_given_to_another_stream() -> None:
    client = connected_client()
    client.publish(stream_id=1)
    assert created_ids(client, 1) == [2]


@pytest.mark.parametrize("how", ["createStream", "publish", "play"])
def test_too_many_message_streams_are_an_error_that_names_the_limit(how: str) -> None:
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
def test_simple_calls_are_answered_if_the_client_expects_that(name: str, answer: object) -> None:
    client = connected_client()
    assert client.send(call(name, 5.0, "cam"), call(name, 0.0, "cam"), call(name, 6.0)) == []
    answers = [(item.name, item.transaction_id, item.arguments) for item in received_commands(client)]
    assert answers == [("_result", 5.0, (answer,)), ("_result", 6.0, (answer,))]


def received_commands(client: ScriptedClient) -> list[Command]:
    return [message for message in client.received() if isinstance(message, Command)]


def test_fc_subscribe_is_confirmed() -> None:
    client = connected_client()
    client.send(call("FCSubscribe", 5.0, "cam"))
    assert [message.name for message in received_commands(client)] == ["onFCSubscribe"]


def test_fc_publish_is_confirmed_once_with_the_publish() -> None:
    client = connected_client()
    client.send(call("FCPublish", 0.0, "cam"))
    for expected in (["onFCPublish", "onStatus"], ["onStatus"]):
        request = only(client.send(call("publish", 0.0, "cam", stream_id=1)), PublishRequested)
        client.session.accept(request.request_id)
        assert [message.name for message in received_commands(client)] == expected
        client.send(call("closeStream", 0.0, stream_id=1))
        client.received()


def test_unknown_command_is_answered_with_an_error_and_reported() -> None:
    client = connected_client()
    long_name = "x" * 300
    assert client.send(call(long_name, 4.0, 1.0)) == [CommandNotUnderstood("x" * 40)]
    (answer,) = received_commands(client)
    assert (answer.name, answer.transaction_id) == ("_error", 4.0)
    assert client.received_codes() == []


def test_unknown_command_without_a_transaction_gets_no_answer() -> None:
    client = connected_client()
    assert client.send(call("onSomething", 0.0)) == [CommandNotUnderstood("onSomething")]
    assert client.received() == []


@pytest.mark.parametrize("name", ["_result", "_error", "onStatus", "onBWDone"])
def test_answers_from_a_client_are_not_answered(name: str) -> None:
    client = connected_client()
    assert client.send(call(name, 4.0)) == []
    assert client.received() == []


def test_amf3_commands_are_accepted() -> None:
    client = connected_client()
    body = to_raw(call("createStream", 3.0)).payload
    events = client.send(RawMessage(MessageType.COMMAND_AMF3, 0, 0, b"\x00" + body))
    assert events == [StreamCreated(1)]


def test_ping_is_answered_with_its_timestamp() -> None:
    client = connected_client()
    client.send(UserControl(UserControlType.PING_REQUEST, 4242))
    assert client.received() == [UserControl(UserControlType.PING_RESPONSE, 4242)]


def test_messages_of_unknown_types_are_ignored() -> None:
    client = connected_client()
    assert client.send(RawMessage(99, 0, 0, b"?"), RawMessage(16, 0, 0, b"?")) == []
    assert client.received() == []
