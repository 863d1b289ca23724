"""A window on the disk, and a relay that is killed."""

from __future__ import annotations

import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urljoin

import pytest

from tests.hls.playlist import read_playlist
from tests.service.command import Server
from tests.service.encoder import Encoder
from tests.service.interop import FFmpeg

pytestmark = pytest.mark.full


def read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=20) as answer:
        data: bytes = answer.read()
    return data


def media_of(index: str) -> dict[str, bytes]:
    """The segments that can be watched, by the name that the playlist has for each."""
    url = urljoin(index, read_playlist(read(index).decode()).variants[0][1])
    segments = read_playlist(read(url).decode()).complete_segments
    return {segment.uri: read(urljoin(url, segment.uri)) for segment in segments if segment.uri}


def test_viewers_can_go_back_to_what_was_sent_before_the_relay_was_killed(
    ffmpeg: FFmpeg, start_server: Callable[..., Server], tmp_path: Path
) -> None:
    options = ("--hls", "*", "--hls-window", "2h", "--hls-dir", str(tmp_path / "window"))
    killed = start_server(*options, "--http-media", "127.0.0.1:0")
    encoder = Encoder(ffmpeg, killed)
    encoder.publish()
    before = media_of(encoder.until_ready(4))
    assert len(before) >= 4
    encoder.close()
    killed.stop(signal.SIGKILL)
    encoder = Encoder(ffmpeg, start_server(*options, "--http-media", "127.0.0.1:0"))
    encoder.publish()
    try:
        after = media_of(encoder.until_ready(len(before) + 2))
    finally:
        encoder.close()
    *on_disk, newest = before
    assert [name for name in after if name in before][: len(on_disk)] == on_disk
    # The newest one may be lost, but caches have it: its name stands for nothing else.
    assert all(after[name] == before[name] for name in (*on_disk, newest) if name in after)
