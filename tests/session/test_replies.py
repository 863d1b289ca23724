"""The answers of a server word for word: encoders and players look for these fields and texts."""

from __future__ import annotations

import pytest

from rtmprelay import __version__
from rtmprelay.amf.amf0 import AmfValue, EcmaArray
from rtmprelay.session import replies
from rtmprelay.wire.messages import Command, UserControl, UserControlType
from rtmprelay.wire.names import StreamKey

KEY = StreamKey("live", "cam")
BEGIN = UserControl(UserControlType.STREAM_BEGIN, 3)
EOF = UserControl(UserControlType.STREAM_EOF, 3)


def on_status(code: str, description: str) -> Command:
    return Command("onStatus", 0.0, None, ({"level": "status", "code": code, "description": description},), 3)


def test_connect_is_accepted_with_the_capabilities_of_enhanced_rtmp_in_both_objects() -> None:
    enhanced: dict[str, AmfValue] = {
        "fourCcList": ["*"],
        "videoFourCcInfoMap": {"*": 4.0},
        "audioFourCcInfoMap": {"*": 4.0},
        "capsEx": 14.0,
    }
    assert replies.connect_result(7.0) == Command(
        "_result",
        7.0,
        {"fmsVer": "FMS/3,5,7,7009", "capabilities": 31.0, "mode": 1.0, **enhanced},
        (
            {
                "level": "status",
                "code": "NetConnection.Connect.Success",
                "description": "Connection succeeded.",
                "objectEncoding": 0.0,
                "data": EcmaArray(version=f"rtmprelay {__version__}"),
                **enhanced,
            },
        ),
    )


def test_fc_notice_has_no_transaction_and_an_empty_description() -> None:
    assert replies.fc_notice("onFCPublish", "NetStream.Publish.Start") == Command(
        "onFCPublish",
        0.0,
        None,
        ({"level": "status", "code": "NetStream.Publish.Start", "description": ""},),
    )


def test_publish_is_started_with_its_key() -> None:
    assert replies.publish_started(3, KEY) == [
        BEGIN,
        on_status("NetStream.Publish.Start", "Publishing live/cam"),
    ]


@pytest.mark.parametrize("reset", [True, False])
def test_play_is_started_with_its_key_and_a_reset_if_that_was_asked_for(reset: bool) -> None:
    resets = [on_status("NetStream.Play.Reset", "Playing and resetting live/cam")]
    assert replies.play_started(3, KEY, reset) == [
        BEGIN,
        *(resets if reset else []),
        on_status("NetStream.Play.Start", "Playing live/cam"),
    ]


def test_pause_ends_the_stream_and_resuming_begins_it() -> None:
    assert replies.paused(3) == [EOF, on_status("NetStream.Pause.Notify", "Paused")]
    assert replies.resumed(3) == [BEGIN, on_status("NetStream.Unpause.Notify", "Resumed")]


def test_player_is_notified_when_the_publisher_goes_and_returns() -> None:
    assert replies.unpublished(3, KEY) == [
        EOF,
        on_status("NetStream.Play.UnpublishNotify", "live/cam is not published now"),
    ]
    assert replies.published_again(3, KEY) == [
        BEGIN,
        on_status("NetStream.Play.PublishNotify", "live/cam is published now"),
    ]
