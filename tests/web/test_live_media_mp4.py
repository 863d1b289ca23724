"""Fragmented MP4 over HTTP: when it begins, what it answers if it cannot, and what ends it."""

from __future__ import annotations

import pytest

from rtmprelay import events
from rtmprelay.media import MediaFrame, MediaKind
from tests.mp4.media import (
    AVC_CONFIGURATION,
    aac_header,
    avc_header,
    metadata,
    mp3,
    opus_header,
    picture,
    sound,
)
from tests.web.live_media import START, MediaWeb, av_group

MP4 = "/live/test.mp4"
VIDEO, AUDIO = 1, 2


def test_a_late_joiner_starts_at_the_keyframe_and_at_zero() -> None:
    web = MediaWeb()
    web.send(*av_group(5000))
    watcher = web.watch(MP4)
    assert [box.kind for box in watcher.init] == ["ftyp", "moov"]
    assert len(watcher.init[1].all("trak")) == 2
    web.send(picture(5200, b"live"), sound(5200, b"live"))
    sent = [*av_group(5000), picture(5200, b"live"), sound(5200, b"live")]
    assert [data for _, data in watcher.samples(VIDEO)] == [frame.payload[5:] for frame in sent[::2]]
    assert [data for _, data in watcher.samples(AUDIO)] == [frame.payload[2:] for frame in sent[1::2]]
    assert [time for time, _ in watcher.samples(VIDEO)] == [0, 40, 80, 120, 160, 200]
    assert watcher.mp4[0].of(VIDEO)[0].flags == 0x02000000


def test_two_readers_each_have_their_own_time() -> None:
    web = MediaWeb()
    first = web.watch(MP4)
    web.send(*av_group(1000))
    second = web.watch(MP4)
    web.send(picture(1200), sound(1200))
    assert first.samples(VIDEO)[-1][0] == 1200
    assert second.samples(VIDEO)[-1][0] == 200
    assert [fragment.number for fragment in first.mp4] == [1, 2, 3]
    assert [fragment.number for fragment in second.mp4] == [1, 2]


# -- the beginning -----------------------------------------------------------------------------------------------


def test_nothing_is_sent_before_the_tracks_are_known() -> None:
    """The publisher promised sound: the answer begins with its first packet, and nothing of before is lost."""
    web = MediaWeb()
    web.stream = web.publish("live/new", [])
    watcher = web.watch("/live/new.mp4")
    web.send(*START[:2])
    web.send(picture(1000, b"one", key=True), picture(1040, b"two"))
    assert watcher.received == b""
    web.send(START[2], sound(1045, b"sound"), picture(1080, b"three"))
    assert watcher.samples(VIDEO) == [(0, b"one"), (40, b"two"), (80, b"three")]
    assert [data for _, data in watcher.samples(AUDIO)] == [b"sound"]


def test_track_that_is_announced_and_does_not_come_is_left_out() -> None:
    web = MediaWeb()
    web.stream = web.publish("live/new", START[:2])
    watcher = web.watch("/live/new.mp4")
    for number in range(25):
        web.send(picture(40 * number, key=number == 0))
    assert watcher.received == b""
    web.send(picture(1000))
    assert len(watcher.init[1].all("trak")) == 1
    assert len(watcher.samples(VIDEO)) == 26


@pytest.mark.parametrize(
    ("frames", "tracks"),
    [
        ([metadata(videocodecid=7.0), avc_header(), picture(0, key=True)], [VIDEO]),
        ([metadata(audiocodecid=10.0), aac_header(), sound(0)], [AUDIO]),
        ([metadata(audiocodecid=2.0), mp3(0)], [AUDIO]),
    ],
)
def test_streams_with_one_track_begin_at_once(frames: list[MediaFrame], tracks: list[int]) -> None:
    web = MediaWeb()
    web.stream = web.publish("live/one", [])
    watcher = web.watch("/live/one.mp4")
    web.send(*frames)
    assert [sample.track for fragment in watcher.mp4 for sample in fragment.samples] == tracks


def test_without_a_keyframe_to_start_with_pictures_wait_for_the_next() -> None:
    """The group of pictures was too large to keep: sound plays at once, the picture comes with the next keyframe."""
    web = MediaWeb()
    web.stream = web.publish("live/long", [*START, picture(0, bytes(40 * 1024 * 1024), key=True)])
    watcher = web.watch("/live/long.mp4")
    for number in range(60):
        web.send(picture(40 * (number + 1)), sound(40 * (number + 1)))
    assert watcher.samples(VIDEO) == []
    assert len(watcher.samples(AUDIO)) == 60
    web.send(picture(2440, b"key", key=True), sound(2440))
    assert watcher.samples(VIDEO) == [(2400, b"key")]


UNSUPPORTED = [
    (MediaFrame(MediaKind.VIDEO, 0, b"\x12data"), "Sorenson H.263"),
    (MediaFrame(MediaKind.VIDEO, 0, b"\x24data"), "On2 VP6"),
    (MediaFrame(MediaKind.AUDIO, 0, b"\xb2data"), "Speex"),
    (MediaFrame(MediaKind.VIDEO, 0, b"\x91vp08data"), "VP8"),
]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(("frame", "codec"), UNSUPPORTED)
def test_a_codec_that_has_no_place_in_an_mp4(frame: MediaFrame, codec: str, method: str) -> None:
    """The answer says which, and what to take instead."""
    web = MediaWeb()
    web.publish("live/old", [frame])
    response = web.request(method, "/live/old.mp4")
    assert response.status == 415
    if method == "GET":
        assert response.error == (415, "unsupported_media_type")
        assert codec in response.json["error"]["message"]
        assert "Ask for live/old.flv" in response.json["error"]["message"]
    assert not web.told.of(events.PlayStarted)


@pytest.mark.parametrize(("frame", "codec"), UNSUPPORTED)
def test_a_codec_that_is_found_out_later(frame: MediaFrame, codec: str) -> None:
    """The answer had not begun, so it can still be an error."""
    web = MediaWeb()
    web.stream = web.publish("live/old", [])
    watcher = web.watch("/live/old.mp4")
    web.send(metadata(videocodecid=2.0, audiocodecid=11.0), frame, picture(0))
    assert watcher.response.error == (415, "unsupported_media_type")
    assert codec in watcher.response.json["error"]["message"]
    assert web.http.media.viewers == ()
    assert web.stream.subscribers == ()
    web.send(*av_group(0))
    assert watcher.response.status == 415


def test_a_stream_that_ends_before_it_began() -> None:
    web = MediaWeb()
    web.stream = web.publish("live/new", START)
    watcher = web.watch("/live/new.mp4")
    web.end()
    assert watcher.response.error == (404, "not_found")
    assert "ended before it sent anything" in watcher.response.json["error"]["message"]


def test_a_stream_that_ends_before_all_was_there() -> None:
    """What there is comes out."""
    web = MediaWeb()
    web.stream = web.publish("live/new", START)
    watcher = web.watch("/live/new.mp4")
    web.send(picture(500, b"only", key=True))
    web.end()
    assert watcher.samples(VIDEO) == [(0, b"only")]
    assert watcher.is_over()


def test_a_client_that_goes_while_it_waits() -> None:
    web = MediaWeb()
    web.stream = web.publish("live/new", START)
    web.watch("/live/new.mp4").lose()
    web.send(*av_group(0))
    assert web.stream.subscribers == ()


# -- changes -----------------------------------------------------------------------------------------------------

CHANGES = [
    [avc_header(AVC_CONFIGURATION + b"\0")],
    [aac_header(b"\x11\x90")],
    [opus_header()],
    [MediaFrame(MediaKind.VIDEO, 0, b"\x90hvc1" + bytes(30))],
    [mp3(400)],
    [MediaFrame(MediaKind.VIDEO, 400, b"\x12sorenson")],
]


@pytest.mark.parametrize("change", CHANGES)
def test_another_codec_ends_the_answer(change: list[MediaFrame]) -> None:
    """All that came before it is delivered, and nothing after it."""
    web = MediaWeb()
    watcher, flv = web.watch(MP4), web.watch()
    web.send(*av_group(200), *change, picture(440, b"after", key=True))
    assert watcher.is_over()
    assert watcher.samples(VIDEO)[-1][0] == 360
    assert not flv.is_over()
    (stopped,) = web.told.of(events.PlayStopped)
    assert stopped.reason == "the codecs of the stream changed"
    assert stopped.messages == len(START) + 20


def test_change_after_queued_frames_ends_the_answer_when_they_are_taken() -> None:
    web = MediaWeb()
    watcher = web.watch(MP4)
    watcher.transport.stalled = True
    web.send(*av_group(200, size=40_000))
    web.send(picture(400, b"last"), avc_header(b"another configuration"))
    web.send(picture(440, b"after", key=True))
    watcher.transport.stalled = False
    assert watcher.is_over()
    assert watcher.samples(VIDEO)[-1] == (400, b"last")


def test_a_change_with_the_first_frames() -> None:
    web = MediaWeb()
    web.stream = web.publish("live/new", [])
    watcher = web.watch("/live/new.mp4")
    web.send(*START, *av_group(0), avc_header(b"another configuration"), picture(440, key=True))
    assert watcher.is_over()
    assert len(watcher.samples(VIDEO)) == 5


def test_sound_that_was_not_there_at_the_beginning_ends_the_answer() -> None:
    """A new request gets both."""
    web = MediaWeb()
    web.stream = web.publish("live/new", [metadata(videocodecid=7.0), avc_header(), picture(0, key=True)])
    watcher = web.watch("/live/new.mp4")
    web.send(picture(40), aac_header(), sound(40), picture(80))
    assert watcher.is_over()
    assert [time for time, _ in watcher.samples(VIDEO)] == [0, 40]
    again = web.watch("/live/new.mp4")
    assert [len(again.samples(VIDEO)), len(again.samples(AUDIO))] == [3, 1]


def test_the_same_header_again_changes_nothing() -> None:
    """Many encoders repeat it before each keyframe; FFmpeg sends empty ones."""
    web = MediaWeb()
    watcher = web.watch(MP4)
    web.send(*START, aac_header(b""), *av_group(200))
    web.send(MediaFrame(MediaKind.VIDEO, 400, b"\x90avc1" + AVC_CONFIGURATION), *av_group(400))
    assert not watcher.is_over()
    assert len(watcher.samples(VIDEO)) == 15


def test_pictures_without_their_configuration_are_left_out() -> None:
    """Sound alone is better than nothing, and asking again would not help."""
    web = MediaWeb()
    web.stream = web.publish("live/new", [aac_header()])
    watcher = web.watch("/live/new.mp4")
    for number in range(60):
        web.send(sound(23 * number), picture(23 * number))
    web.send(picture(1400), sound(1400, b"last"))
    assert not watcher.is_over()
    assert watcher.samples(AUDIO)[-1][1] == b"last"


def test_time_that_jumps_back_ends_the_answer() -> None:
    web = MediaWeb()
    web.send(*av_group(60_000))
    watcher = web.watch(MP4)
    web.send(*av_group(0))
    assert watcher.is_over()
    (stopped,) = web.told.of(events.PlayStopped)
    assert "the timestamps went back by" in stopped.reason


def test_an_error_of_a_waiting_reader_is_in_the_account() -> None:
    """Whatever happens, every message went somewhere."""
    web = MediaWeb()
    web.stream = web.publish("live/new", START)
    web.watch("/live/new.mp4")
    (viewer,) = web.http.media.viewers
    web.send(picture(0, key=True), MediaFrame(MediaKind.AUDIO, 0, b"\xb2speex"))
    assert viewer.is_balanced
    assert viewer.account.messages_in == viewer.account.messages_dropped
