"""Publishing on a server session: the request, the answer and the end; its media is in test_server_media."""

from __future__ import annotations

import weakref

import pytest

from rtmprelay.session.reports import (
    MediaReceived,
    PublishAccepted,
    PublishEnded,
    PublishRequested,
    StatusReceived,
    StreamNameRefused,
)
from rtmprelay.wire.commands import StatusCode, status_of
from rtmprelay.wire.messages import Command
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
    request_publish,
)


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
