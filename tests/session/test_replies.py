"""The answers of a server word for word: encoders and players look for these fields and texts."""

from __future__ import annotations

import pytest

from rtmprelay import __version__
from rtmprelay.amf.amf0 import AmfValue, EcmaArray
from rtmprelay.session import replies
from rtmprelay.wire.messages import Command, Message, UserControl, UserControlType
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


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (
            replies.publish_started(3, KEY),
            [BEGIN, on_status("NetStream.Publish.Start", "Publishing live/cam")],
        ),
        (
            replies.play_started(3, KEY, reset=True),
            [
                BEGIN,
                on_status("NetStream.Play.Reset", "Playing and resetting live/cam"),
                on_status("NetStream.Play.Start", "Playing live/cam"),
            ],
        ),
        (
            replies.play_started(3, KEY, reset=False),
            [BEGIN, on_status("NetStream.Play.Start", "Playing live/cam")],
        ),
        (replies.paused(3), [EOF, on_status("NetStream.Pause.Notify", "Paused")]),
        (replies.resumed(3), [BEGIN, on_status("NetStream.Unpause.Notify", "Resumed")]),
        (
            replies.unpublished(3, KEY),
            [EOF, on_status("NetStream.Play.UnpublishNotify", "live/cam is not published now")],
        ),
        (
            replies.published_again(3, KEY),
            [BEGIN, on_status("NetStream.Play.PublishNotify", "live/cam is published now")],
        ),
    ],
    ids=["publish", "play with reset", "play", "pause", "resume", "unpublished", "published again"],
)
def test_notice_of_a_stream_has_this_code_and_description(
    messages: list[Message], expected: list[Message]
) -> None:
    assert messages == expected
