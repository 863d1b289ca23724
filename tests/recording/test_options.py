"""The options of the command that concern recordings."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from rtmprelay.config.options import Options
from rtmprelay.config.relay import RelayConfig
from rtmprelay.files.free_space import DEFAULT_KEEP_FREE
from rtmprelay.recording.settings import RecordingSettings


def parse(*arguments: str) -> RecordingSettings:
    options = Options()
    options.parseOptions([*arguments])
    return cast(RelayConfig, options["config"]).recording


def test_nothing_is_recorded_by_default() -> None:
    assert parse() == RecordingSettings(keep_free=DEFAULT_KEEP_FREE, shortest=1.0)
    assert not parse("--http-status", ":0", "--http-recordings", "--record-dir", "there").wants("live/test")


def test_all_options_are_read_and_create_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert parse(
        *("--record-all", "--record-dir", str(folder), "--segment-duration", "30m", "--segment-size", "2G"),
        *(
            "--keep-recordings",
            "7d",
            "--max-recordings-size",
            "100G",
            "--record",
            "live/*",
            "--record",
            "a/b",
        ),
    ) == RecordingSettings(
        record_all=True,
        match=("live/*", "a/b"),
        folder=folder,
        segment_duration=1800.0,
        segment_size=2 << 30,
        keep=7 * 86400.0,
        max_total_size=100 << 30,
        keep_free=DEFAULT_KEEP_FREE,
        shortest=1.0,
    )
    assert not folder.parent.exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--segment-duration", "soon"], "--segment-duration: 'soon' is not a duration such as"),
        (["--segment-duration", "0.1s"], "--segment-duration: '0.1s' is too short"),
        (["--segment-size", "1k"], "--segment-size: '1k' is too small"),
        (["--keep-recordings", "0"], "--keep-recordings: '0' is not a duration"),
        (["--max-recordings-size", "-5"], "--max-recordings-size: '-5' is not a size"),
        (
            ["--record-all", "--record-dir", "/dev/null"],
            "--record-dir: '/dev/null' cannot be used: .* not a folder",
        ),
        (["--record-all", "--record-dir", "/dev/null/x"], "--record-dir: '/dev/null/x' cannot be used"),
        (["--record-all", "--record-dir", "a\0b"], "--record-dir: .* cannot be a folder"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(arguments: list[str], sentence: str) -> None:
    with pytest.raises(SystemExit, match=sentence) as caught:
        parse(*arguments)
    assert "\n" not in str(caught.value)
