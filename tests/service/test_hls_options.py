"""The options of HLS: what they set, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtmprelay.config.options import Options
from rtmprelay.config.relay import RelayConfig
from tests.service.command import refusal

MEDIA = ("--http-media", "127.0.0.1:0")


def configured(*options: str) -> RelayConfig:
    made = Options()
    made.parseOptions([*options])
    config: RelayConfig = made["config"]
    return config


def test_options_set_what_they_say(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("a-key-of-more-than-16-characters\n")
    config = configured(
        *("--hls", "live/*", "--hls", "other/*", "--hls-part", "200ms", "--hls-segment", "4s"),
        *("--hls-window", "2h", "--hls-dir", str(tmp_path / "hls"), "--hls-anonymous"),
        *("--hls-sign-key", f"file:{key}", "--hls-variants", "live/*_{a,b}", *MEDIA),
        *("--limit", "hls_bytes=64M", "--http-cors", "https://example.org"),
    )
    hls = config.hls
    assert (hls.match, hls.part, hls.segment, hls.window) == (("live/*", "other/*"), 0.2, 4.0, 7200.0)
    assert hls.folder == tmp_path / "hls"
    assert hls.anonymous
    assert hls.sign_key is not None
    assert hls.sign_key.reveal() == "a-key-of-more-than-16-characters"
    assert hls.variants[0].names == ("a", "b")
    assert config.hls_limits.hls_bytes == 64 * 1024 * 1024
    assert config.http.listen is None
    assert config.http.media_listen is not None
    assert config.http.cors == ("https://example.org",)


def test_port_for_viewers_is_for_everybody_and_the_other_for_this_machine() -> None:
    config = configured("--http-media", ":8081", "--http-status", ":8080")
    assert "interface" not in (config.http.media_listen or "")
    assert "interface=127.0.0.1" in (config.http.listen or "")


def test_parts_can_be_switched_off() -> None:
    assert configured("--hls", "*", "--hls-part", "0", *MEDIA).hls.part == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--hls", "*"], "--hls needs --http-media or --http-status"),
        (["--hls", "*", "--hls-part", "50ms", *MEDIA], "--hls-part: '50ms' is not from 200ms to 1s"),
        (["--hls", "*", "--hls-part", "2s", *MEDIA], "--hls-part: '2s' is not from 200ms to 1s"),
        (["--hls", "*", "--hls-segment", "1m", *MEDIA], "--hls-segment: '1m' is too long"),
        (["--hls", "*", "--hls-window", "30", *MEDIA], "--hls-window: '30' is not a duration"),
        (["--hls", "*", "--hls-window", "2h", *MEDIA], "give --hls-dir, where segments are files"),
        (["--hls", "*", "--hls-variants", "live/*", *MEDIA], "--hls-variants: 'live/*' is not a group"),
        (
            ["--hls", "*", "--hls-sign-key", "secret-on-a-line", *MEDIA],
            "--hls-sign-key: a key on the command line",
        ),
        (
            ["--hls", "*", "--hls-sign-key", "file:none", *MEDIA],
            "--hls-sign-key: the file 'none' cannot be read",
        ),
        (["--http-media", ":99999"], "--http-media: 99999 is not a port"),
        (["--http-cors", "*"], "--http-cors needs --http-status or --http-media"),
    ],
)
def test_bad_option_is_refused_in_one_line(options: list[str], expected: str) -> None:
    message = refusal(*options)
    assert expected in message
    assert "secret-on-a-line" not in message
