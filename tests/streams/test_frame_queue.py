"""The drop policy: what is delivered always decodes, nothing grows, and every frame is accounted for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtmprelay.media import MediaFrame, MediaKind, milliseconds_between
from rtmprelay.streams.accounting import DeliveryAccount, DropReason
from rtmprelay.streams.frame_queue import FrameQueue
from rtmprelay.streams.frames import FrameRole, LiveFrame, live_frame
from rtmprelay.streams.limits import QueueLimits
from tests.rounds import rounds
from tests.streams.helpers import METADATA, audio, audio_header, data, live, video, video_header


def queue_of(*frames: MediaFrame, limits: QueueLimits | None = None) -> FrameQueue:
    queue = FrameQueue(limits or QueueLimits(), DeliveryAccount())
    for frame in live(*frames):
        queue.push(frame)
    return queue


def taken(queue: FrameQueue) -> list[MediaFrame]:
    return [frame.frame for frame in queue.take(10**9)]


def test_frames_come_out_in_order_and_in_portions() -> None:
    queue = queue_of(video(0, key=True, size=100), audio(5, size=10), video(10, size=100))
    assert [frame.size for frame in queue.take(101)] == [100, 10]
    assert queue.bytes_queued == 100
    assert [frame.size for frame in queue.take(1)] == [100]
    assert queue.take(1) == []
    assert queue.bytes_queued == len(queue) == 0


def test_over_its_bytes_the_queue_goes_on_at_the_newest_keyframe_and_keeps_audio() -> None:
    frames = [video(0, key=True, size=40), audio(1), video(2, size=40), audio(3), video(4, key=True, size=40)]
    queue = queue_of(*frames, limits=QueueLimits(max_bytes=100))
    assert taken(queue) == [audio(1), audio(3), video(4, key=True, size=40)]


@pytest.mark.parametrize(
    ("limits", "fits"),
    [
        (QueueLimits(max_bytes=95), True),
        (QueueLimits(max_bytes=94), False),
        (QueueLimits(max_frames=3), True),
        (QueueLimits(max_frames=2), False),
        (QueueLimits(max_ms=30), True),
        (QueueLimits(max_ms=29), False),
    ],
    ids=["bytes", "too many bytes", "frames", "too many frames", "time", "too long a time"],
)
def test_pictures_from_a_keyframe_on_stay_if_they_just_fit(limits: QueueLimits, fits: bool) -> None:
    newest = [video(100, key=True, size=40), video(120, size=50), audio(130)]
    # The last frame is the one too much, and makes the queue look at the newest keyframe.
    queue = queue_of(video(99, key=True, size=5), *newest, limits=limits)
    assert taken(queue) == (newest if fits else [audio(130)])


def test_quarter_of_the_audio_and_one_frame_make_room_at_a_time() -> None:
    queue = queue_of(*[audio(time) for time in range(16)], limits=QueueLimits(max_frames=16))
    queue.push(live_frame(audio(16)))
    assert taken(queue) == [audio(time) for time in range(5, 17)]


def test_all_video_is_dropped_until_a_keyframe_comes() -> None:
    queue = queue_of(
        video(0, key=True, size=60), audio(1), video(2, size=60), limits=QueueLimits(max_bytes=100)
    )
    assert queue.is_waiting_for_keyframe
    for frame in live(video(3), audio(4), video(5, key=True), video(6)):
        queue.push(frame)
    assert taken(queue) == [audio(1), audio(4), video(5, key=True), video(6)]
    assert queue._account.reasons() == {"queue_full": 2, "waiting_for_keyframe": 1}


def test_pictures_that_would_not_fit_anyway_cost_no_audio() -> None:
    frames = [audio(0), audio(1), video(2, key=True, size=60), audio(3), video(4, size=60)]
    assert taken(queue_of(*frames, limits=QueueLimits(max_bytes=100))) == [audio(0), audio(1), audio(3)]


def test_queue_over_its_time_drops_as_one_over_its_bytes() -> None:
    limits = QueueLimits(max_ms=100)
    queue = queue_of(video(0, key=True), video(50), video(90, key=True), video(100), limits=limits)
    assert len(queue) == 4
    queue.push(live_frame(video(101)))
    assert taken(queue) == [video(90, key=True), video(100), video(101)]


def test_the_newest_pictures_stay_and_old_audio_makes_room_for_them() -> None:
    """A stalled viewer who reads on sees the last pictures, not ten seconds of sound and then nothing."""
    queue = queue_of(limits=QueueLimits(max_ms=1000))
    for time in range(0, 5000, 10):
        key = time % 200 == 0
        queue.push(live_frame(video(time, key=key) if time % 20 == 0 else audio(time)))
    frames = taken(queue)
    pictures = [frame for frame in frames if frame.kind is MediaKind.VIDEO]
    assert pictures[0] == video(pictures[0].timestamp_ms, key=True)
    assert 4000 <= pictures[0].timestamp_ms <= 4800
    assert pictures[-1].timestamp_ms == 4980
    assert frames[0].timestamp_ms < pictures[0].timestamp_ms


def test_a_stalled_consumer_costs_little_for_each_frame() -> None:
    """Room is made rarely: otherwise every frame would cost a pass over the queue for each stalled consumer."""
    rooms = 0

    class CountingQueue(FrameQueue):
        def _make_room(self) -> None:
            nonlocal rooms
            rooms += 1
            super()._make_room()

    queue = CountingQueue(QueueLimits(max_ms=1000), DeliveryAccount())
    for time in range(0, 20_000, 2):
        queue.push(live_frame(audio(time)))
    assert rooms < 200
    assert len(queue) > 300


def test_audio_goes_oldest_first_when_there_is_nothing_else() -> None:
    queue = queue_of(*[audio(time, size=10) for time in range(11)], limits=QueueLimits(max_bytes=100))
    times = [frame.timestamp_ms for frame in taken(queue)]
    assert times == list(range(times[0], 11))
    assert 7 <= len(times) <= 10


def test_a_single_frame_over_the_bound_is_dropped() -> None:
    limits = QueueLimits(max_bytes=100)
    for frame in (video(0, key=True, size=101), audio(0, size=101), data(0, bytes(101))):
        queue = queue_of(frame, limits=limits)
        assert len(queue) == 0
        assert queue.is_waiting_for_keyframe == (frame.kind is MediaKind.VIDEO)


def test_configuration_survives_and_only_the_latest_of_each_kind() -> None:
    new_header = b"\x17\x00\x00\x00\x00new"
    queue = queue_of(
        data(0, METADATA),
        video_header(),
        audio_header(),
        video(0, key=True, size=60),
        video_header(new_header, 5),
        video(5, size=60),
        limits=QueueLimits(max_bytes=150),
    )
    assert taken(queue) == [data(0, METADATA), audio_header(), video_header(new_header, 5)]


def test_configuration_over_the_bound_clears_the_queue() -> None:
    queue = queue_of(audio(0), video_header(b"\x17\x00".ljust(101, b"c")), limits=QueueLimits(max_bytes=100))
    assert len(queue) == queue.bytes_queued == 0


def test_the_time_of_configuration_does_not_count() -> None:
    queue = queue_of(
        video_header(timestamp_ms=2**31),
        video(50_000, key=True),
        audio_header(),
        video(50_040),
        audio(50_050),
    )
    assert len(queue) == 5


def test_wrapping_timestamps_are_close_and_jumping_ones_far() -> None:
    limits = QueueLimits(max_ms=100)
    assert len(queue_of(video(2**32 - 20, key=True), video(20), limits=limits)) == 2
    assert len(queue_of(video(0, key=True), video(5_000), limits=limits)) == 0
    assert len(queue_of(video(5_000, key=True), video(0), limits=limits)) == 2


def test_empty_messages_do_not_fill_the_memory() -> None:
    queue = queue_of(*[MediaFrame(MediaKind.AUDIO, 0, b"")] * 1000, limits=QueueLimits(max_frames=100))
    assert len(queue) <= 100
    queue = queue_of(*[MediaFrame(MediaKind.VIDEO, 0, b"")] * 1000, limits=QueueLimits(max_frames=100))
    assert len(queue) <= 100


def test_the_startup_burst_goes_first_and_is_not_counted() -> None:
    queue = queue_of(limits=QueueLimits(max_bytes=100, max_ms=100))
    burst = [video(0, key=True, size=500), video(500, size=500)]
    queue.begin(live(*burst))
    queue.push(live_frame(video(540, size=90)))
    assert queue.bytes_queued == 90
    assert taken(queue) == [*burst, video(540, size=90)]


def test_rest_of_the_startup_burst_makes_room_like_other_frames() -> None:
    queue = queue_of(limits=QueueLimits(max_bytes=100))
    queue.begin(live(video_header(), video(0, key=True, size=500)))
    for frame in live(video(10, size=60), audio(20), video(30, size=60)):
        queue.push(frame)
    assert taken(queue) == [video_header(), audio(20)]
    assert queue.is_waiting_for_keyframe


def test_clearing_accounts_for_everything() -> None:
    queue = queue_of(audio(0), audio(1))
    queue.begin(live(video_header()))
    queue.clear(DropReason.CLOSED)
    assert len(queue) == queue.bytes_queued == 0
    assert queue._account.reasons() == {"closed": 3}
    assert queue._account.bytes_dropped == 5 + 5 + len(video_header().payload)


# -- whatever comes ------------------------------------------------------------------------------------------

_LIMITS = QueueLimits(max_bytes=200, max_ms=300, max_frames=20, max_keyframe_wait_ms=2**31)


@st.composite
def any_frame(draw: st.DrawFn) -> LiveFrame:
    time = draw(st.one_of(st.integers(0, 500), st.sampled_from([2**32 - 100, 2**31, 2**31 + 200])))
    size = draw(st.integers(2, 70))
    maker = draw(
        st.sampled_from(["key", "inter", "inter", "audio", "data", "header", "audio header", "meta"])
    )
    frames = {
        "key": lambda: video(time, key=True, size=size),
        "inter": lambda: video(time, size=size),
        "audio": lambda: audio(time, size=size),
        "data": lambda: data(time, b"\x02".ljust(size, b"d")),
        "header": lambda: video_header(timestamp_ms=time),
        "audio header": lambda: audio_header(timestamp_ms=time),
        "meta": lambda: data(time, METADATA),
    }
    return live_frame(frames[maker]())


class Watched:
    """A queue, and what went in and out of it, in order."""

    def __init__(self) -> None:
        self.account = DeliveryAccount()
        self.queue = FrameQueue(_LIMITS, self.account)
        self.pushed: list[LiveFrame] = []
        self.sent: list[LiveFrame] = []

    def take(self, size: int) -> None:
        frames = self.queue.take(size)
        self.sent += frames
        self.account.messages_sent += len(frames)

    def push(self, frame: LiveFrame) -> None:
        self.pushed.append(frame)
        self.queue.push(frame)
        self._check_bounds()

    def _check_bounds(self) -> None:
        queue = self.queue
        assert queue.bytes_queued == sum(frame.size for frame in queue._frames)
        assert queue.bytes_queued <= _LIMITS.max_bytes
        assert len(queue._frames) <= _LIMITS.max_frames
        timed = [f.frame.timestamp_ms for f in queue._frames if f.role <= FrameRole.AUDIO]
        # Configuration may carry any time, so time is looked at when something else comes.
        assert (
            self.pushed[-1].role > FrameRole.AUDIO
            or not timed
            or milliseconds_between(timed[0], timed[-1]) <= _LIMITS.max_ms
        )

    def check_balance(self) -> None:
        account = self.account
        assert account.messages_in == len(self.pushed)
        assert account.messages_in == account.messages_sent + account.messages_dropped + len(self.queue)
        assert account.messages_dropped == sum(account.dropped_by_reason.values())

    def check_order(self) -> None:
        places = {frame: place for place, frame in enumerate(self.pushed)}
        order = [places[frame] for frame in self.sent]
        assert order == sorted(set(order))

    def check_decodable(self) -> None:
        """A picture that leans on others comes only if the one directly before it came."""
        videos = [frame for frame in self.pushed if frame.role in (FrameRole.KEYFRAME, FrameRole.INTER)]
        before = dict(zip(videos[1:], videos, strict=False))
        sent = set(self.sent)
        for frame in self.sent:
            if frame.role is FrameRole.INTER and frame in before:
                assert before[frame] in sent

    def check_configuration(self) -> None:
        latest = {frame.startup_key: frame for frame in self.pushed if frame.role is FrameRole.STARTUP}
        assert set(latest.values()) <= set(self.sent)


steps = st.one_of(any_frame(), any_frame(), any_frame(), st.integers(1, 150))


@settings(max_examples=rounds(80, full=400), deadline=None)
@given(st.lists(any_frame(), max_size=8), st.lists(steps, max_size=60))
def test_any_frames_and_takes_balance_and_decode(
    burst: list[LiveFrame], taken: list[LiveFrame | int]
) -> None:
    watched = Watched()
    watched.pushed += burst
    watched.queue.begin(burst)
    for step in taken:
        if isinstance(step, int):
            watched.take(step)
        else:
            watched.push(step)
        watched.check_balance()
    watched.take(10**9)
    watched.check_balance()
    watched.check_order()
    watched.check_decodable()
    watched.check_configuration()


def test_waiting_for_a_keyframe_has_an_end() -> None:
    """A stream with intra refresh has no second keyframe: after half a minute of video any frame will do."""
    account = DeliveryAccount()
    queue = FrameQueue(QueueLimits(), account)
    queue.wait_for_keyframe()
    for second in range(32):
        queue.push(live(video(second * 1000))[0])
    assert account.dropped_by_reason[DropReason.WAITING_FOR_KEYFRAME] == 31
    assert len(queue) == 1
    assert not queue.is_waiting_for_keyframe


def test_data_with_any_timestamp_costs_nobody_a_picture() -> None:
    """Cue points often say zero, whatever the time of the stream is."""
    account = DeliveryAccount()
    queue = FrameQueue(QueueLimits(), account)
    queue.push(live_frame(MediaFrame(MediaKind.DATA, 0, b"\x02\x00\x05cueme")))
    queue.push(live(video(3_600_000, key=True))[0])
    queue.push(live(video(3_600_040))[0])
    assert (len(queue), account.messages_dropped) == (3, 0)
