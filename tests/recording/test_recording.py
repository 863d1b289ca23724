"""What is recorded, and in which files."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import attrs
import pytest

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.events import RecordingFinished, RecordingStarted
from rtmprelay.flv.repair import repair
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.recording.status import RecordingState
from tests.access.log_keeping import kept_log
from tests.flv.media import metadata_of
from tests.helpers import audio, audio_header, inter, keyframe, metadata, start_frames, video_header
from tests.recording.helpers import HEADERS, RecordingHarness, groups, moved, without_startup

# -- files and events ----------------------------------------------------------------------------------------


def test_a_recording_has_every_frame_metadata_and_two_events() -> None:
    harness = RecordingHarness()
    harness.publish()
    harness.send(*start_frames())
    assert not harness.disk.files, "nothing to record yet"
    harness.send(*groups(3))
    assert harness.status.state is RecordingState.RECORDING
    assert harness.status.path == "memory/01.flv"
    harness.end()
    assert harness.frames() == [[*HEADERS, *groups(3)]]
    assert harness.of(RecordingStarted) == [
        RecordingStarted(stream="live/test", path="memory/01.flv", segment=None)
    ]
    (file,) = harness.disk.files.values()
    assert harness.of(RecordingFinished) == [
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
    assert harness.manager.statuses() == []


def test_the_event_says_that_the_publisher_was_lost() -> None:
    harness = RecordingHarness()
    harness.publish()
    harness.send(*groups(1))
    harness.end(clean=False)
    assert [event.reason for event in harness.of(RecordingFinished)] == ["the publisher was lost"]


def test_a_publisher_that_returns_begins_a_new_file() -> None:
    harness = RecordingHarness()
    for _ in range(2):
        harness.publish()
        harness.send(*start_frames(), *groups(1))
        harness.end()
    assert harness.frames() == [[*HEADERS, *groups(1)]] * 2


def test_a_publisher_without_media_makes_no_file() -> None:
    harness = RecordingHarness()
    harness.publish()
    harness.send(*start_frames())
    harness.end()
    assert not harness.disk.files
    assert not harness.events.of(RecordingFinished)


def test_audio_before_video_is_recorded_and_the_header_names_both() -> None:
    harness = RecordingHarness()
    harness.publish()
    frames = [audio_header(), audio(0), audio(20), video_header(), keyframe(40), inter(80)]
    harness.send(*frames)
    harness.end()
    assert harness.frames() == [frames]
    (file,) = harness.disk.files.values()
    assert file.data[4] == 5


def test_new_decoder_configuration_and_cues_keep_their_place() -> None:
    harness = RecordingHarness()
    harness.publish()
    cue = MediaFrame(MediaKind.DATA, 210, b"\x02\x00\x05onCue")
    frames = [*groups(1), video_header(b"other"), cue, metadata(width=640.0), *groups(1, 240)]
    harness.send(*start_frames(), *frames)
    harness.end()
    assert harness.frames() == [[*HEADERS, *frames]]
    (file,) = harness.disk.files.values()
    assert metadata_of(bytes(file.data))["width"] == 640.0


def test_only_chosen_streams_are_recorded() -> None:
    harness = RecordingHarness(record_all=False, match=("live/a*", "show/*"))
    for key in ("live/b", "live/a1", "show/x"):
        harness.key = key
        harness.publish()
    assert [status.stream for status in harness.manager.statuses()] == ["live/a1", "show/x"]


def test_a_live_stream_is_recorded_from_its_last_keyframe_until_the_request_to_stop() -> None:
    harness = RecordingHarness(record_all=False)
    harness.publish()
    harness.send(*start_frames(), *groups(2))
    assert harness.manager.statuses() == []
    harness.manager.record("live/test")
    harness.send(*groups(1, 400))
    stopped = harness.manager.stop_recording("live/test")
    before = stopped.called
    harness.send(*groups(1, 600))
    assert (before, stopped.called) == (False, True)
    # It began where a late joiner begins: at the last keyframe.
    assert harness.frames() == [[*moved(HEADERS, 200), *groups(2, 200)]]
    assert [event.reason for event in harness.of(RecordingFinished)] == ["stopped on request"]
    assert harness.manager.stop_recording("live/test").called


def test_a_requested_stream_is_recorded_at_every_publish() -> None:
    harness = RecordingHarness(record_all=False)
    harness.manager.record("live/test")
    for _ in range(2):
        harness.publish()
        harness.send(*groups(1))
        harness.end()
    assert len(harness.disk.files) == 2


def test_a_stop_completes_all_files() -> None:
    harness = RecordingHarness()
    harness.publish()
    harness.send(*groups(1), work=False)
    stopped = harness.manager.stop()
    before = stopped.called
    harness.work()
    assert (before, stopped.called) == (False, True)
    assert [event.reason for event in harness.of(RecordingFinished)] == ["the server stops"]
    assert harness.manager.statuses() == []


# -- segments ------------------------------------------------------------------------------------------------


def test_segments_begin_at_keyframes_and_together_have_every_frame() -> None:
    harness = RecordingHarness(segment_duration=1.0)
    harness.publish()
    for frame in (*start_frames(), *groups(13)):
        harness.send(frame)
    harness.end()
    files = harness.frames()
    assert [len(file) for file in files] == [2 + 50, 2 + 50, 2 + 30]
    for number, file in enumerate(files):
        begin = 1000 * number
        assert file[:3] == [*moved(HEADERS, begin), keyframe(begin, 20)]
    assert without_startup(files) == groups(13)
    for number, data in enumerate(harness.disk.files.values(), 1):
        values = metadata_of(bytes(data.data))
        assert values["rtmprelay_segment"] == float(number)
        assert values["width"] == 1280.0
        assert cast("dict[str, list[AmfValue]]", values["keyframes"])["times"][1] == number - 1
    assert [event.segment for event in harness.of(RecordingStarted)] == [1, 2, 3]
    assert [event.reason for event in harness.of(RecordingFinished)] == [
        "the segment is full",
        "the segment is full",
        "the publisher ended",
    ]


def test_segments_by_size_are_cut_within_one_batch() -> None:
    harness = RecordingHarness(segment_size=2500, metadata_space=512)
    harness.publish()
    harness.send(*start_frames(), *groups(40))
    harness.end()
    files = harness.frames()
    assert len(files) > 3
    assert all(file[2].payload[:2] == b"\x17\x01" for file in files)
    assert without_startup(files) == groups(40)


def test_segments_without_video_begin_at_any_frame() -> None:
    harness = RecordingHarness(segment_duration=1.0)
    harness.publish()
    frames = [audio(20 * number) for number in range(120)]
    harness.send(audio_header(), *frames)
    harness.end()
    files = harness.frames()
    assert [file[1].timestamp_ms for file in files] == [0, 1000, 2000]
    assert without_startup(files) == frames


def test_segments_continue_when_timestamps_wrap() -> None:
    harness = RecordingHarness(segment_duration=1.0)
    harness.publish()
    frames = [
        attrs.evolve(frame, timestamp_ms=(frame.timestamp_ms - 1000) % (1 << 32)) for frame in groups(10)
    ]
    harness.send(*HEADERS, *frames)
    harness.end()
    files = harness.frames()
    assert [file[2].timestamp_ms for file in files] == [(1 << 32) - 1000, 0]
    assert without_startup(files) == frames


# -- limits and bugs -----------------------------------------------------------------------------------------


def test_remembered_decoder_configuration_is_bounded() -> None:
    """A publisher may invent tracks."""
    harness = RecordingHarness()
    harness.publish()
    for track in range(200):
        header = b"\x86\x00av01" + bytes([track]) + b"config"
        harness.send(MediaFrame(MediaKind.VIDEO, 0, header))
    harness.send(*groups(1))
    harness.end()
    assert len(harness.frames()[0]) <= 64 + 10


def test_a_frame_that_is_too_large_for_a_tag_is_dropped() -> None:
    harness = RecordingHarness()
    harness.publish()
    harness.send(*groups(1), MediaFrame(MediaKind.AUDIO, 200, bytes(1 << 24)), *groups(1, 200))
    assert harness.status.dropped_by_reason == {"too_large": 1}
    assert harness.frames() == [[*groups(1), *groups(1, 200)]]


def test_a_publishers_metadata_cannot_replace_the_streams_name(tmp_path: Path) -> None:
    harness = RecordingHarness()
    harness.publish()
    harness.send(metadata(rtmprelay_name=1.0), *groups(1), metadata(rtmprelay_app=2.0), *groups(1, 200))
    harness.end()
    (file,) = harness.disk.files.values()
    path = tmp_path / "file.flv"
    path.write_bytes(file.data[:-5])
    repair(path)
    for data in (bytes(file.data), path.read_bytes()):
        assert metadata_of(data)["rtmprelay_app"] == "live"
        assert metadata_of(data)["rtmprelay_name"] == "test"


def test_a_bug_in_one_recording_does_not_cost_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = RecordingHarness()
    harness.publish()
    assert harness.stream is not None
    (recorder,) = harness.stream.subscribers
    monkeypatch.setattr(recorder, "work", lambda: 1 / 0)
    harness.key = "live/other"
    harness.publish()
    with kept_log() as log:
        harness.send(*groups(1))
    assert log.lines == ["The recording of live/test failed"]
    assert "ZeroDivisionError" in log.events[0]["log_failure"].getTraceback()
    assert harness.frames() == [groups(1)]
