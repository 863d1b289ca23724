"""One stream: late joiners, publishers that come and go, and subscribers that fail or leave."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from rtmprelay.amf.amf0 import encode
from rtmprelay.flv import Codec
from rtmprelay.flv.script import with_set_data_frame
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.streams.frames import METADATA_KEY, FrameBatch
from rtmprelay.streams.limits import StreamLimits
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.merging import Merging
from tests.streams.helpers import (
    METADATA,
    FakePublisher,
    KeepingSubscriber,
    audio,
    audio_header,
    data,
    video,
    video_header,
)

HEADERS = [data(0, METADATA), video_header(), audio_header()]


def published_stream(limits: StreamLimits | None = None) -> LiveStream:
    stream = LiveStream("live/cam", limits)
    stream.publisher_joined(FakePublisher(), 0.0)
    return stream


def watched_stream() -> tuple[LiveStream, KeepingSubscriber]:
    stream, player = published_stream(), KeepingSubscriber()
    stream.subscribe(player)
    return stream, player


def test_everybody_gets_the_frames_unchanged() -> None:
    stream, player = watched_stream()
    frames = [video(0, key=True), audio(5), data(6), MediaFrame(MediaKind.VIDEO, 7, b"")]
    stream.publish_frames(frames, 1.0)
    assert player.frames == frames
    assert all(got.payload is sent.payload for got, sent in zip(player.frames, frames, strict=True))


def test_a_late_joiner_starts_at_the_last_keyframe_with_all_it_needs() -> None:
    stream = published_stream()
    stream.publish_frames([*HEADERS, video(0, key=True), video(40)], 0.0)
    stream.publish_frames([video(1000, key=True), audio(1010), data(1011), video(1040)], 1.0)
    player = KeepingSubscriber()
    stream.subscribe(player)
    stream.publish_frames([video(1080)], 1.1)
    assert player.frames == [
        data(0, METADATA),
        video_header(timestamp_ms=1000),
        audio_header(timestamp_ms=1000),
        video(1000, key=True),
        audio(1010),
        data(1011),
        video(1040),
        video(1080),
    ]
    assert not player.waits_for_keyframe


def test_a_late_joiner_of_an_audio_stream_waits_for_nothing() -> None:
    stream = published_stream()
    stream.publish_frames([audio_header(), audio(500), audio(520)], 0.0)
    player = KeepingSubscriber()
    stream.subscribe(player)
    assert player.frames == [audio_header(timestamp_ms=520)]
    assert not player.waits_for_keyframe


def test_late_joiner_waits_for_a_keyframe_when_the_pictures_were_too_many_to_keep() -> None:
    stream = published_stream(StreamLimits(gop_bytes=15))
    stream.publish_frames([video(0, key=True), video(40)], 0.0)
    player = KeepingSubscriber()
    stream.subscribe(player)
    assert player.waits_for_keyframe


def test_metadata_reaches_subscribers_without_set_data_frame() -> None:
    stream, player = watched_stream()
    stream.publish_frames(
        [data(3, with_set_data_frame(METADATA)), data(4, with_set_data_frame(b"other"))], 0.0
    )
    assert player.frames == [data(3, METADATA), data(4, b"other")]
    assert stream.metadata == {"width": 640.0}


def test_metadata_that_is_taken_back_is_not_given_to_anyone() -> None:
    stream, player = watched_stream()
    stream.publish_frames([data(0, METADATA), data(1, encode("@clearDataFrame", "onMetaData"))], 0.0)
    late = KeepingSubscriber()
    stream.subscribe(late)
    assert player.frames == [data(0, METADATA)]
    assert late.frames == []
    assert stream.metadata == {}


def test_empty_read_and_withdrawn_metadata_reach_no_subscriber() -> None:
    class Counting(KeepingSubscriber):
        batches = 0

        def frames_arrived(self, batch: FrameBatch) -> None:
            self.batches += 1

    stream, player = published_stream(), Counting()
    stream.subscribe(player)
    stream.publish_frames([data(1, encode("@clearDataFrame", "onMetaData"))], 0.0)
    stream.publish_frames([], 0.0)
    assert player.batches == 0


def test_metadata_that_cannot_be_read_is_passed_on_all_the_same() -> None:
    stream, player = watched_stream()
    broken = data(0, encode("onMetaData") + b"\x08\xff")
    stream.publish_frames([broken], 0.0)
    assert player.frames == [broken]
    assert stream.metadata == {}


def test_codecs_and_counts_are_kept() -> None:
    stream = published_stream()
    stream.publish_frames([*HEADERS, video(0, key=True), video(40), video(80), audio(5), data(6)], 2.0)
    assert (stream.video_codec, stream.audio_codec) == (Codec.AVC, Codec.AAC)
    counters = stream.counters
    assert (counters.messages, counters.video_frames, counters.keyframes, counters.audio_frames) == (
        8,
        3,
        1,
        1,
    )
    assert counters.bytes == sum(len(frame.payload) for frame in HEADERS) + 30 + 5 + len(data(6).payload)
    assert stream.last_frame_at == 2.0


def test_frames_of_one_call_after_a_message_for_the_server_are_delivered() -> None:
    stream, player = watched_stream()
    clear = data(1, encode("@clearDataFrame", "onMetaData"))
    stream.publish_frames([audio(0), clear, audio(5), video(10, key=True), video(50), audio(20)], 0.0)
    assert player.frames == [audio(0), audio(5), video(10, key=True), video(50), audio(20)]
    counters = stream.counters
    assert (counters.messages, counters.video_frames, counters.keyframes, counters.audio_frames) == (
        5,
        2,
        1,
        3,
    )


@pytest.mark.parametrize(("reads_a_second", "waits"), [(100, False), (3000, True)])
def test_unwatched_stream_is_left_unread_for_a_while_only_on_a_busy_server(
    reads_a_second: int, waits: bool
) -> None:
    clock = Clock()
    stream = LiveStream("live/cam", merging=Merging(clock, 0.04))
    stream.publisher_joined(FakePublisher(), 0.0)
    for number in range(2 * reads_a_second):
        clock.advance(1 / reads_a_second)
        stream.publish_frames([audio(number)], clock.seconds())
    assert (stream.reading_pause > 0) is waits


def test_headers_of_the_last_publisher_are_kept_for_comparison_with_the_next_ones() -> None:
    stream = published_stream()
    stream.publish_frames([*HEADERS, video(0, key=True)], 0.0)
    assert stream.header(MediaKind.VIDEO) == video_header().payload
    assert stream.header(MediaKind.AUDIO) == audio_header().payload
    stream.publisher_left()
    assert sorted(stream.previous_headers.values()) == sorted(
        [video_header().payload, audio_header().payload]
    )
    assert stream.header(MediaKind.VIDEO) is None
    assert METADATA_KEY not in stream.previous_headers


def test_metadata_after_a_return_keeps_the_time_it_has() -> None:
    stream, player = watched_stream()
    stream.publish_frames([audio(5000)], 5.0)
    stream.publisher_left()
    stream.publisher_joined(FakePublisher(), 6.0)
    player.frames.clear()
    stream.publish_frames([data(17, METADATA), audio(0)], 6.0)
    assert player.frames == [data(17, METADATA), audio(6000)]


# -- publishers that come and go -----------------------------------------------------------------------------


def test_subscribers_stay_and_timestamps_go_on_when_a_publisher_returns() -> None:
    stream, player = watched_stream()
    stream.publish_frames([video(10_000, key=True), audio(10_005)], 10.0)
    stream.publisher_left()
    stream.publisher_joined(FakePublisher(), 14.0)
    assert player.told == ["begin", "left", "returned", "begin"]
    player.frames.clear()
    stream.publish_frames([*HEADERS, video(0, key=True), audio(3), video(40)], 14.5)
    assert player.frames == [
        data(0, METADATA),
        video_header(timestamp_ms=14_005),
        audio_header(timestamp_ms=14_005),
        video(14_005, key=True),
        audio(14_008),
        video(14_045),
    ]


def test_a_late_joiner_of_the_second_publisher_is_on_the_same_time() -> None:
    stream, _ = watched_stream()
    stream.publish_frames([video(1_000, key=True)], 1.0)
    stream.publisher_left()
    stream.publisher_joined(FakePublisher(), 2.0)
    stream.publish_frames([video_header(), video(0, key=True)], 2.0)
    late = KeepingSubscriber()
    stream.subscribe(late)
    assert late.frames == [video_header(timestamp_ms=2_000), video(2_000, key=True)]


def test_with_nobody_attached_the_next_publishers_time_is_left_alone() -> None:
    stream, player = watched_stream()
    stream.publish_frames([video(10_000, key=True)], 10.0)
    stream.publisher_left()
    stream.unsubscribe(player)
    stream.publisher_joined(FakePublisher(), 14.0)
    stream.subscribe(player)
    player.frames.clear()
    stream.publish_frames([video(7, key=True)], 14.0)
    assert player.frames == [video(7, key=True)]


def test_nothing_of_the_last_publisher_is_given_to_the_next_ones_viewers() -> None:
    stream = published_stream()
    stream.publish_frames([*HEADERS, video(0, key=True)], 0.0)
    stream.publisher_left()
    assert (stream.video_codec, stream.audio_codec, stream.metadata) == (None, None, {})
    early = KeepingSubscriber()
    stream.subscribe(early)
    assert early.told == []
    stream.publisher_joined(FakePublisher(), 1.0)
    assert early.told == ["returned", "begin"]
    assert early.frames == []
    assert stream.counters.messages == 0


@pytest.mark.parametrize(("now", "silent"), [(4.999, False), (5.0, True)])
def test_silence_is_measured_from_the_last_frame(now: float, silent: bool) -> None:
    assert published_stream().is_silent(now) is silent


# -- subscribers that fail or leave --------------------------------------------------------------------------


class FailingSubscriber(KeepingSubscriber):
    """Fails at one thing."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self._at = at

    def frames_arrived(self, batch: FrameBatch) -> None:
        self._fail_at("frames")
        super().frames_arrived(batch)

    def publisher_left(self) -> None:
        self._fail_at("left")

    def publisher_returned(self) -> None:
        self._fail_at("returned")

    def _fail_at(self, what: str) -> None:
        if self._at == what:
            raise ZeroDivisionError(what)


@pytest.mark.parametrize("at", ["frames", "left", "returned"])
def test_a_failing_subscriber_is_dropped_and_the_others_do_not_notice(at: str) -> None:
    stream, first = watched_stream()
    failing, last = FailingSubscriber(at), KeepingSubscriber()
    stream.subscribe(failing)
    stream.subscribe(last)
    with capturedLogs() as logged:
        stream.publish_frames([audio(0)], 0.0)
        stream.publisher_left()
        stream.publisher_joined(FakePublisher(), 1.0)
        stream.publish_frames([audio(0)], 1.0)
    assert first.frames == last.frames == [audio(0), audio(1_000)]
    remaining: tuple[object, ...] = stream.subscribers
    assert remaining == (first, last)
    assert [event["log_failure"].type for event in logged] == [ZeroDivisionError]


def test_subscribers_may_leave_and_come_while_frames_are_handed_round() -> None:
    stream = published_stream()
    joining, other = KeepingSubscriber(), KeepingSubscriber()

    class Restless(KeepingSubscriber):
        def frames_arrived(self, batch: FrameBatch) -> None:
            super().frames_arrived(batch)
            stream.unsubscribe(self)
            stream.subscribe(joining)

    restless = Restless()
    stream.subscribe(restless)
    stream.subscribe(other)
    stream.publish_frames([video(0, key=True)], 0.0)
    stream.publish_frames([video(40)], 0.0)
    both = [video(0, key=True), video(40)]
    assert restless.frames == both[:1]
    assert other.frames == joining.frames == both


def test_a_stream_is_unused_without_publisher_and_subscribers() -> None:
    stream, player = watched_stream()
    assert not stream.is_unused
    stream.publisher_left()
    assert not stream.is_unused
    stream.unsubscribe(player)
    stream.unsubscribe(player)
    assert stream.is_unused


def test_metadata_over_its_budget_is_not_read_and_not_passed_on() -> None:
    """A publisher that repeats a keyframe index of 9,000 numbers without end would keep everybody busy."""
    stream = published_stream(StreamLimits(metadata_value_rate=1_000))
    subscriber = KeepingSubscriber()
    stream.subscribe(subscriber)
    index = MediaFrame(MediaKind.DATA, 0, encode("onMetaData", {"times": [1.0] * 9_000}))
    for _ in range(10):
        stream.publish_frames([index], 0.0)
    assert len(subscriber.frames) == 2
    # Others go on, and a while later metadata does too.
    stream.publish_frames([audio(0)], 0.0)
    assert len(subscriber.frames) == 3
    stream.publish_frames([data(0, encode("onMetaData", {"width": 2.0}))], 60.0)
    assert stream.metadata == {"width": 2.0}
