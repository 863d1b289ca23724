"""Playing from a server session."""

from __future__ import annotations

import pytest

from rtmprelay.media import MediaKind
from rtmprelay.session.reports import (
    PlayAccepted,
    PlayEnded,
    PlayPaused,
    PlayRequested,
    ReceptionChanged,
    StatusReceived,
    StreamNameRefused,
)
from rtmprelay.wire.commands import StatusCode, status_of
from rtmprelay.wire.messages import Command
from rtmprelay.wire.names import StreamKey
from tests.session.helpers import ScriptedClient, SessionPair, call, connected_client, only

STARTED = [("STREAM_BEGIN", 1), StatusCode.PLAY_RESET, StatusCode.PLAY_START]


def request_play(client: ScriptedClient, *arguments: object) -> PlayRequested:
    return only(client.send(call("play", 0.0, *(arguments or ("cam",)), stream_id=1)), PlayRequested)


def test_client_and_server_session_agree_on_a_play() -> None:
    pair = SessionPair()
    pair.client.play("cam")
    pair.run()
    request = only(pair.server_reports, PlayRequested)
    assert str(request.key) == "live/cam"
    assert PlayAccepted(request.stream_id) in pair.client_reports
    pair.client.end()
    pair.run()
    assert PlayEnded(request.stream_id) in pair.server_reports
    assert pair.client_reports[-1] == StatusReceived("status", StatusCode.PLAY_STOP, "Playing ended")


def test_accepted_play_sends_begin_reset_and_start_in_this_order() -> None:
    client = connected_client()
    client.session.accept(request_play(client).request_id)
    assert client.received_codes() == STARTED


def test_accepted_play_without_reset_sends_no_reset() -> None:
    client = connected_client()
    client.session.accept(request_play(client, "cam", -2.0, -1.0, False).request_id)
    assert client.received_codes() == [("STREAM_BEGIN", 1), StatusCode.PLAY_START]


def test_rejected_play_sends_an_error_with_the_code() -> None:
    client = connected_client()
    client.session.reject(request_play(client).request_id, StatusCode.PLAY_STREAM_NOT_FOUND, "No")
    (answer,) = client.received()
    assert isinstance(answer, Command)
    assert status_of(answer) == ("error", StatusCode.PLAY_STREAM_NOT_FOUND, "No")
    assert answer.stream_id == 1
    request_play(client)


@pytest.mark.parametrize("name", ["bad\rname", "", 7.0], ids=["control", "empty", "number"])
@pytest.mark.parametrize("method", ["play", "play2"])
def test_bad_stream_name_is_refused_and_does_not_stop_the_current_play(method: str, name: object) -> None:
    client = ScriptedClient()
    client.connect(app="")
    client.play()
    argument = {"streamName": name} if method == "play2" else name
    (refused,) = client.send(call(method, 0.0, argument, stream_id=1))
    assert isinstance(refused, StreamNameRefused)
    assert client.received_codes() == [StatusCode.PLAY_STREAM_NOT_FOUND] == [refused.code]
    assert client.send(call("pause", 0.0, True, stream_id=1)) == [PlayPaused(1, True)]


@pytest.mark.parametrize("method", ["play", "play2"])
def test_player_changes_to_another_stream(method: str) -> None:
    client = connected_client()
    client.play()
    argument = {"streamName": "other"} if method == "play2" else "other"
    stopped, requested = client.send(call(method, 0.0, argument, stream_id=1))
    assert stopped == PlayEnded(1)
    assert isinstance(requested, PlayRequested)
    assert str(requested.key) == "live/other"
    client.session.accept(requested.request_id)
    assert client.received_codes() == [StatusCode.PLAY_STOP, *STARTED]


def test_player_replaces_its_request_before_the_answer() -> None:
    client = connected_client()
    first = request_play(client, "first")
    stopped, second = client.send(call("play", 0.0, "second", stream_id=1))
    assert stopped == PlayEnded(1)
    assert isinstance(second, PlayRequested)
    client.session.accept(first.request_id)
    assert client.received() == []
    client.session.accept(second.request_id)
    assert client.received_codes() == STARTED


def test_publishing_message_stream_cannot_play() -> None:
    client = connected_client()
    client.publish()
    assert client.send(call("play", 0.0, "cam", stream_id=1)) == []
    assert client.received_codes() == [StatusCode.PLAY_FAILED]


def test_playing_message_stream_cannot_publish() -> None:
    client = connected_client()
    client.play()
    assert client.send(call("publish", 0.0, "cam", stream_id=1)) == []
    assert client.received_codes() == [StatusCode.PUBLISH_BAD_NAME]


@pytest.mark.parametrize("method", ["pause", "pauseRaw"])
def test_pause_and_resume_are_confirmed_and_reported(method: str) -> None:
    client = connected_client()
    client.play()
    assert client.send(call(method, 0.0, True, 0.0, stream_id=1)) == [PlayPaused(1, True)]
    assert client.received_codes() == [("STREAM_EOF", 1), StatusCode.PAUSE_NOTIFY]
    assert client.send(call(method, 0.0, False, 0.0, stream_id=1)) == [PlayPaused(1, False)]
    assert client.received_codes() == [("STREAM_BEGIN", 1), StatusCode.UNPAUSE_NOTIFY]


def test_only_a_playing_message_stream_can_be_paused() -> None:
    client = connected_client()
    request_play(client)
    client.publish(stream_id=2)
    pauses = [call("pause", 0.0, True, stream_id=number) for number in (0, 1, 2, 3)]
    assert client.send(*pauses) == []
    assert client.received() == []


@pytest.mark.parametrize(
    ("method", "kind"), [("receiveAudio", MediaKind.AUDIO), ("receiveVideo", MediaKind.VIDEO)]
)
def test_player_switches_audio_and_video_off_and_on(method: str, kind: MediaKind) -> None:
    client = connected_client()
    client.play()
    events = client.send(
        call(method, 0.0, False, stream_id=1),
        call(method, 0.0, True, stream_id=1),
        call(method, 0.0, False, stream_id=5),
    )
    assert events == [ReceptionChanged(1, kind, False), ReceptionChanged(1, kind, True)]


@pytest.mark.parametrize("method", ["closeStream", "deleteStream"])
def test_play_is_ended_by_close_stream_or_delete_stream(method: str) -> None:
    client = connected_client()
    client.play()
    assert client.send(call(method, 0.0, 1.0, stream_id=1)) == [PlayEnded(1)]
    assert client.received_codes() == [StatusCode.PLAY_STOP]


def test_fc_unpublish_does_not_end_a_play() -> None:
    client = connected_client()
    client.play()
    assert client.send(call("FCUnpublish", 0.0, "cam")) == []


def test_player_is_notified_when_the_publisher_goes_and_returns() -> None:
    client = connected_client()
    client.play()
    client.session.notify_unpublished(1, StreamKey("live", "cam"))
    assert client.received_codes() == [("STREAM_EOF", 1), StatusCode.PLAY_UNPUBLISH_NOTIFY]
    client.session.notify_published(1, StreamKey("live", "cam"))
    assert client.received_codes() == [("STREAM_BEGIN", 1), StatusCode.PLAY_PUBLISH_NOTIFY]


def test_one_connection_can_publish_and_play() -> None:
    client = connected_client()
    client.publish(stream_id=1)
    client.play(stream_id=2)
    assert client.send(call("deleteStream", 0.0, 2.0)) == [PlayEnded(2)]


def test_request_and_answers_of_a_play_have_its_key_and_credentials() -> None:
    client = connected_client()
    request = request_play(client, "cam?token=t1")
    assert str(request.key) == "live/cam"
    assert request.credentials.reveal() == "token=t1"
    client.session.accept(request.request_id)
    statuses = [message for message in client.received() if isinstance(message, Command)]
    assert [status_of(status) for status in statuses] == [
        ("status", StatusCode.PLAY_RESET, "Playing and resetting live/cam"),
        ("status", StatusCode.PLAY_START, "Playing live/cam"),
    ]
