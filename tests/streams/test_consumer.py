"""One receiver: straight on while it keeps up, queued when it does not, and never unaccounted for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.frames import FrameBatch
from rtmprelay.streams.limits import QueueLimits
from rtmprelay.streams.summary import FrameSummary
from tests.rounds import rounds
from tests.streams.helpers import ListingEncoder, audio, audio_header, live, video, video_header


class Receiver:
    """A consumer and what was written to its transport; it can say stop from inside a write, as transports do."""

    def __init__(self, limits: QueueLimits | None = None, encoder: ListingEncoder | None = None) -> None:
        self.writes: list[bytes] = []
        self.full_after = 10**9
        self.consumer = Consumer(self._write, encoder or ListingEncoder(), limits)

    def _write(self, data: bytes) -> None:
        self.writes.append(data)
        if len(self.writes) >= self.full_after:
            self.consumer.transport_full()

    def get(self, *frames: MediaFrame) -> None:
        self.consumer.send(FrameBatch.of(live(*frames)))
        assert self.consumer.is_balanced

    @property
    def times(self) -> list[int]:
        return [int(item.split(b":")[1]) for item in b"".join(self.writes).split()]


def test_two_consumers_write_the_very_same_bytes() -> None:
    encoder = ListingEncoder()
    first, second = Receiver(encoder=encoder), Receiver(encoder=ListingEncoder())
    batch = FrameBatch.of(live(video(0, key=True), audio(5)))
    first.consumer.send(batch)
    second.consumer.send(batch)
    assert first.writes[0] is second.writes[0]
    assert encoder.calls == [2]
    account = first.consumer.account
    assert (account.messages_in, account.messages_sent, account.bytes_sent) == (2, 2, batch.size)


def test_two_consumers_share_a_large_frame_that_both_had_queued() -> None:
    """A copy for each receiver would cost its size again and again."""
    encoder = ListingEncoder()
    first, second = Receiver(encoder=encoder), Receiver(encoder=encoder)
    large = FrameBatch.of(live(video(0, key=True, size=70_000)))
    for receiver in (first, second):
        receiver.consumer.transport_full()
        receiver.consumer.send(large)
        assert receiver.writes == []
        receiver.consumer.transport_ready()
    assert first.writes[0] is second.writes[0]
    assert first.times == [0]
    assert encoder.calls == [1]


def test_queued_frames_are_reported_when_they_are_sent() -> None:
    class Observing(Consumer):
        observes_sending = True

        def __init__(self) -> None:
            self.summaries: list[FrameSummary] = []
            super().__init__(lambda data: None, ListingEncoder())

        @override
        def sent(self, summary: FrameSummary) -> None:
            self.summaries.append(summary)

    consumer = Observing()
    direct, queued = FrameBatch.of(live(video(0, key=True))), FrameBatch.of(live(video(40), audio(45)))
    consumer.send(direct)
    consumer.transport_full()
    consumer.send(queued)
    assert consumer.summaries == [direct.summary()]
    consumer.transport_ready()
    assert consumer.summaries == [direct.summary(), queued.summary()]


@pytest.mark.parametrize("way", ["detach", "close"])
def test_consumer_without_a_transport_writes_nothing_and_says_why_frames_are_dropped(way: str) -> None:
    receiver = Receiver()
    receiver.consumer.transport_full()
    receiver.get(video(0, key=True))
    getattr(receiver.consumer, way)()
    receiver.get(audio(5))
    assert receiver.writes == []
    reason = {"detach": "not_connected", "close": "closed"}[way]
    assert receiver.consumer.account.reasons() == {reason: 2}


def test_consumer_without_a_transport_from_the_start_drops_frames_as_not_connected() -> None:
    consumer = Consumer()
    consumer.send(FrameBatch.of(live(video(0, key=True), audio(5))))
    assert consumer.account.reasons() == {"not_connected": 2}
    assert consumer.is_balanced


def test_empty_result_of_an_encoder_is_shared_too() -> None:
    """An MP4 fragment of frames without media is empty."""

    class Silent(ListingEncoder):
        @override
        def encode(self, frames: Sequence[MediaFrame]) -> bytes:
            self.calls.append(len(frames))
            return b""

    encoder = Silent()
    batch = FrameBatch.of(live(audio(5)))
    for _ in range(2):
        assert Consumer(lambda data: None, encoder).frames_arrived(batch) == b""
    assert encoder.calls == [1]


def test_consumers_with_different_encoders_do_not_share_bytes() -> None:
    first, second = ListingEncoder("first"), ListingEncoder("second")
    batch = FrameBatch.of(live(audio(5)))
    for encoder in (first, second, first):
        Consumer(lambda data: None, encoder).frames_arrived(batch)
    assert (first.calls, second.calls) == ([1], [1])


def test_a_full_transport_is_spared_until_it_is_ready() -> None:
    receiver = Receiver()
    receiver.full_after = 1
    receiver.get(video(0, key=True))
    receiver.get(video(40), audio(45))
    assert receiver.times == [0]
    assert (receiver.consumer.messages_queued, receiver.consumer.bytes_queued) == (2, 15)
    receiver.full_after = 10**9
    receiver.consumer.transport_ready()
    receiver.get(video(80))
    assert receiver.times == [0, 40, 45, 80]
    assert receiver.consumer.messages_queued == 0


def test_draining_stops_when_the_transport_says_so_again() -> None:
    receiver = Receiver()
    receiver.consumer.transport_full()
    receiver.get(*[video(time, key=True, size=40_000) for time in (0, 10, 20, 30)])
    receiver.full_after = 1
    receiver.consumer.transport_ready()
    assert receiver.times == [0, 10]
    assert receiver.consumer.messages_queued == 2


def test_a_late_joiner_gets_the_startup_frames_first() -> None:
    receiver = Receiver()
    receiver.consumer.begin(live(video_header(), video(100, key=True)), wait_for_keyframe=False)
    receiver.get(video(140))
    assert receiver.times == [0, 100, 140]


def test_consumer_that_joins_between_keyframes_waits_for_one_but_gets_the_sound() -> None:
    receiver = Receiver()
    receiver.consumer.begin([], wait_for_keyframe=True)
    receiver.get(video(0), audio(5))
    receiver.get(video(40, key=True))
    receiver.get(video(80))
    assert receiver.times == [5, 40, 80]
    assert receiver.consumer.account.reasons() == {"waiting_for_keyframe": 1}


def test_a_paused_viewer_gets_configuration_only_and_goes_on_at_a_keyframe() -> None:
    receiver = Receiver()
    receiver.consumer.hold(True)
    receiver.get(video(0, key=True), audio(5), audio_header(timestamp_ms=6))
    receiver.consumer.hold(False)
    receiver.get(video(40), audio(45))
    receiver.get(video(80, key=True), video(120))
    assert receiver.times == [6, 45, 80, 120]
    assert receiver.consumer.account.reasons() == {"paused": 2, "waiting_for_keyframe": 1}


def test_going_on_without_a_pause_changes_nothing() -> None:
    receiver = Receiver()
    receiver.consumer.hold(False)
    receiver.consumer.want(MediaKind.VIDEO, True)
    receiver.get(video(0))
    assert receiver.times == [0]


def test_unwanted_video_is_left_out_and_comes_back_at_a_keyframe() -> None:
    receiver = Receiver()
    receiver.consumer.want(MediaKind.VIDEO, False)
    receiver.get(video(0, key=True), audio(5), video_header(timestamp_ms=6))
    receiver.consumer.want(MediaKind.VIDEO, True)
    receiver.get(video(40), video(80, key=True))
    assert receiver.times == [5, 6, 80]
    assert receiver.consumer.account.reasons() == {"not_wanted": 1, "waiting_for_keyframe": 1}


def test_unwanted_audio_is_left_out_and_comes_back_at_once() -> None:
    receiver = Receiver()
    receiver.consumer.want(MediaKind.AUDIO, False)
    receiver.get(video(0), audio(5))
    receiver.consumer.want(MediaKind.AUDIO, True)
    receiver.get(video(40), audio(45))
    assert receiver.times == [0, 40, 45]


def test_queue_of_a_consumer_that_leaves_is_dropped() -> None:
    receiver = Receiver()
    receiver.consumer.transport_full()
    receiver.get(video(0, key=True), audio(5))
    receiver.consumer.close()
    assert receiver.consumer.is_balanced
    assert receiver.consumer.account.reasons() == {"closed": 2}


def test_consumer_that_has_left_keeps_and_writes_nothing() -> None:
    """It may still be in the round of a batch, and its transport may still serve others."""
    receiver = Receiver()
    receiver.consumer.close()
    receiver.get(video(0, key=True), audio_header())
    receiver.consumer.transport_ready()
    receiver.get(audio(5))
    assert receiver.writes == []
    assert receiver.consumer.messages_queued == 0
    assert receiver.consumer.account.reasons() == {"closed": 3}


@pytest.mark.parametrize("again", ["reconnect", "pause", "reception"])
def test_old_wait_for_a_keyframe_does_not_count_when_a_new_one_begins(again: str) -> None:
    """The longest wait begins anew: the frame that comes first would not decode."""
    receiver = Receiver()
    consumer = receiver.consumer
    consumer.begin([], wait_for_keyframe=True)
    receiver.get(video(0))
    if again == "reconnect":
        consumer.detach()
        consumer.attach(receiver._write, ListingEncoder())
        consumer.begin([], wait_for_keyframe=True)
    elif again == "pause":
        consumer.hold(True)
        consumer.hold(False)
    else:
        consumer.want(MediaKind.VIDEO, False)
        consumer.want(MediaKind.VIDEO, True)
    receiver.get(video(QueueLimits().max_keyframe_wait_ms + 10_000))
    assert receiver.times == []
    receiver.get(video(2 * QueueLimits().max_keyframe_wait_ms + 20_000))
    assert receiver.times == [2 * QueueLimits().max_keyframe_wait_ms + 20_000]


def test_bytes_for_a_receiver_that_left_meanwhile_are_not_written() -> None:
    """The fan-out writes after it has asked everybody; somebody who was asked later may have closed this connection."""
    receiver = Receiver()
    data = receiver.consumer.frames_arrived(FrameBatch.of(live(audio(5))))
    assert data is not None
    receiver.consumer.close()
    receiver.consumer.write(data)
    assert receiver.writes == []


operations = st.one_of(
    st.lists(
        st.one_of(
            st.builds(video, st.integers(0, 400), key=st.booleans(), size=st.integers(2, 60)),
            st.builds(audio, st.integers(0, 400), size=st.integers(2, 60)),
            st.just(video_header()),
        ),
        max_size=6,
    ),
    st.sampled_from(
        ["full", "ready", "hold", "go on", "no video", "video", "no audio", "audio", "begin", "close"]
    ),
    st.integers(1, 3),
)


@settings(max_examples=rounds(60, full=300), deadline=None)
@given(st.lists(operations, max_size=40))
def test_the_account_balances_whatever_happens(steps: list[list[MediaFrame] | str | int]) -> None:
    receiver = Receiver(QueueLimits(max_bytes=150, max_ms=200))
    consumer = receiver.consumer
    actions = {
        "full": consumer.transport_full,
        "ready": consumer.transport_ready,
        "hold": lambda: consumer.hold(True),
        "go on": lambda: consumer.hold(False),
        "no video": lambda: consumer.want(MediaKind.VIDEO, False),
        "video": lambda: consumer.want(MediaKind.VIDEO, True),
        "no audio": lambda: consumer.want(MediaKind.AUDIO, False),
        "audio": lambda: consumer.want(MediaKind.AUDIO, True),
        "begin": lambda: consumer.begin(live(video_header(), video(0, key=True)), False),
        "close": consumer.close,
    }
    for step in steps:
        if isinstance(step, list):
            receiver.get(*step)
        elif isinstance(step, str):
            actions[step]()
        else:
            receiver.full_after = len(receiver.writes) + step
        assert consumer.is_balanced
        assert consumer.account.messages_sent == len(receiver.times)
