"""An encoder that comes and goes, and the HLS of what it publishes as viewers find it."""

from __future__ import annotations

import subprocess
import threading
import time
import urllib.error
import urllib.request
from urllib.parse import urljoin

from tests.hls.checker import PlaylistChecker, without_query
from tests.service.browser import until
from tests.service.command import Server
from tests.service.hls_crowd import after
from tests.service.interop import FFmpeg

MEDIA = (
    "-f lavfi -i testsrc2=s=320x180:r=30 -f lavfi -i sine=440:r=48000 -t 30"
    " -c:v libx264 -preset ultrafast -tune zerolatency -g 60 -sc_threshold 0 -pix_fmt yuv420p -b:v 400k -c:a aac"
)


#: Seconds after which a playlist that is awaited may come without what was asked for.
_LONG = 1.0


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
        self._follower: Follower | None = None

    def named(self, key: str) -> Encoder:
        """Another one, which publishes another stream to the same relay."""
        return Encoder(self._ffmpeg, self._server, key)

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
        if self._follower is None:
            self._follower = Follower(self.index)
        return self.index

    @property
    def longest_pause(self) -> float:
        """Seconds in which nothing new came, at most."""
        return 0.0 if self._follower is None else self._follower.longest_pause

    def close(self) -> None:
        """Publish no more. Every playlist that viewers could get kept the rules."""
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.close()
        self.lose()
        if follower is not None:
            follower.checker.assert_clean()


class Follower:
    """Reads every version of the playlists of a stream, as a player of low latency does, and checks them."""

    def __init__(self, index: str) -> None:
        self.checker = PlaylistChecker(without_query)
        #: Seconds in which nothing new came, at most.
        self.longest_pause = 0.0
        self._index = index
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """A playlist that is awaited comes within three target durations."""
        self._is_over.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "the relay does not answer"

    def _get(self, url: str) -> str:
        began = time.monotonic()
        with urllib.request.urlopen(url, timeout=30) as answer:
            text: str = answer.read().decode()
        found = self.checker.add(url, text)
        if time.monotonic() > began + _LONG:
            # The publisher is away: a request is answered within three target durations all the same.
            self.checker.broken = [
                one for one in self.checker.broken if one not in found or one.rule != "blocking"
            ]
        return text

    def _follow(self) -> None:
        url = urljoin(self._index, self._get(self._index).split()[-1])
        text = self._get(url)
        newest, new_at = after(url, text), time.monotonic()
        while not self._is_over.is_set() and "#EXT-X-ENDLIST" not in text:
            began = time.monotonic()
            text = self._get(newest)
            if after(url, text) != newest:
                newest = after(url, text)
                self.longest_pause = max(self.longest_pause, time.monotonic() - new_at)
                new_at = time.monotonic()
            # While the publisher is away, what is awaited does not come.
            self._is_over.wait(max(0.0, 0.1 - (time.monotonic() - began)))


def _segments(index: str) -> int:
    """How many are complete; 0 if there is no stream."""
    try:
        with urllib.request.urlopen(index, timeout=10) as answer:
            media = answer.read().decode().split()[-1]
        with urllib.request.urlopen(urljoin(index, media), timeout=10) as answer:
            return int(answer.read().count(b"#EXTINF"))
    except urllib.error.HTTPError:
        return 0
