"""Any stream has a safe file name, and the name tells the stream."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import PurePosixPath, PureWindowsPath

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rtmprelay.flv.names import MAX_NAME_SIZE, RecordingName, parse_recording_name, split_key

STARTED = datetime(2026, 11, 16, 4, 51, 6, tzinfo=UTC)

NAMES = st.builds(
    RecordingName,
    st.text(max_size=30),
    st.text(max_size=30),
    st.just(STARTED),
    st.none() | st.integers(1, 123_456),
    st.integers(1, 1000),
)


@pytest.mark.parametrize(
    ("key", "file_name"),
    [
        ("live/test", "live_test_20261116_045106.flv"),
        ("live/my_cam.1-a", "live_my_cam.1-a_20261116_045106.flv"),
        ("my_app/cam", "my%5Fapp_cam_20261116_045106.flv"),
        ("a/b/c", "a%2Fb_c_20261116_045106.flv"),
        ("alone", "_alone_20261116_045106.flv"),
        ("../../etc/passwd", "%2E.%2F..%2Fetc_passwd_20261116_045106.flv"),
        ("//etc/passwd", "%2F%2Fetc_passwd_20261116_045106.flv".replace("%2F%2F", "%2F%2F")),
        ("live/a\0b", "live_a%00b_20261116_045106.flv"),
        ("live/50%~ ü", "live_50%25%7E%20%C3%BC_20261116_045106.flv"),
        ("CON.x/cam", "%43ON.x_cam_20261116_045106.flv"),
        ("nul/cam", "nul_cam_20261116_045106.flv"),
    ],
)
def test_file_names(key: str, file_name: str) -> None:
    name = RecordingName(*split_key(key), STARTED)
    assert name.file_name == file_name
    parsed = parse_recording_name(file_name)
    assert parsed == name
    assert parsed is not None
    assert parsed.key == key


def test_segments_and_copies_are_told_apart() -> None:
    name = RecordingName("live", "test", STARTED, segment=3, copy=2)
    assert name.file_name == "live_test_20261116_045106_0003-2.flv"
    assert parse_recording_name(name.file_name) == name


@given(NAMES)
@example(RecordingName("a", "x_20260101_000000", STARTED))
@example(RecordingName("a", "x_20260101_000000-2", STARTED))
@example(RecordingName("a", "x_20260101_000000_0007", STARTED, segment=4))
@example(RecordingName("", "", STARTED))
@example(RecordingName("\ud800", "é\udfff", STARTED))
def test_any_name_is_safe_and_can_be_read_back(name: RecordingName) -> None:
    file_name = name.file_name
    assert file_name.isascii()
    assert file_name.isprintable()
    assert not set(file_name) & set('/\\:*?"<>| ')
    assert len(file_name) <= MAX_NAME_SIZE
    assert PurePosixPath(file_name).name == file_name
    assert not file_name.startswith(".")
    assert not PureWindowsPath(file_name).is_reserved()
    parsed = parse_recording_name(file_name)
    assert parsed is not None
    if not parsed.shortened:
        assert parsed == name


@given(st.text(min_size=200, max_size=4096), st.text(max_size=4096), st.integers(1, 1000))
@example("ü" * 4096, "ü" * 4096, 1)
@example("a" * 4096, "_" * 4096, 1)
def test_a_name_that_is_too_long_is_cut(app: str, name: str, copy: int) -> None:
    recording = RecordingName(app, name, STARTED, segment=123_456_789, copy=copy)
    file_name = recording.file_name
    assert len(file_name) <= MAX_NAME_SIZE
    parsed = parse_recording_name(file_name)
    assert parsed is not None
    assert (parsed.started, parsed.segment, parsed.copy) == (STARTED, 123_456_789, copy)
    other = attrs.evolve(recording, name=name + "x")
    assert other.file_name != file_name or not parsed.shortened


@given(st.text(), st.text(), st.text(), st.text())
def test_two_streams_never_share_a_name(app: str, name: str, other_app: str, other_name: str) -> None:
    one, other = RecordingName(app, name, STARTED), RecordingName(other_app, other_name, STARTED)
    assert (one.file_name == other.file_name) == (one == other)


@pytest.mark.parametrize(
    "file_name",
    [
        "",
        "live.flv",
        "live_test.flv",
        "live_test_20261316_045106.flv",
        "live_test_20261116_045106.mp4",
        "live_test_20261116_045106.flv.tmp",
        "live_a b_20261116_045106.flv",
        "live_test_20261116_045106-0.flv",
        "live_%ff_20261116_045106.flv",
        "live_test_\uff12\uff10261116_045106.flv",
        ".repair-live_test_20261116_045106.flv\n",
    ],
)
def test_other_files_are_no_recordings(file_name: str) -> None:
    assert parse_recording_name(file_name) is None


@given(st.text())
def test_any_text_can_be_looked_at(text: str) -> None:
    parse_recording_name(text)
    parse_recording_name(f"live_{text}_20261116_045106.flv")
