"""What is recorded, in which files, and what happens when the disk does not play along."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import attrs
import pytest

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.events import RecordingFailed, RecordingFinished, RecordingStarted
from rtmprelay.flv.repair import repair
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.recording.status import RecordingState
from tests.access.log_keeping import kept_log
from tests.files.memory_disk import EIO, ENOENT, ENOSPC
from tests.flv.media import metadata_of
from tests.helpers import audio, audio_header, group, inter, keyframe, metadata, start_frames, video_header
from tests.recording.helpers import Studio
from tests.streams.helpers import KeepingSubscriber

HEADERS = [video_header(), audio_header()]


def groups(count: int, begin_ms: int = 0, size: int = 20) -> list[MediaFrame]:
    return [frame for number in range(count) for frame in group(begin_ms + 200 * number, size=size)]


def moved(frames: list[MediaFrame], timestamp_ms: int) -> list[MediaFrame]:
    return [attrs.evolve(frame, timestamp_ms=timestamp_ms) for frame in frames]


# -- the ordinary course of things ---------------------------------------------------------------------------


def test_everything_is_recorded_and_told() -> None:
    studio = Studio()
    studio.publish()
    studio.send(*start_frames())
    assert not studio.disk.files, "nothing to record yet"
    studio.send(*groups(3))
    assert studio.status.state is RecordingState.RECORDING
    assert studio.status.path == "memory/01.flv"
    studio.end()
    assert studio.frames() == [[*HEADERS, *groups(3)]]
    assert studio.of(RecordingStarted) == [
        RecordingStarted(stream="live/test", path="memory/01.flv", segment=None)
    ]
    (file,) = studio.disk.files.values()
    assert studio.of(RecordingFinished) == [
        RecordingFinished(
            stream="live/test",
            path="memory/01.flv",
            reason="the publisher ended",
            bytes=len(file.data),
            duration=0.56,
            messages=30,
            dropped_by_reason={},
        )
    ]
    assert file.closed
    values = metadata_of(bytes(file.data))
    assert (values["rtmprelay_app"], values["rtmprelay_name"], values["rtmprelay_started"]) == (
        "live",
        "test",
        0.0,
    )
    assert values["width"] == 1280.0
    assert studio.manager.statuses() == []


def test_a_publisher_that_is_lost_is_told_apart() -> None:
    studio = Studio()
    studio.publish()
    studio.send(*groups(1))
    studio.end(clean=False)
    assert [event.reason for event in studio.of(RecordingFinished)] == ["the publisher was lost"]


def test_a_publisher_that_returns_makes_a_new_file() -> None:
    studio = Studio()
    for _ in range(2):
        studio.publish()
        studio.send(*start_frames(), *groups(1))
        studio.end()
    assert studio.frames() == [[*HEADERS, *groups(1)]] * 2


def test_a_publisher_without_media_makes_no_file() -> None:
    studio = Studio()
    studio.publish()
    studio.send(*start_frames())
    studio.end()
    assert not studio.disk.files
    assert not studio.events.of(RecordingFinished)


def test_audio_before_video_and_audio_only() -> None:
    studio = Studio()
    studio.publish()
    frames = [audio_header(), audio(0), audio(20), video_header(), keyframe(40), inter(80)]
    studio.send(*frames)
    studio.end()
    assert studio.frames() == [frames]
    (file,) = studio.disk.files.values()
    assert file.data[4] == 5


def test_new_decoder_configuration_and_cues_stay_in_their_place() -> None:
    studio = Studio()
    studio.publish()
    cue = MediaFrame(MediaKind.DATA, 210, b"\x02\x00\x05onCue")
    frames = [*groups(1), video_header(b"other"), cue, metadata(width=640.0), *groups(1, 240)]
    studio.send(*start_frames(), *frames)
    studio.end()
    assert studio.frames() == [[*HEADERS, *frames]]
    (file,) = studio.disk.files.values()
    assert metadata_of(bytes(file.data))["width"] == 640.0


def test_only_chosen_streams_are_recorded() -> None:
    studio = Studio(record_all=False, match=("live/a*", "show/*"))
    for key in ("live/b", "live/a1", "show/x"):
        studio.key = key
        studio.publish()
    assert [status.stream for status in studio.manager.statuses()] == ["live/a1", "show/x"]


def test_record_this_stream_and_stop_now() -> None:
    studio = Studio(record_all=False)
    studio.publish()
    studio.send(*start_frames(), *groups(2))
    assert studio.manager.statuses() == []
    studio.manager.record("live/test")
    studio.send(*groups(1, 400))
    stopped = studio.manager.stop_recording("live/test")
    before = stopped.called
    studio.send(*groups(1, 600))
    assert (before, stopped.called) == (False, True)
    # It began where a late joiner begins: at the last keyframe.
    assert studio.frames() == [[*moved(HEADERS, 200), *groups(2, 200)]]
    assert [event.reason for event in studio.of(RecordingFinished)] == ["stopped on request"]
    assert studio.manager.stop_recording("live/test").called


def test_a_stream_is_recorded_again_when_it_was_asked_for() -> None:
    studio = Studio(record_all=False)
    studio.manager.record("live/test")
    for _ in range(2):
        studio.publish()
        studio.send(*groups(1))
        studio.end()
    assert len(studio.disk.files) == 2


def test_stopping_completes_all_files() -> None:
    studio = Studio()
    studio.publish()
    studio.send(*groups(1), work=False)
    stopped = studio.manager.stop()
    before = stopped.called
    studio.work()
    assert (before, stopped.called) == (False, True)
    assert [event.reason for event in studio.of(RecordingFinished)] == ["the server stops"]
    assert studio.manager.statuses() == []


def test_a_disk_that_never_answers_does_not_hold_up_the_stop() -> None:
    studio = Studio()
    studio.publish()
    studio.send(*groups(1), work=False)
    stopped: list[object] = []
    with kept_log() as log:
        studio.manager.stop().addBoth(stopped.append)
        studio.clock.advance(9.9)
        assert stopped == []
        studio.clock.advance(0.2)
    assert stopped == [None], "a success"
    assert log.lines == ["1 recordings were not completed within 10 s: the disk does not answer"]


# -- segments ------------------------------------------------------------------------------------------------


def without_startup(files: list[list[MediaFrame]]) -> list[MediaFrame]:
    return [frame for file in files for frame in file if frame.payload[:2] not in (b"\x17\x00", b"\xaf\x00")]


def test_segments_are_cut_at_keyframes_and_make_the_whole() -> None:
    studio = Studio(segment_duration=1.0)
    studio.publish()
    for frame in (*start_frames(), *groups(13)):
        studio.send(frame)
    studio.end()
    files = studio.frames()
    assert [len(file) for file in files] == [2 + 50, 2 + 50, 2 + 30]
    for number, file in enumerate(files):
        begin = 1000 * number
        assert file[:3] == [*moved(HEADERS, begin), keyframe(begin, 20)]
    assert without_startup(files) == groups(13)
    for number, data in enumerate(studio.disk.files.values(), 1):
        values = metadata_of(bytes(data.data))
        assert values["rtmprelay_segment"] == float(number)
        assert values["width"] == 1280.0
        assert cast("dict[str, list[AmfValue]]", values["keyframes"])["times"][1] == number - 1
    assert [event.segment for event in studio.of(RecordingStarted)] == [1, 2, 3]
    assert [event.reason for event in studio.of(RecordingFinished)] == [
        "the segment is full",
        "the segment is full",
        "the publisher ended",
    ]


def test_segments_by_size_in_one_batch() -> None:
    studio = Studio(segment_size=2500, metadata_space=512)
    studio.publish()
    studio.send(*start_frames(), *groups(40))
    studio.end()
    files = studio.frames()
    assert len(files) > 3
    assert all(file[2].payload[:2] == b"\x17\x01" for file in files)
    assert without_startup(files) == groups(40)


def test_segments_of_audio_only() -> None:
    studio = Studio(segment_duration=1.0)
    studio.publish()
    frames = [audio(20 * number) for number in range(120)]
    studio.send(audio_header(), *frames)
    studio.end()
    files = studio.frames()
    assert [file[1].timestamp_ms for file in files] == [0, 1000, 2000]
    assert without_startup(files) == frames


def test_segments_go_on_across_the_end_of_the_circle() -> None:
    studio = Studio(segment_duration=1.0)
    studio.publish()
    frames = [
        attrs.evolve(frame, timestamp_ms=(frame.timestamp_ms - 1000) % (1 << 32)) for frame in groups(10)
    ]
    studio.send(*HEADERS, *frames)
    studio.end()
    files = studio.frames()
    assert [file[2].timestamp_ms for file in files] == [(1 << 32) - 1000, 0]
    assert without_startup(files) == frames


# -- trouble -------------------------------------------------------------------------------------------------


def test_a_full_disk_costs_recorded_frames_only() -> None:
    studio = Studio(metadata_space=512, retry_after=1.0)
    studio.publish()
    assert studio.stream is not None
    player = KeepingSubscriber()
    studio.stream.subscribe(player)
    studio.disk.size = 3000
    sent = [*start_frames(), *groups(40)]
    for frame in sent:
        studio.send(frame)
    assert player.frames == sent
    assert studio.status.state.value == "failing"
    assert str(studio.status.last_error) == "ENOSPC: No space left on device (memory/01.flv)"
    assert studio.status.dropped_by_reason["ENOSPC"] == studio.status.messages_dropped > 100
    assert studio.of(RecordingFailed) == [
        RecordingFailed(
            stream="live/test", path="memory/01.flv", error="ENOSPC", reason="No space left on device"
        )
    ]
    # What fitted is a whole file, metadata included.
    (file,) = studio.disk.files.values()
    assert metadata_of(bytes(file.data))["filesize"] == float(len(file.data)) <= 3000.0
    assert without_startup(studio.frames()) == groups(40)[: len(studio.frames()[0]) - 2]

    # The disk is back: the next attempt is at a keyframe, in a new file, with headers.
    studio.disk.size = 10**9
    studio.clock.advance(5)
    studio.send(inter(8040), audio(8040), *groups(2, 8200))
    assert studio.status.state.value == "recording"
    assert studio.status.last_error is None
    assert studio.status.dropped_by_reason["waiting_for_keyframe"] == 2
    assert studio.frames()[1] == [*moved(HEADERS, 8200), *groups(2, 8200)]
    studio.end()
    assert "the disk failed (ENOSPC)" in studio.of(RecordingFinished)[0].reason
    assert len(studio.of(RecordingFailed)) == 1


def test_attempts_come_later_and_later_and_leave_nothing_behind() -> None:
    studio = Studio(retry_after=1.0, longest_retry=8.0)
    studio.publish()
    studio.disk.size = 100
    attempts = []
    for second in range(40):
        before = studio.disk.attempts
        studio.send(*group(1000 * second))
        if studio.disk.attempts > before:
            attempts.append(second)
        studio.clock.advance(1)
    assert attempts == [0, 1, 3, 7, 15, 23, 31, 39]
    assert not studio.disk.files, "a file with nothing in it is no recording"
    assert len(studio.of(RecordingFailed)) == 1
    assert str(studio.status.state.value) == "failing"
    assert not studio.of(RecordingStarted)
    assert not studio.of(RecordingFinished)


@pytest.mark.parametrize(("error", "name"), [(ENOSPC, "ENOSPC"), (EIO, "EIO"), (ENOENT, "ENOENT")])
def test_a_file_that_cannot_be_made(error: int, name: str) -> None:
    studio = Studio()
    studio.publish()
    studio.disk.error = error
    studio.send(*groups(2))
    assert studio.status.dropped_by_reason == {name: 20}
    assert [event.error for event in studio.of(RecordingFailed)] == [name]
    assert studio.of(RecordingFailed)[0].path == "memory/01.flv"
    studio.disk.error = None
    studio.clock.advance(2)
    studio.send(*groups(1, 400))
    assert studio.frames() == [groups(1, 400)]


def test_a_file_that_failed_at_once_has_no_number() -> None:
    studio = Studio(segment_duration=60.0)
    studio.publish()
    studio.disk.size = 100
    studio.send(*start_frames(), *groups(1))
    studio.disk.size = 10**9
    studio.clock.advance(2)
    studio.send(*groups(1, 200))
    assert [event.segment for event in studio.of(RecordingStarted)] == [1]


def test_a_folder_that_vanishes_is_noticed() -> None:
    """The open file would go on taking bytes that nobody can ever read."""
    studio = Studio()
    studio.publish()
    studio.send(*groups(1))
    studio.disk.files.clear()
    studio.send(*groups(1, 200))
    assert [event.error for event in studio.of(RecordingFailed)] == ["ENOENT"]
    assert (studio.status.messages_written, studio.status.dropped_by_reason) == (10, {"ENOENT": 10})
    studio.clock.advance(2)
    studio.send(*groups(1, 400))
    assert studio.frames() == [groups(1, 400)]


def test_an_outage_that_goes_on_and_off_is_told_once() -> None:
    studio = Studio(retry_after=1.0, longest_retry=1.0, recovered_after=10.0)
    studio.publish()
    for second in range(20):
        studio.disk.error = EIO if second % 3 == 0 else None
        studio.send(*group(1000 * second))
        studio.clock.advance(1)
    assert len(studio.of(RecordingFailed)) == 1
    studio.disk.error = None
    for second in range(20, 40):
        studio.send(*group(1000 * second))
        studio.clock.advance(1)
    studio.disk.error = EIO
    studio.send(*group(40_000))
    assert len(studio.of(RecordingFailed)) == 2


def test_a_slow_disk_costs_recorded_frames_only() -> None:
    studio = Studio(queue_bytes=3000)
    studio.publish()
    assert studio.stream is not None
    player = KeepingSubscriber()
    studio.stream.subscribe(player)
    sent = [*start_frames(), *groups(10, size=200), video_header(b"new"), *groups(5, 2000, size=200)]
    for frame in sent:
        studio.send(frame, work=False)
        assert studio.status.bytes_queued <= 3000
    assert player.frames == sent
    lost = studio.status.messages_dropped
    assert studio.status.dropped_by_reason == {"queue_full": lost}
    studio.work()
    studio.send(inter(3000), audio(3000), *groups(2, 3200))
    assert studio.status.dropped_by_reason == {"queue_full": lost + 2}
    first, second = studio.frames()
    assert first == [*HEADERS, *groups(10, size=200)[: len(first) - 2]]
    # With the decoder configuration that came while frames were dropped.
    assert second == [*moved([video_header(b"new"), audio_header()], 3200), *groups(2, 3200)]
    assert [event.error for event in studio.of(RecordingFailed)] == ["queue_full"]
    (first_file,) = studio.of(RecordingFinished)
    assert first_file.reason == "the disk was too slow"
    assert first_file.dropped_by_reason == {"queue_full": lost}
    studio.end()
    assert studio.of(RecordingFinished)[1].dropped_by_reason == {"queue_full": lost + 2}


def test_a_recording_that_ends_while_frames_are_dropped_accounts_for_all_of_them() -> None:
    studio = Studio(queue_bytes=3000)
    studio.publish()
    sent = [*start_frames(), *groups(10, size=200), video_header(b"new")]
    for frame in sent:
        studio.send(frame, work=False)
    studio.end()
    (finished,) = studio.of(RecordingFinished)
    assert set(finished.dropped_by_reason) == {"queue_full"}
    totals = studio.manager.totals()
    assert totals.messages_written + totals.dropped_by_reason["queue_full"] == len(sent)
    assert totals.dropped_by_reason == finished.dropped_by_reason


def test_the_queue_is_bounded_in_messages_too() -> None:
    studio = Studio(queue_messages=100)
    studio.publish()
    for number in range(1000):
        studio.send(MediaFrame(MediaKind.AUDIO, number, b"\xaf\x01"), work=False)
    assert studio.status.messages_queued == 100
    assert studio.status.dropped_by_reason == {"queue_full": 900}
    studio.work()
    studio.send(audio(2000))
    assert studio.frames()[1] == [audio(2000)]


def test_decoder_configuration_without_end_is_no_attack() -> None:
    """A publisher may invent tracks; what is remembered of them is bounded."""
    studio = Studio()
    studio.publish()
    for track in range(200):
        header = b"\x86\x00av01" + bytes([track]) + b"config"
        studio.send(MediaFrame(MediaKind.VIDEO, 0, header))
    studio.send(*groups(1))
    studio.end()
    assert len(studio.frames()[0]) <= 64 + 10


def test_a_frame_that_no_tag_can_hold_is_left_out() -> None:
    studio = Studio()
    studio.publish()
    studio.send(*groups(1), MediaFrame(MediaKind.AUDIO, 200, bytes(1 << 24)), *groups(1, 200))
    assert studio.status.dropped_by_reason == {"too_large": 1}
    assert studio.frames() == [[*groups(1), *groups(1, 200)]]


def test_a_publisher_cannot_say_that_it_is_another_stream(tmp_path: Path) -> None:
    studio = Studio()
    studio.publish()
    studio.send(metadata(rtmprelay_name=1.0), *groups(1), metadata(rtmprelay_app=2.0), *groups(1, 200))
    studio.end()
    (file,) = studio.disk.files.values()
    path = tmp_path / "file.flv"
    path.write_bytes(file.data[:-5])
    repair(path)
    for data in (bytes(file.data), path.read_bytes()):
        assert metadata_of(data)["rtmprelay_app"] == "live"
        assert metadata_of(data)["rtmprelay_name"] == "test"


def test_metadata_that_cannot_be_completed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    studio = Studio()
    studio.publish()
    studio.send(*groups(1))
    (file,) = studio.disk.files.values()

    def fail() -> None:
        raise OSError(EIO, "Input/output error")

    monkeypatch.setattr(file, "sync", fail)
    studio.end()
    assert studio.of(RecordingFinished)[0].reason == "the publisher ended; its metadata is not complete (EIO)"
    assert file.closed


def test_a_bug_in_one_recording_does_not_cost_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    studio = Studio()
    studio.publish()
    monkeypatch.setattr(studio.manager._recorders["live/test"], "work", lambda: 1 / 0)
    studio.key = "live/other"
    studio.publish()
    with kept_log() as log:
        studio.send(*groups(1))
    assert log.lines == ["The recording of live/test failed"]
    assert "ZeroDivisionError" in log.events[0]["log_failure"].getTraceback()
    assert studio.frames() == [groups(1)]
