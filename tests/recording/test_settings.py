from __future__ import annotations

import pytest

from rtmprelay.errors import ConfigError
from rtmprelay.recording.settings import (
    RecordingSettings,
    read_duration,
    read_segment_duration,
    read_segment_size,
    read_size,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("12h", 43200), ("7d", 604800), ("2W", 1209600), ("1.5h", 5400)],
)
def test_durations(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("500k", 512000), ("100G", 100 << 30), ("1.5T", 3 << 39), ("2MiB", 2 << 20), ("2mb", 2 << 20)],
)
def test_sizes(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "7", "-1", "m", "1y", "1e3", "nan", "1 h x", "٣m", "9" * 30])
def test_what_is_no_duration_or_size(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a duration such as"):
        read_duration(text)
    with pytest.raises(ConfigError, match="is not a size such as"):
        read_size(text if text != "m" else "g")


def test_segments_have_a_least_size() -> None:
    assert read_segment_duration("1s") == 1
    assert read_segment_size("128k") == 131072
    with pytest.raises(ConfigError, match="too short for a segment"):
        read_segment_duration("0.5s")
    with pytest.raises(ConfigError, match="too small for a segment"):
        read_segment_size("10k")


def test_which_streams_are_wanted() -> None:
    assert not RecordingSettings().wants("live/a")
    assert RecordingSettings(record_all=True).wants("live/a")
    chosen = RecordingSettings(match=("live/*",))
    assert chosen.wants("live/a")
    assert not chosen.wants("LIVE/a")
