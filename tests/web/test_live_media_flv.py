"""HTTP-FLV: what a late joiner gets, and the header of the file."""

from __future__ import annotations

import pytest

from rtmprelay.flv.container import file_header
from rtmprelay.flv.script import encode_metadata
from rtmprelay.media import MediaFrame, MediaKind
from tests.mp4.media import aac_header, avc_header, metadata, picture, sound
from tests.web.live_media import START, MediaWeb, av_group


def test_a_late_joiner_starts_at_the_keyframe() -> None:
    """Metadata, decoder configuration, the group of pictures so far, and everything from then on."""
    web = MediaWeb()
    web.send(*av_group(200))
    watcher = web.watch()
    configuration = [MediaFrame(frame.kind, 200, frame.payload) for frame in START[1:]]
    assert watcher.flv == [START[0], *configuration, *av_group(200)]
    cue = MediaFrame(MediaKind.DATA, 410, b"\x02\x00\x05onCue")
    web.send(picture(400), sound(400))
    web.send(cue)
    assert watcher.flv[-3:] == [picture(400), sound(400), cue]


def test_timestamps_are_those_of_the_stream() -> None:
    web = MediaWeb()
    web.send(*av_group(3_600_000))
    assert web.watch().flv[-1].timestamp_ms == 3_600_160


HEADERS = [
    ([], True, True),
    ([metadata(videocodecid=7.0)], False, True),
    ([metadata(audiocodecid=10.0)], True, False),
    ([metadata(videocodecid=7.0), aac_header()], True, True),
    ([avc_header()], False, True),
    ([aac_header(), sound(0)], True, False),
    ([metadata(encoder="x"), avc_header()], True, True),
]


@pytest.mark.parametrize(("frames", "audio", "video"), HEADERS)
def test_the_header_says_what_to_wait_for(frames: list[MediaFrame], audio: bool, video: bool) -> None:
    """What has come or was promised; both if nothing is known."""
    web = MediaWeb()
    web.publish("live/other", frames)
    assert web.watch("/live/other.flv").response.body.startswith(file_header(audio, video))


def test_frames_of_any_codec_are_passed_on_as_flv() -> None:
    web = MediaWeb()
    frames = [MediaFrame(MediaKind.VIDEO, 0, b"\x12sorenson"), MediaFrame(MediaKind.AUDIO, 0, b"\xb2speex")]
    web.publish("live/old", frames)
    assert web.watch("/live/old.flv").flv == frames


def test_new_decoder_configuration_passes() -> None:
    """Players of FLV know what to do with it."""
    web = MediaWeb()
    watcher = web.watch()
    changed = avc_header(b"another configuration")
    web.send(changed, picture(400, key=True))
    assert watcher.flv[-2:] == [changed, picture(400, key=True)]
    assert not watcher.is_over()


def test_names_with_slashes_and_other_characters() -> None:
    web = MediaWeb()
    web.publish("live/a b/ü", [metadata(width=1.0), *av_group(0)])
    assert web.watch("/live/a%20b/%C3%BC.flv").flv[0].payload == encode_metadata({"width": 1.0})
