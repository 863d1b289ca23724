"""What a relay says of itself when it has started."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtmprelay.banner import banner
from rtmprelay.config.relay import RelayConfig
from rtmprelay.recording.settings import RecordingSettings

OWN = "198.51.100.7"


@pytest.mark.parametrize(
    ("listener", "own", "line"),
    [
        (
            ("rtmp", "0.0.0.0", 1935),
            OWN,
            "rtmp://198.51.100.7/APP/NAME (from every network of this machine; here: rtmp://127.0.0.1/APP/NAME)",
        ),
        (
            ("rtmp", "0.0.0.0", 1936),
            None,
            "rtmp://127.0.0.1:1936/APP/NAME (from every network of this machine)",
        ),
        (
            ("rtmps", "::", 443),
            OWN,
            "rtmps://198.51.100.7/APP/NAME (from every network of this machine; here: rtmps://127.0.0.1/APP/NAME)",
        ),
        (("rtmp", "127.0.0.1", 1935), OWN, "rtmp://127.0.0.1/APP/NAME (from this machine only)"),
        (("rtmp", "2001:db8::7", 1935), OWN, "rtmp://[2001:db8::7]/APP/NAME"),
    ],
)
def test_banner_names_the_address_that_reaches_a_listener(
    listener: tuple[str, str, int], own: str | None, line: str
) -> None:
    first, *_ = banner(RelayConfig(), [listener], None, None, own)
    assert first == f"Publish to and play from {line}"


def test_banner_names_page_viewers_port_and_recordings(tmp_path: Path) -> None:
    config = RelayConfig(
        listen=("tcp:1935:interface=127.0.0.1",),
        recording=RecordingSettings(match=("live/*",), folder=tmp_path),
    )
    assert list(banner(config, [], ("http", "127.0.0.1", 8080), ("https", "0.0.0.0", 8081), OWN)) == [
        "The page is http://127.0.0.1:8080/ (from this machine only)",
        "Viewers with a browser watch at https://198.51.100.7:8081/APP/NAME/"
        " (from every network of this machine; here: https://127.0.0.1:8081/APP/NAME/)",
        f"Streams that match live/* are recorded in {tmp_path}",
        "Anybody who reaches a port may publish and play there (--auth)",
    ]


def test_banner_leaves_to_the_warning_what_the_warning_says(tmp_path: Path) -> None:
    config = RelayConfig(recording=RecordingSettings(record_all=True, folder=tmp_path))
    assert list(banner(config, [], None, None, OWN)) == [f"Every stream is recorded in {tmp_path}"]
