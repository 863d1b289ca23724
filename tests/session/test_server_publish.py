"""Publishing on a server session: the request, the answer, and the media."""

from __future__ import annotations

import weakref

import pytest

from rtmprelay.errors import LimitExceededError, RemoteProtocolError
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.session.reports import (
    MediaReceived,
    PublishAccepted,
    PublishEnded,
    PublishRequested,
    StatusReceived,
    StreamNameRefused,
)
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.commands import StatusCode, status_of
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.messages import Command, MessageType
from tests.session.helpers import (
    AUDIO,
    VIDEO,
    ScriptedClient,
    SessionPair,
    call,
    code_of,
    connected_client,
    frames_of,
    media,
    only,
)


def request_publish(client: ScriptedClient, name: str = "cam", stream_id: int = 1) -> PublishRequested:
    return only(client.send(call("publish", 0.0, name, "live", stream_id=stream_id)), PublishRequested)


def level_and_code(client: ScriptedClient) -> list[tuple[str, str]]:
    return [status_of(message)[:2] for message in client.received() if isinstance(message, Command)]


def test_client_and_server_session_agree_on_a_publish() -> None:
    pair = SessionPair()
    pair.client.publish("cam")
    pair.run()
    pair.upload(AUDIO)
    pair.upload(VIDEO)
    request = only(pair.server_reports, PublishRequested)
    assert str(request.key) == "live/cam"
    assert PublishAccepted(request.stream_id) in pair.client_reports
    assert frames_of(pair.server_reports) == [AUDIO, VIDEO]
    pair.client.end()
    pair.run()
    assert PublishEnded(request.stream_id) in pair.server_reports
    assert any(
        isinstance(event, StatusReceived) and event.code == StatusCode.UNPUBLISH_SUCCESS
        for event in pair.client_reports
    )


def test_accepted_publish_sends_begin_and_start() -> None:
    client = connected_client()
    client.session.accept(request_publish(client).request_id)
    assert client.received_codes() == [("STREAM_BEGIN", 1), StatusCode.PUBLISH_START]


def test_server_sends_nothing_before_the_publish_is_answered() -> None:
    client = connected_client()
    request_publish(client)
    assert client.received() == []


def test_rejected_publish_sends_an_error_with_the_code_and_drops_the_media() -> None:
    client = connected_client()
    client.session.reject(request_publish(client).request_id, StatusCode.PUBLISH_DENIED, "No")
    assert level_and_code(client) == [("error", StatusCode.PUBLISH_DENIED)]
    assert client.send(media(AUDIO)) == []


def test_rejected_publisher_can_request_again() -> None:
    client = connected_client()
    client.session.reject(request_publish(client).request_id, StatusCode.PUBLISH_DENIED, "No")
    client.publish()
    assert frames_of(client.send(media(AUDIO))) == [AUDIO]


@pytest.mark.parametrize("answered", [False, True], ids=["while requesting", "while publishing"])
def test_second_publish_on_a_message_stream_is_refused_and_the_first_continues(answered: bool) -> None:
    client = connected_client()
    request = request_publish(client)
    if answered:
        client.session.accept(request.request_id)
        client.received()
    assert client.send(call("publish", 0.0, "other", stream_id=1)) == []
    if not answered:
        assert client.received() == []
        client.session.accept(request.request_id)
        client.received()
        assert client.feed(b"") == []
    assert level_and_code(client) == [("error", StatusCode.PUBLISH_BAD_NAME)]
    assert frames_of(client.send(media(AUDIO))) == [AUDIO]


def test_publish_without_a_type_is_accepted() -> None:
    client = connected_client()
    events = client.send(call("publish", 0.0, "cam", stream_id=1))
    assert str(only(events, PublishRequested).key) == "live/cam"


@pytest.mark.parametrize("stream_id", [0, 5, 2**32 - 1])
def test_publish_creates_a_missing_message_stream(stream_id: int) -> None:
    client = connected_client()
    client.publish(stream_id=stream_id)
    assert client.send(media(AUDIO, stream_id)) == [MediaReceived(stream_id, [AUDIO])]


@pytest.mark.parametrize(
    "name", ["bad\nname", "nul\x00", "x" * 5000, 3.0, None], ids=["newline", "nul", "long", "number", "null"]
)
def test_publish_with_a_bad_name_is_refused_and_the_connection_continues(name: object) -> None:
    client = ScriptedClient()
    client.connect(app="")
    (refused,) = client.send(call("publish", 0.0, name, "live", stream_id=1), media(AUDIO))
    assert isinstance(refused, StreamNameRefused)
    assert level_and_code(client) == [("error", StatusCode.PUBLISH_BAD_NAME)]
    client.publish()


# -- media ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", ["in the same read", "in a later one"])
def test_media_sent_before_the_answer_is_read_after_it(read: str) -> None:
    client = connected_client()
    large = MediaFrame(MediaKind.VIDEO, 30, bytes(100_000))
    sent = [media(AUDIO), media(VIDEO), media(large)]
    first = sent if read == "in the same read" else []
    (request,) = client.send(call("publish", 0.0, "cam", stream_id=1), *first)
    assert isinstance(request, PublishRequested)
    if not first:
        assert client.send(*sent) == []
    assert client.session.has_held_data
    client.session.accept(request.request_id)
    assert frames_of(client.feed(b"")) == [AUDIO, VIDEO, large]
    assert not client.session.has_held_data


def test_media_of_a_refused_publisher_is_dropped() -> None:
    client = connected_client()
    request = only(client.send(call("publish", 0.0, "cam", stream_id=1), media(VIDEO)), PublishRequested)
    client.session.reject(request.request_id, StatusCode.PUBLISH_DENIED, "No")
    assert client.feed(b"") == []


def test_what_waits_for_the_answer_to_a_publish_is_bounded() -> None:
    client = connected_client(ConnectionLimits(assembly_size_before_publish=10_000))
    request_publish(client)
    client.feed(bytes(9_000))
    with pytest.raises(LimitExceededError) as raised:
        client.feed(bytes(2_000))
    assert raised.value.limit == "assembly_size_before_publish"


def test_media_before_and_after_a_command_is_reported_in_order() -> None:
    client = connected_client()
    client.publish()
    events = client.send(media(AUDIO), call("closeStream", 0.0, stream_id=1), media(VIDEO))
    assert events == [MediaReceived(1, [AUDIO]), PublishEnded(1)]


def test_media_of_two_publishes_on_one_message_stream_is_reported_separately() -> None:
    client = connected_client()
    client.publish()
    again = [call("closeStream", 0.0, stream_id=1), call("publish", 0.0, "new", stream_id=1)]
    events = client.send(media(AUDIO), *again, media(VIDEO))
    assert [type(event) for event in events] == [MediaReceived, PublishEnded, PublishRequested]
    assert events[0] == MediaReceived(1, [AUDIO])
    client.session.accept(only(events, PublishRequested).request_id)
    assert client.feed(b"") == [MediaReceived(1, [VIDEO])]


def test_frames_of_one_read_are_one_report() -> None:
    client = connected_client()
    client.publish()
    assert client.send(*[media(AUDIO)] * 5) == [MediaReceived(1, [AUDIO] * 5)]


def test_frames_of_two_message_streams_are_separate_reports() -> None:
    client = connected_client()
    client.publish(stream_id=1)
    client.publish(stream_id=2, name="other")
    events = client.send(media(AUDIO, 1), media(VIDEO, 2), media(AUDIO, 2))
    assert events == [MediaReceived(1, [AUDIO]), MediaReceived(2, [VIDEO, AUDIO])]


def test_media_on_message_stream_0_belongs_to_the_only_publish() -> None:
    client = connected_client()
    client.publish(stream_id=3)
    assert client.send(media(AUDIO, 0)) == [MediaReceived(3, [AUDIO])]
    client.publish(stream_id=4, name="other")
    assert client.send(media(AUDIO, 0)) == []


def test_media_without_a_publish_is_dropped() -> None:
    client = connected_client()
    client.play()
    assert client.send(media(AUDIO), media(VIDEO, 0)) == []


def test_amf3_data_loses_only_its_marker() -> None:
    client = connected_client()
    client.publish()
    events = client.send(
        RawMessage(MessageType.DATA_AMF3, 5, 1, b"\x00\x02\x00\x01x"),
        RawMessage(MessageType.DATA_AMF3, 6, 1, b"\x02\x00\x01y"),
    )
    assert frames_of(events) == [
        MediaFrame(MediaKind.DATA, 5, b"\x02\x00\x01x"),
        MediaFrame(MediaKind.DATA, 6, b"\x02\x00\x01y"),
    ]


def aggregate_part(type_id: int, timestamp: int, payload: bytes) -> bytes:
    low, high = (timestamp & 0xFFFFFF).to_bytes(3), timestamp >> 24
    header = bytes([type_id]) + len(payload).to_bytes(3) + low + bytes([high]) + b"\x00\x00\x00"
    return header + payload + (len(header) + len(payload)).to_bytes(4)


def test_aggregate_is_split_and_its_parts_get_its_time() -> None:
    client = connected_client()
    client.publish()
    body = aggregate_part(8, 100, b"\xaf\x01a") + aggregate_part(9, 140, b"\x27\x01v")
    assert frames_of(client.send(RawMessage(MessageType.AGGREGATE, 1000, 1, body))) == [
        MediaFrame(MediaKind.AUDIO, 1000, b"\xaf\x01a"),
        MediaFrame(MediaKind.VIDEO, 1040, b"\x27\x01v"),
    ]


def test_commands_and_aggregates_inside_an_aggregate_are_ignored() -> None:
    client = connected_client()
    client.publish()
    inner = aggregate_part(22, 0, aggregate_part(8, 0, b"\xaf\x01x"))
    body = inner + aggregate_part(20, 0, b"garbage") + aggregate_part(8, 0, b"\xaf\x01a")
    events = client.send(RawMessage(MessageType.AGGREGATE, 0, 1, body))
    assert [frame.payload for frame in frames_of(events)] == [b"\xaf\x01a"]


def test_aggregate_with_too_many_parts_is_an_error_that_names_the_limit() -> None:
    client = connected_client(ConnectionLimits(aggregate_parts=2))
    client.publish()
    part = aggregate_part(8, 0, b"\xaf\x01a")
    client.send(RawMessage(MessageType.AGGREGATE, 0, 1, part * 2))
    with pytest.raises(LimitExceededError) as raised:
        client.send(RawMessage(MessageType.AGGREGATE, 0, 1, part * 3))
    assert raised.value.limit == "aggregate_parts"


def test_truncated_aggregate_is_a_remote_protocol_error() -> None:
    client = connected_client()
    client.publish()
    with pytest.raises(RemoteProtocolError, match="aggregate"):
        client.send(RawMessage(MessageType.AGGREGATE, 0, 1, aggregate_part(8, 0, b"abc")[:-6]))


# -- the end -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ending",
    [
        call("closeStream", 0.0, stream_id=1),
        call("deleteStream", 0.0, 1.0),
        call("deleteStream", 0.0, stream_id=1),
        call("FCUnpublish", 0.0, "another spelling"),
    ],
    ids=["closeStream", "deleteStream", "deleteStream without its argument", "FCUnpublish"],
)
def test_publish_is_ended_by_each_command_for_it(ending: Command) -> None:
    client = connected_client()
    client.publish()
    assert client.send(ending) == [PublishEnded(1)]
    assert StatusCode.UNPUBLISH_SUCCESS in client.received_codes()
    assert client.send(media(AUDIO), ending) == []


@pytest.mark.parametrize("unknown", [7.0, 0.0, -1.0, 1e300, float("nan"), float("inf"), "x", None])
def test_deleting_an_unknown_message_stream_is_ignored(unknown: object) -> None:
    client = connected_client()
    client.publish()
    assert client.send(call("deleteStream", 0.0, unknown), call("closeStream", 0.0, stream_id=9)) == []
    assert client.received() == []
    assert frames_of(client.send(media(AUDIO))) == [AUDIO]


@pytest.mark.parametrize("accepted", [True, False], ids=["accept", "reject"])
@pytest.mark.parametrize("ending", ["deleteStream", "closeStream"])
def test_cancellation_of_a_publish_is_read_after_its_answer(accepted: bool, ending: str) -> None:
    client = connected_client()
    request = request_publish(client)
    assert client.send(call(ending, 0.0, 1.0, stream_id=1)) == []
    if accepted:
        client.session.accept(request.request_id)
        assert client.feed(b"") == [PublishEnded(1)]
    else:
        client.session.reject(request.request_id, StatusCode.PUBLISH_DENIED, "No")
        assert client.feed(b"") == []
    assert client.send(media(AUDIO)) == []


@pytest.mark.parametrize("ended", ["by the server", "twice"])
def test_answer_to_a_request_that_is_over_is_ignored(ended: str) -> None:
    client = connected_client()
    request = request_publish(client)
    if ended == "by the server":
        client.session.end_stream(1, "error", StatusCode.PUBLISH_BAD_NAME, "No")
    else:
        client.session.accept(request.request_id)
    client.received()
    client.session.accept(request.request_id)
    assert client.received() == []
    assert client.session.requests.awaited is None


def test_server_ends_a_publish_with_a_status() -> None:
    client = connected_client()
    client.publish()
    client.session.end_stream(1, "error", StatusCode.PUBLISH_BAD_NAME, "Taken over")
    assert level_and_code(client) == [("error", StatusCode.PUBLISH_BAD_NAME)]
    assert client.send(media(AUDIO), call("closeStream", 0.0, stream_id=1)) == []
    client.publish()


def test_ending_a_publish_that_the_client_has_deleted_sends_nothing() -> None:
    # The publisher that takes over may be the very client that has just left.
    client = connected_client()
    client.publish()
    client.send(call("deleteStream", 0.0, 1.0))
    client.received()
    client.session.end_stream(1, "error", StatusCode.PUBLISH_BAD_NAME, "Taken over")
    assert client.received() == []


def test_last_frame_is_freed_after_the_connection_is_lost() -> None:
    client = connected_client()
    client.session.accept(request_publish(client).request_id)
    last = weakref.ref(frames_of(client.send(media(VIDEO)))[0])
    client.session.forget()
    assert last() is None


# -- secrets -------------------------------------------------------------------------------------------------


def test_credentials_are_reported_as_secrets_and_never_shown() -> None:
    client = ScriptedClient()
    connecting = client.send(
        Command("connect", 1.0, {"app": "live?a=hunter1", "tcUrl": "rtmp://h/live?t=hunter2"})
    )
    client.session.accept(1)
    publishing = client.send(call("publish", 2.0, "cam?key=hunter3", stream_id=1))
    client.session.accept(2)
    playing = client.send(call("play", 3.0, "cam?key=hunter4", stream_id=2))
    client.session.reject(3, StatusCode.PLAY_STREAM_NOT_FOUND, "No")
    client.send(call("publish", 4.0, "bad\n?key=hunter5", stream_id=3), call("FCPublish", 5.0, "x?hunter6"))
    client.received()
    request = only(publishing, PublishRequested)
    assert request.credentials.reveal() == "key=hunter3&a=hunter1&t=hunter2"
    assert str(request.key) == "live/cam"
    assert "hunter" not in repr((connecting, publishing, playing))
    assert b"hunter" not in client.written
    assert b"Publishing live/cam" in client.written


def test_encoder_that_announces_its_publish_gets_the_notice_before_the_start() -> None:
    client = connected_client()
    client.send(call("FCPublish", 3.0, "cam"))
    client.received()
    request = only(client.send(call("publish", 0.0, "cam", "live", stream_id=1)), PublishRequested)
    client.session.accept(request.request_id)
    notice, begin, start = client.received()
    assert isinstance(notice, Command)
    assert (notice.name, status_of(notice)) == ("onFCPublish", ("status", StatusCode.PUBLISH_START, ""))
    assert code_of(begin) == ("STREAM_BEGIN", 1)
    assert isinstance(start, Command)
    assert status_of(start) == ("status", StatusCode.PUBLISH_START, "Publishing live/cam")


def test_fc_unpublish_is_answered_and_ends_the_publish_with_a_status() -> None:
    client = connected_client()
    client.publish()
    assert client.send(call("FCUnpublish", 9.0, "another name")) == [PublishEnded(1)]
    answer, notice, status = client.received()
    assert answer == Command("_result", 9.0, None, (None,))
    assert isinstance(notice, Command)
    assert (notice.name, status_of(notice)) == ("onFCUnpublish", ("status", StatusCode.UNPUBLISH_SUCCESS, ""))
    assert isinstance(status, Command)
    assert (status.stream_id, status_of(status)) == (
        1,
        ("status", StatusCode.UNPUBLISH_SUCCESS, "Publishing ended"),
    )


def test_frames_around_an_aggregate_of_the_same_read_are_one_report() -> None:
    client = connected_client()
    client.publish()
    part = b"\x08\x00\x00\x02\x00\x00\x0a\x00\x00\x00\x00\xaf\x01\x00\x00\x00\x0d"
    reports = client.send(media(AUDIO), RawMessage(22, 10, 1, part), media(VIDEO))
    (received,) = reports
    assert isinstance(received, MediaReceived)
    assert [frame.payload for frame in received.frames] == [AUDIO.payload, b"\xaf\x01", VIDEO.payload]
