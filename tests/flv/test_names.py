"""Every stream key has a safe file name, from which it can be read again."""

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
        ("//etc/passwd", "%2F%2Fetc_passwd_20261116_045106.flv"),
        ("live/a\0b", "live_a%00b_20261116_045106.flv"),
        ("live/50%~ ü", "live_50%25%7E%20%C3%BC_20261116_045106.flv"),
        ("CON.x/cam", "%43ON.x_cam_20261116_045106.flv"),
        ("nul/cam", "nul_cam_20261116_045106.flv"),
    ],
)
def test_file_name_encodes_the_stream_key(key: str, file_name: str) -> None:
    name = RecordingName(*split_key(key), STARTED)
    assert name.file_name == file_name
    parsed = parse_recording_name(file_name)
    assert parsed == name
    assert parsed is not None
    assert parsed.key == key


def test_file_name_has_segment_and_copy() -> None:
    name = RecordingName("live", "test", STARTED, segment=3, copy=2)
    assert name.file_name == "live_test_20261116_045106_0003-2.flv"
    assert parse_recording_name(name.file_name) == name


@given(NAMES)
@example(RecordingName("a", "x_20260101_000000", STARTED))
@example(RecordingName("a", "x_20260101_000000-2", STARTED))
@example(RecordingName("a", "x_20260101_000000_0007", STARTED, segment=4))
@example(RecordingName("", "", STARTED))
@example(RecordingName("\ud800", "é\udfff", STARTED))
def test_any_file_name_is_safe_and_can_be_read_back(name: RecordingName) -> None:
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
def test_file_name_is_never_too_long(app: str, name: str, copy: int) -> None:
    recording = RecordingName(app, name, STARTED, segment=123_456_789, copy=copy)
    file_name = recording.file_name
    assert len(file_name) <= MAX_NAME_SIZE
    parsed = parse_recording_name(file_name)
    assert parsed is not None
    assert (parsed.started, parsed.segment, parsed.copy) == (STARTED, 123_456_789, copy)
    other = attrs.evolve(recording, name=name + "x")
    assert other.file_name != file_name or not parsed.shortened


#: Streams whose names do not fit, with what stays of them. Recordings on disks have these names: they must not change.
SHORTENED = [
    ("a", "b" * 206, f"a_{'b' * 188}~e018a6f22cef9194"),
    ("live", "n_" * 150, f"live_{'n_' * 92}n~514945b1e4e9fb2e"),
    ("x" * 100, "y" * 300, f"{'x' * 60}_{'y' * 129}~8c481a612ec7ac08"),
    # No half escapes, neither "%" nor "%C".
    ("live", "\u00fc" * 60, f"live_{'%C3%BC' * 30}%C3~b715d43cf9cf2e28"),
    ("\u00fc" * 60, "z" * 200, f"{'%C3%BC' * 10}_{'z' * 129}~a9eb99bd9b90cde1"),
    ("live", "\ud800" * 100, f"live_{'%ED%A0%80' * 20}%ED~d87062f925eb1988"),
]


@pytest.mark.parametrize(("app", "name", "stem"), SHORTENED)
def test_long_name_is_cut_and_marked_with_a_hash(app: str, name: str, stem: str) -> None:
    file_name = RecordingName(app, name, STARTED).file_name
    assert file_name == f"{stem}_20261116_045106.flv"
    parsed = parse_recording_name(file_name)
    assert parsed is not None
    assert parsed.shortened


def test_name_that_just_fits_is_not_cut() -> None:
    assert RecordingName("a", "b" * 205, STARTED).file_name == f"a_{'b' * 205}_20261116_045106.flv"


@given(st.text(), st.text(), st.text(), st.text())
def test_two_streams_never_share_a_file_name(app: str, name: str, other_app: str, other_name: str) -> None:
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
def test_other_file_names_are_no_recordings(file_name: str) -> None:
    assert parse_recording_name(file_name) is None


@given(st.text(max_size=60))
@example("~0123456789abcdef")
def test_arbitrary_text_never_raises(text: str) -> None:
    for file_name in (text, f"live_{text}_20261116_045106.flv"):
        parsed = parse_recording_name(file_name)
        assert parsed is None or parsed.shortened or parse_recording_name(parsed.file_name) == parsed
