"""An encoder that comes and goes, and the HLS of what it publishes as viewers find it."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from urllib.parse import urljoin

from tests.service.browser import until
from tests.service.command import Server
from tests.service.interop import FFmpeg

MEDIA = (
    "-f lavfi -i testsrc2=s=320x180:r=30 -f lavfi -i sine=440:r=48000 -t 30"
    " -c:v libx264 -preset ultrafast -tune zerolatency -g 60 -sc_threshold 0 -pix_fmt yuv420p -b:v 400k -c:a aac"
)


class Encoder:
    """Publishes a file over and over, until it is lost.

    Args:
        server: Where it publishes.
        key: What.
    """

    def __init__(self, ffmpeg: FFmpeg, server: Server, key: str = "live/film") -> None:
        self._ffmpeg = ffmpeg
        self._server = server
        self._key = key
        self._process: subprocess.Popen[bytes] | None = None

    def publish(self, media: str = MEDIA, name: str = "encoded.flv") -> None:
        """Publish media that ffmpeg makes once for all tests."""
        self.lose()
        source = self._ffmpeg.make(name, media)
        command = [self._ffmpeg.program, "-v", "error", "-re", "-stream_loop", "-1", "-i", str(source)]
        command += ["-c", "copy", "-f", "flv", f"rtmp://127.0.0.1:{self._server.port()}/{self._key}"]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def lose(self) -> None:
        """Without a goodbye."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def index(self) -> str:
        """Where viewers begin."""
        return f"http://127.0.0.1:{self._server.http_port()}/{self._key}/index.m3u8"

    def until_ready(self, segments: int = 1) -> str:
        """Wait until a playlist has so many segments; where viewers begin."""
        until(lambda: _segments(self.index) >= segments, f"{segments} segments")
        return self.index


def _segments(index: str) -> int:
    """How many are complete; 0 if there is no stream."""
    try:
        with urllib.request.urlopen(index, timeout=10) as answer:
            media = answer.read().decode().split()[-1]
        with urllib.request.urlopen(urljoin(index, media), timeout=10) as answer:
            return int(answer.read().count(b"#EXTINF"))
    except urllib.error.HTTPError:
        return 0
