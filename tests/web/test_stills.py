"""The latest keyframe of a stream: one picture that decodes, for those who may play it, without becoming a player."""

from __future__ import annotations

import pytest

from rtmprelay.access.request import refused
from rtmprelay.media import MediaFrame, MediaKind
from tests.access.helpers import Answering
from tests.mp4.encoded import audio_clip, demuxed, video_clip
from tests.web.helpers import Web


@pytest.mark.parametrize("codec", ["H.264", "H.264 with B-frames", "VP9", "AV1"])
def test_still_is_the_latest_keyframe_alone(codec: str) -> None:
    clip = video_clip(codec)
    web = Web()
    web.publish(frames=clip.frames())
    got = web.get("/live/test.still")
    assert (got.status, got.headers["content-type"], got.headers["cache-control"]) == (
        200,
        "video/mp4",
        "no-store",
    )
    (packet,) = demuxed(got.body)[0]
    assert packet.keyframe
    assert packet.data == [one for one in clip.packets if one.keyframe][-1].data
    assert web.get("/health").json["players"] == 0


def test_stream_without_a_picture_has_no_content() -> None:
    web = Web()
    web.publish("live/sound", frames=audio_clip("AAC").frames())
    web.publish("live/odd", frames=[MediaFrame(MediaKind.VIDEO, 0, b"\x12\x00" + bytes(30))])
    for path in ("/live/sound.still", "/live/odd.still", "/live/nobody.still"):
        got = web.get(path)
        assert (got.status, got.body) == (204, b"")


def test_still_needs_the_permission_to_play() -> None:
    web = Web(authorizers=[Answering(refused("no"))])
    web.publish(frames=video_clip("H.264").frames())
    assert web.get("/live/test.still").error[0] in (401, 403)
