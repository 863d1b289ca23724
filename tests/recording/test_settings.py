"""Which streams the settings record."""

from __future__ import annotations

from rtmprelay.recording.settings import RecordingSettings


def test_streams_are_recorded_if_all_are_or_a_glob_matches() -> None:
    assert not RecordingSettings().wants("live/a")
    assert RecordingSettings(record_all=True).wants("live/a")
    chosen = RecordingSettings(match=("live/*",))
    assert chosen.wants("live/a")
    assert not chosen.wants("LIVE/a")
