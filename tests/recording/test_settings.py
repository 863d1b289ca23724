"""Which streams the settings record."""

from __future__ import annotations

from rtmprelay.recording.settings import RecordingSettings


def test_which_streams_are_wanted() -> None:
    assert not RecordingSettings().wants("live/a")
    assert RecordingSettings(record_all=True).wants("live/a")
    chosen = RecordingSettings(match=("live/*",))
    assert chosen.wants("live/a")
    assert not chosen.wants("LIVE/a")
