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
)
from rtmprelay.wire.commands import StatusCode, status_of
from rtmprelay.wire.messages import Command
from rtmprelay.wire.names import StreamKey
from tests.session.helpers import ConversationPair, HandMadeClient, call, connected_client, only

STARTED = [("STREAM_BEGIN", 1), StatusCode.PLAY_RESET, StatusCode.PLAY_START]


def ask_to_play(client: HandMadeClient, *arguments: object) -> PlayRequested:
    return only(client.send(call("play", 0.0, *(arguments or ("cam",)), stream_id=1)), PlayRequested)


def test_both_sides_see_a_play_the_same_way() -> None:
    pair = ConversationPair()
    pair.client.play("cam")
    pair.run()
    request = only(pair.server_saw, PlayRequested)
    assert str(request.key) == "live/cam"
    assert PlayAccepted(request.stream_id) in pair.client_saw
    pair.client.end()
    pair.run()
    assert PlayEnded(request.stream_id) in pair.server_saw
    assert pair.client_saw[-1] == StatusReceived("status", StatusCode.PLAY_STOP, "Playing ended")


def test_an_accepted_play_begins_resets_and_starts_in_this_order() -> None:
    client = connected_client()
    client.session.accept(ask_to_play(client).request_id)
    assert client.heard_briefly() == STARTED


def test_a_play_without_reset_is_not_told_of_one() -> None:
    client = connected_client()
    client.session.accept(ask_to_play(client, "cam", -2.0, -1.0, False).request_id)
    assert client.heard_briefly() == [("STREAM_BEGIN", 1), StatusCode.PLAY_START]


def test_a_rejected_play_is_an_error_with_the_code() -> None:
    client = connected_client()
    client.session.reject(ask_to_play(client).request_id, StatusCode.PLAY_STREAM_NOT_FOUND, "No")
    (answer,) = client.heard()
    assert isinstance(answer, Command)
    assert status_of(answer) == ("error", StatusCode.PLAY_STREAM_NOT_FOUND, "No")
    assert answer.stream_id == 1
    ask_to_play(client)


@pytest.mark.parametrize("name", ["bad\rname", "", 7.0], ids=["control", "empty", "number"])
@pytest.mark.parametrize("method", ["play", "play2"])
def test_a_bad_name_is_answered_and_does_not_stop_what_plays(method: str, name: object) -> None:
    client = HandMadeClient()
    client.connect(app="")
    client.play()
    argument = {"streamName": name} if method == "play2" else name
    assert client.send(call(method, 0.0, argument, stream_id=1)) == []
    assert client.heard_briefly() == [StatusCode.PLAY_STREAM_NOT_FOUND]
    assert client.send(call("pause", 0.0, True, stream_id=1)) == [PlayPaused(1, True)]


@pytest.mark.parametrize("method", ["play", "play2"])
def test_a_player_may_change_to_another_stream(method: str) -> None:
    client = connected_client()
    client.play()
    argument = {"streamName": "other"} if method == "play2" else "other"
    stopped, requested = client.send(call(method, 0.0, argument, stream_id=1))
    assert stopped == PlayEnded(1)
    assert isinstance(requested, PlayRequested)
    assert str(requested.key) == "live/other"
    client.session.accept(requested.request_id)
    assert client.heard_briefly() == [StatusCode.PLAY_STOP, *STARTED]


def test_a_player_may_change_its_mind_before_the_answer() -> None:
    client = connected_client()
    first = ask_to_play(client, "first")
    stopped, second = client.send(call("play", 0.0, "second", stream_id=1))
    assert stopped == PlayEnded(1)
    assert isinstance(second, PlayRequested)
    client.session.accept(first.request_id)
    assert client.heard() == []
    client.session.accept(second.request_id)
    assert client.heard_briefly() == STARTED


def test_a_publishing_message_stream_cannot_play() -> None:
    client = connected_client()
    client.publish()
    assert client.send(call("play", 0.0, "cam", stream_id=1)) == []
    assert client.heard_briefly() == [StatusCode.PLAY_FAILED]


def test_a_playing_message_stream_cannot_publish() -> None:
    client = connected_client()
    client.play()
    assert client.send(call("publish", 0.0, "cam", stream_id=1)) == []
    assert client.heard_briefly() == [StatusCode.PUBLISH_BAD_NAME]


@pytest.mark.parametrize("method", ["pause", "pauseRaw"])
def test_pause_and_going_on_are_confirmed_and_reported(method: str) -> None:
    client = connected_client()
    client.play()
    assert client.send(call(method, 0.0, True, 0.0, stream_id=1)) == [PlayPaused(1, True)]
    assert client.heard_briefly() == [("STREAM_EOF", 1), StatusCode.PAUSE_NOTIFY]
    assert client.send(call(method, 0.0, False, 0.0, stream_id=1)) == [PlayPaused(1, False)]
    assert client.heard_briefly() == [("STREAM_BEGIN", 1), StatusCode.UNPAUSE_NOTIFY]


def test_only_what_plays_can_be_paused() -> None:
    client = connected_client()
    ask_to_play(client)
    client.publish(stream_id=2)
    pauses = [call("pause", 0.0, True, stream_id=number) for number in (0, 1, 2, 3)]
    assert client.send(*pauses) == []
    assert client.heard() == []


@pytest.mark.parametrize(
    ("method", "kind"), [("receiveAudio", MediaKind.AUDIO), ("receiveVideo", MediaKind.VIDEO)]
)
def test_a_player_says_what_it_wants(method: str, kind: MediaKind) -> None:
    client = connected_client()
    client.play()
    events = client.send(
        call(method, 0.0, False, stream_id=1),
        call(method, 0.0, True, stream_id=1),
        call(method, 0.0, False, stream_id=5),
    )
    assert events == [ReceptionChanged(1, kind, False), ReceptionChanged(1, kind, True)]


@pytest.mark.parametrize("method", ["closeStream", "deleteStream"])
def test_a_play_is_ended_by(method: str) -> None:
    client = connected_client()
    client.play()
    assert client.send(call(method, 0.0, 1.0, stream_id=1)) == [PlayEnded(1)]
    assert client.heard_briefly() == [StatusCode.PLAY_STOP]


def test_fc_unpublish_leaves_a_play_alone() -> None:
    client = connected_client()
    client.play()
    assert client.send(call("FCUnpublish", 0.0, "cam")) == []


def test_players_hear_of_the_publisher_going_and_coming() -> None:
    client = connected_client()
    client.play()
    client.session.tell_unpublished(1, StreamKey("live", "cam"))
    assert client.heard_briefly() == [("STREAM_EOF", 1), StatusCode.PLAY_UNPUBLISH_NOTIFY]
    client.session.tell_published(1, StreamKey("live", "cam"))
    assert client.heard_briefly() == [("STREAM_BEGIN", 1), StatusCode.PLAY_PUBLISH_NOTIFY]


def test_one_connection_may_publish_and_play() -> None:
    client = connected_client()
    client.publish(stream_id=1)
    client.play(stream_id=2)
    assert client.send(call("deleteStream", 0.0, 2.0)) == [PlayEnded(2)]
