"""What a disk that is slow, full, broken or gone costs: recorded frames, and never live ones."""

from __future__ import annotations

import pytest

from rtmprelay.events import RecordingFailed, RecordingFinished, RecordingStarted
from rtmprelay.media import MediaFrame, MediaKind
from tests.access.log_keeping import kept_log
from tests.files.memory_disk import EIO, ENOENT, ENOSPC
from tests.flv.media import metadata_of
from tests.helpers import audio, audio_header, group, inter, start_frames, video_header
from tests.recording.helpers import HEADERS, RecordingHarness, groups, moved, without_startup
from tests.streams.helpers import KeepingSubscriber


def test_a_full_disk_costs_recorded_frames_only() -> None:
    harness = RecordingHarness(metadata_space=512, retry_after=1.0)
    harness.publish()
    assert harness.stream is not None
    player = KeepingSubscriber()
    harness.stream.subscribe(player)
    harness.disk.size = 3000
    sent = [*start_frames(), *groups(40)]
    for frame in sent:
        harness.send(frame)
    assert player.frames == sent
    assert harness.status.state.value == "failing"
    assert str(harness.status.last_error) == "ENOSPC: No space left on device (memory/01.flv)"
    assert harness.status.dropped_by_reason["ENOSPC"] == harness.status.messages_dropped > 100
    assert harness.of(RecordingFailed) == [
        RecordingFailed(
            stream="live/test", path="memory/01.flv", error="ENOSPC", reason="No space left on device"
        )
    ]
    # What fitted is a whole file, metadata included.
    (file,) = harness.disk.files.values()
    assert metadata_of(bytes(file.data))["filesize"] == float(len(file.data)) <= 3000.0
    assert without_startup(harness.frames()) == groups(40)[: len(harness.frames()[0]) - 2]

    # The disk is back: the next attempt is at a keyframe, in a new file, with headers.
    harness.disk.size = 10**9
    harness.clock.advance(5)
    harness.send(inter(8040), audio(8040), *groups(2, 8200))
    assert harness.status.state.value == "recording"
    assert harness.status.last_error is None
    assert harness.status.dropped_by_reason["waiting_for_keyframe"] == 2
    assert harness.frames()[1] == [*moved(HEADERS, 8200), *groups(2, 8200)]
    harness.end()
    assert "the disk failed (ENOSPC)" in harness.of(RecordingFinished)[0].reason
    assert len(harness.of(RecordingFailed)) == 1


def test_attempts_come_later_and_later_and_leave_no_empty_files() -> None:
    harness = RecordingHarness(retry_after=1.0, longest_retry=8.0)
    harness.publish()
    harness.disk.size = 100
    attempts = []
    for second in range(40):
        before = harness.disk.attempts
        harness.send(*group(1000 * second))
        if harness.disk.attempts > before:
            attempts.append(second)
        harness.clock.advance(1)
    assert attempts == [0, 1, 3, 7, 15, 23, 31, 39]
    assert not harness.disk.files, "a file with nothing in it is no recording"
    assert len(harness.of(RecordingFailed)) == 1
    assert str(harness.status.state.value) == "failing"
    assert not harness.of(RecordingStarted)
    assert not harness.of(RecordingFinished)


@pytest.mark.parametrize(("error", "name"), [(ENOSPC, "ENOSPC"), (EIO, "EIO"), (ENOENT, "ENOENT")])
def test_a_file_that_cannot_be_created_is_reported_and_tried_again(error: int, name: str) -> None:
    harness = RecordingHarness()
    harness.publish()
    harness.disk.error = error
    harness.send(*groups(2))
    assert harness.status.dropped_by_reason == {name: 20}
    assert [event.error for event in harness.of(RecordingFailed)] == [name]
    assert harness.of(RecordingFailed)[0].path == "memory/01.flv"
    harness.disk.error = None
    harness.clock.advance(2)
    harness.send(*groups(1, 400))
    assert harness.frames() == [groups(1, 400)]


def test_a_file_that_fails_at_its_first_write_uses_no_segment_number() -> None:
    harness = RecordingHarness(segment_duration=60.0)
    harness.publish()
    harness.disk.size = 100
    harness.send(*start_frames(), *groups(1))
    harness.disk.size = 10**9
    harness.clock.advance(2)
    harness.send(*groups(1, 200))
    assert [event.segment for event in harness.of(RecordingStarted)] == [1]


def test_frames_for_a_deleted_file_are_dropped_and_a_new_file_begins() -> None:
    """The open file would take more bytes that nobody can ever read."""
    harness = RecordingHarness()
    harness.publish()
    harness.send(*groups(1))
    harness.disk.files.clear()
    harness.send(*groups(1, 200))
    assert [event.error for event in harness.of(RecordingFailed)] == ["ENOENT"]
    assert (harness.status.messages_written, harness.status.dropped_by_reason) == (10, {"ENOENT": 10})
    harness.clock.advance(2)
    harness.send(*groups(1, 400))
    assert harness.frames() == [groups(1, 400)]


def test_a_disk_that_fails_now_and_then_is_reported_once() -> None:
    harness = RecordingHarness(retry_after=1.0, longest_retry=1.0, recovered_after=10.0)
    harness.publish()
    for second in range(20):
        harness.disk.error = EIO if second % 3 == 0 else None
        harness.send(*group(1000 * second))
        harness.clock.advance(1)
    assert len(harness.of(RecordingFailed)) == 1
    harness.disk.error = None
    for second in range(20, 40):
        harness.send(*group(1000 * second))
        harness.clock.advance(1)
    harness.disk.error = EIO
    harness.send(*group(40_000))
    assert len(harness.of(RecordingFailed)) == 2


def test_a_slow_disk_costs_recorded_frames_only() -> None:
    harness = RecordingHarness(queue_bytes=3000)
    harness.publish()
    assert harness.stream is not None
    player = KeepingSubscriber()
    harness.stream.subscribe(player)
    sent = [*start_frames(), *groups(10, size=200), video_header(b"new"), *groups(5, 2000, size=200)]
    for frame in sent:
        harness.send(frame, work=False)
        assert harness.status.bytes_queued <= 3000
    assert player.frames == sent
    lost = harness.status.messages_dropped
    assert harness.status.dropped_by_reason == {"queue_full": lost}
    harness.work()
    harness.send(inter(3000), audio(3000), *groups(2, 3200))
    assert harness.status.dropped_by_reason == {"queue_full": lost + 2}
    first, second = harness.frames()
    assert first == [*HEADERS, *groups(10, size=200)[: len(first) - 2]]
    # With the decoder configuration that came while frames were dropped.
    assert second == [*moved([video_header(b"new"), audio_header()], 3200), *groups(2, 3200)]
    assert [event.error for event in harness.of(RecordingFailed)] == ["queue_full"]
    (first_file,) = harness.of(RecordingFinished)
    assert first_file.reason == "the disk was too slow"
    assert first_file.dropped_by_reason == {"queue_full": lost}
    harness.end()
    assert harness.of(RecordingFinished)[1].dropped_by_reason == {"queue_full": lost + 2}


def test_a_recording_that_ends_while_frames_are_dropped_accounts_for_all_of_them() -> None:
    harness = RecordingHarness(queue_bytes=3000)
    harness.publish()
    sent = [*start_frames(), *groups(10, size=200), video_header(b"new")]
    for frame in sent:
        harness.send(frame, work=False)
    harness.end()
    (finished,) = harness.of(RecordingFinished)
    assert set(finished.dropped_by_reason) == {"queue_full"}
    totals = harness.manager.totals()
    assert totals.messages_written + totals.dropped_by_reason["queue_full"] == len(sent)
    assert totals.dropped_by_reason == finished.dropped_by_reason


def test_the_queue_is_bounded_in_messages() -> None:
    harness = RecordingHarness(queue_messages=100)
    harness.publish()
    for number in range(1000):
        harness.send(MediaFrame(MediaKind.AUDIO, number, b"\xaf\x01"), work=False)
    assert harness.status.messages_queued == 100
    assert harness.status.dropped_by_reason == {"queue_full": 900}
    harness.work()
    harness.send(audio(2000))
    assert harness.frames()[1] == [audio(2000)]


def test_the_event_says_that_metadata_could_not_be_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = RecordingHarness()
    harness.publish()
    harness.send(*groups(1))
    (file,) = harness.disk.files.values()

    def fail() -> None:
        raise OSError(EIO, "Input/output error")

    monkeypatch.setattr(file, "sync", fail)
    harness.end()
    assert (
        harness.of(RecordingFinished)[0].reason == "the publisher ended; its metadata is not complete (EIO)"
    )
    assert file.closed


def test_a_disk_that_never_answers_does_not_hold_up_the_stop() -> None:
    harness = RecordingHarness()
    harness.publish()
    harness.send(*groups(1), work=False)
    stopped: list[object] = []
    with kept_log() as log:
        harness.manager.stop().addBoth(stopped.append)
        harness.clock.advance(9.9)
        assert stopped == []
        harness.clock.advance(0.2)
    assert stopped == [None]
    assert log.lines == ["1 recordings were not completed within 10 s: the disk does not answer"]
