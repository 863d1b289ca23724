"""What a late joiner gets first."""

from __future__ import annotations

import pytest

from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.streams.frames import METADATA_KEY
from rtmprelay.streams.limits import StreamLimits
from rtmprelay.streams.startup_cache import StartupCache
from tests.streams.helpers import METADATA, audio, audio_header, data, live, video, video_header


def cache_of(*frames: MediaFrame, limits: StreamLimits | None = None) -> StartupCache:
    cache = StartupCache(limits or StreamLimits())
    for frame in live(*frames):
        cache.remember(frame, 0.0)
    return cache


def joined(cache: StartupCache) -> list[MediaFrame]:
    return [frame.frame for frame in cache.frames()]


def test_metadata_comes_first_then_headers_then_the_pictures() -> None:
    """FFmpeg decides which tracks there are by the first thing that it gets."""
    pictures = [video(100, key=True), audio(110), data(115), video(140)]
    cache = cache_of(video_header(), audio_header(), data(0, METADATA), video(50, key=True), *pictures)
    assert joined(cache) == [
        data(0, METADATA),
        video_header(timestamp_ms=100),
        audio_header(timestamp_ms=100),
        *pictures,
    ]


def test_without_pictures_headers_get_the_time_of_the_stream() -> None:
    cache = cache_of(audio_header(), audio(5), audio(25))
    assert joined(cache) == [audio_header(timestamp_ms=25)]
    assert not cache.has_keyframes
    assert not cache.begins_with_keyframe


def test_frames_before_the_first_keyframe_are_not_kept() -> None:
    assert joined(cache_of(video(0), audio(1), data(2))) == []


@pytest.mark.parametrize(
    "limits",
    [StreamLimits(gop_bytes=34), StreamLimits(gop_ms=29), StreamLimits(gop_frames=3)],
    ids=["bytes", "time", "count"],
)
def test_pictures_over_a_bound_are_forgotten_until_the_next_keyframe(limits: StreamLimits) -> None:
    cache = cache_of(video(0, key=True), video(10), video(20), limits=limits)
    assert len(cache.frames()) == 3
    for frame in live(audio(30), video(40)):
        cache.remember(frame, 0.0)
    assert cache.frames() == []
    # After so long without a keyframe nobody can be told to wait for one.
    assert cache.has_keyframes is (limits.gop_ms != 29)
    cache.remember(live(video(50, key=True))[0], 0.0)
    assert joined(cache) == [video(50, key=True)]


@pytest.mark.parametrize(
    "limits",
    [StreamLimits(gop_bytes=35), StreamLimits(gop_ms=30), StreamLimits(gop_frames=4)],
    ids=["bytes", "time", "count"],
)
def test_pictures_that_just_fit_are_kept_also_after_others_were_forgotten(limits: StreamLimits) -> None:
    cache = cache_of(*[video(time, key=not time) for time in range(0, 100, 10)], limits=limits)
    assert cache.frames() == []
    newest = [video(1000, key=True), video(1010), video(1020), audio(1030)]
    for frame in live(*newest):
        cache.remember(frame, 0.0)
    assert joined(cache) == newest


def test_empty_messages_do_not_fill_the_memory() -> None:
    """They have no bytes, and a hostile publisher gives all of them the same time."""
    cache = cache_of(video(0, key=True), limits=StreamLimits(gop_frames=100))
    most = 0
    for frame in live(*[MediaFrame(MediaKind.AUDIO, 0, b"")] * 1000):
        cache.remember(frame, 0.0)
        most = max(most, len(cache.frames()))
    assert most == 100


def test_a_keyframe_that_is_too_large_is_not_kept() -> None:
    cache = cache_of(video(0, key=True, size=100), video(10), limits=StreamLimits(gop_bytes=99))
    assert cache.frames() == []
    assert cache.has_keyframes


def test_timestamps_that_wrap_or_go_back_do_not_count_as_long() -> None:
    cache = cache_of(video(2**32 - 10, key=True), video(5), video(2**32 - 5))
    assert len(cache.frames()) == 3


def test_another_decoder_configuration_ends_the_pictures() -> None:
    cache = cache_of(video_header(), video(0, key=True), video_header(b"\x17\x00\x00\x00\x00new"), video(20))
    assert joined(cache) == [video_header(b"\x17\x00\x00\x00\x00new", 20)]


def test_the_same_configuration_again_keeps_the_pictures() -> None:
    cache = cache_of(video_header(), video(0, key=True), video_header(timestamp_ms=10), video(20))
    assert joined(cache) == [video_header(), video(0, key=True), video(20)]


def test_new_metadata_keeps_the_pictures() -> None:
    cache = cache_of(data(0, METADATA), video(0, key=True), data(5, METADATA + b"more"))
    assert joined(cache) == [data(0, METADATA + b"more"), video(0, key=True)]


def test_metadata_can_be_taken_back() -> None:
    cache = cache_of(data(0, METADATA), audio_header())
    cache.forget_startup(METADATA_KEY)
    cache.forget_startup("never there")
    assert [frame.frame for frame in cache.startup_frames()] == [audio_header()]


def track_header(track: int, size: int = 20) -> MediaFrame:
    payload = (b"\x96\x00hvc1" + bytes([track])).ljust(size, b"c")
    return MediaFrame(MediaKind.VIDEO, 0, payload)


def test_startup_frames_are_bounded_in_number_and_the_first_stay() -> None:
    cache = cache_of(*map(track_header, range(5)), limits=StreamLimits(startup_frames=3))
    assert joined(cache) == [track_header(0), track_header(1), track_header(2)]
    cache.remember(live(track_header(2, 30))[0], 0.0)
    assert joined(cache)[-1] == track_header(2, 30)


def test_startup_frames_are_bounded_in_bytes() -> None:
    cache = cache_of(*map(track_header, range(5)), limits=StreamLimits(startup_bytes=59))
    assert joined(cache) == [track_header(0), track_header(1)]


def test_a_configuration_that_does_not_fit_does_not_leave_the_old_one() -> None:
    """Who starts with the wrong configuration decodes garbage."""
    cache = cache_of(video_header(), limits=StreamLimits(startup_bytes=50))
    cache.remember(live(video_header(b"\x17\x00\x00\x00\x00".ljust(60, b"n")))[0], 0.0)
    assert cache.frames() == []


# -- the newest timestamp ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "newest"),
    [
        ([], None),
        ([0], 0),
        ([80, 40], 80),
        ([40, 80], 80),
        ([2**32 - 10, 5], 5),
        ([5, 2**32 - 10], 5),
        ([3_000_000_000], 3_000_000_000),
        ([7, 7], 7),
    ],
)
def test_newest_timestamp_is_the_latest_on_the_circle(times: list[int], newest: int | None) -> None:
    assert cache_of(*map(audio, times)).newest == newest


def test_newest_timestamp_keeps_the_moment_of_its_first_arrival() -> None:
    cache = StartupCache(StreamLimits())
    for now, frame in enumerate(
        live(video(40), audio(40), video(20), audio_header(timestamp_ms=99), data(99))
    ):
        cache.remember(frame, float(now))
    assert (cache.newest, cache.newest_at) == (40, 0.0)
    cache.remember(live(audio(41))[0], 9.0)
    assert (cache.newest, cache.newest_at) == (41, 9.0)


def test_cleared_cache_forgets_everything_but_the_newest_timestamp() -> None:
    cache = cache_of(data(0, METADATA), video_header(), video(50, key=True), video(90))
    cache.clear()
    assert cache.frames() == []
    assert (cache.has_keyframes, cache.begins_with_keyframe, cache.gop) == (False, False, None)
    assert cache.header(MediaKind.VIDEO) is None
    assert cache.newest == 90
    cache.remember(live(video_header())[0], 0.0)
    assert joined(cache) == [video_header(timestamp_ms=90)]
