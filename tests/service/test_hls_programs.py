"""HLS in programs that play it by themselves: VLC and GStreamer. They go on when the publisher comes back."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import av
import pytest

from tests.service.browser import until
from tests.service.command import Server
from tests.service.encoder import Encoder
from tests.service.interop import FFmpeg

pytestmark = pytest.mark.full

#: The user that VLC runs as: it refuses to be root.
NOBODY = 65534

needs_gstreamer = pytest.mark.skipif(
    shutil.which("gst-launch-1.0") is None,
    reason="there is no GStreamer: apt-get install gstreamer1.0-tools gstreamer1.0-plugins-good gstreamer1.0-plugins-bad gstreamer1.0-libav",
)
needs_vlc = pytest.mark.skipif(
    shutil.which("cvlc") is None, reason="there is no VLC: apt-get install vlc-bin vlc-plugin-base"
)


@pytest.fixture
def encoder(ffmpeg: FFmpeg, start_server: Callable[..., Server]) -> Iterator[Encoder]:
    encoder = Encoder(ffmpeg, start_server("--hls", "*", "--http-media", "127.0.0.1:0"))
    encoder.publish()
    encoder.until_ready()
    try:
        yield encoder
    finally:
        encoder.close()


@contextmanager
def running(command: list[str], log: Path, home: Path | None = None) -> Iterator[None]:
    """A program, as a user who is not root if it has a home of its own."""
    environment = {
        **os.environ,
        **({} if home is None else {"HOME": str(home), "XDG_RUNTIME_DIR": str(home)}),
    }
    user = NOBODY if home is not None and os.geteuid() == 0 else None
    with log.open("w") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environment,
            cwd="/",
            user=user,
            group=user,
        )
    try:
        yield
        assert process.poll() is None, log.read_text()[-2000:]
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def gstreamer_pictures(log: Path) -> list[float]:
    """When the pictures that were shown belong, in seconds."""
    found = re.findall(r"fakesink0:sink\) .*? pts: (\d+):(\d+):([\d.]+)", log.read_text())
    return [int(hours) * 3600 + int(minutes) * 60 + float(seconds) for hours, minutes, seconds in found]


@needs_gstreamer
def test_gstreamer_plays_and_goes_on_when_the_publisher_returns(encoder: Encoder, tmp_path: Path) -> None:
    log = tmp_path / "gstreamer.log"
    command = ["gst-launch-1.0", "-v", "playbin", f"uri={encoder.index}"]
    command += ["video-sink=fakesink silent=false sync=true", "audio-sink=fakesink sync=true"]
    with running(command, log):
        until(lambda: len(gstreamer_pictures(log)) > 150, "five seconds of pictures")
        encoder.lose()
        encoder.publish()
        before = len(gstreamer_pictures(log))
        until(lambda: len(gstreamer_pictures(log)) > before + 300, "ten seconds more", 90)
    times = gstreamer_pictures(log)
    assert times == sorted(times)
    # What the publisher did not send is not in the stream: its time goes on.
    assert max(later - earlier for earlier, later in pairwise(times)) < 1


def vlc_pictures(path: Path) -> list[float]:
    """When the pictures that were played belong, in seconds."""
    if not path.exists() or path.stat().st_size < 10_000:
        return []
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        packets = [packet.pts for packet in container.demux(stream) if packet.pts is not None]
        return [float(pts * (stream.time_base or 0)) for pts in packets]


@needs_vlc
def test_vlc_plays_and_goes_on_when_the_publisher_returns(encoder: Encoder, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    if os.geteuid() == 0:
        os.chown(home, NOBODY, NOBODY)
        for folder in tmp_path.parents[:-2]:
            folder.chmod(folder.stat().st_mode | 0o111)
        tmp_path.chmod(0o755)
    played = home / "played.ts"
    command = ["cvlc", "--no-color", "--sout", f"#std{{access=file,mux=ts,dst={played}}}", encoder.index]
    with running(command, tmp_path / "vlc.log", home):
        until(lambda: len(vlc_pictures(played)) > 150, "five seconds of pictures")
        encoder.lose()
        encoder.publish()
        before = len(vlc_pictures(played))
        until(lambda: len(vlc_pictures(played)) > before + 300, "ten seconds more", 90)
    times = vlc_pictures(played)
    assert times == sorted(times)
    assert max(later - earlier for earlier, later in pairwise(times)) < 1
