"""HLS in a real browser with hls.js: it plays, stays near the encoder, and goes on when the publisher comes back."""

from __future__ import annotations

import statistics
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.browser import MISSING, Browser, until
from tests.service.command import Server
from tests.service.hls_js import PlayerPage, library
from tests.service.interop import FFmpeg
from tests.service.test_dashboard_browser import listening

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(bool(MISSING), reason=f"a browser is needed, and there is no {MISSING}"),
]

#: 1.6 dies of discontinuities at the live edge; a publisher that returns makes none here.
VERSIONS = ["1.7.4", "1.6.16"]

MEDIA = (
    "-f lavfi -i testsrc2=s=320x180:r=30 -f lavfi -i sine=440:r=48000 -t 120"
    " -c:v libx264 -preset ultrafast -tune zerolatency -g 60 -sc_threshold 0 -pix_fmt yuv420p -b:v 400k -c:a aac"
)
OTHER_MEDIA = MEDIA.replace("320x180", "640x360")

STATE = """
return { time: document.querySelector("video").currentTime, fatal, errors, stalls, first, behind };
"""


class World:
    """A relay with HLS, a publisher, and a page that watches."""

    def __init__(self, ffmpeg: FFmpeg, server: Server, browser: Browser, page: PlayerPage) -> None:
        self.ffmpeg = ffmpeg
        self.server = server
        self.browser = browser
        self.page = page
        self._publisher: subprocess.Popen[bytes] | None = None

    def publish(self, media: str = MEDIA, name: str = "hls_page.flv") -> None:
        source = self.ffmpeg.make(name, media)
        url = f"rtmp://127.0.0.1:{listening(self.server, 'RTMP')}/live/film"
        command = [
            self.ffmpeg.program,
            "-v",
            "error",
            "-re",
            "-i",
            str(source),
            "-c",
            "copy",
            "-f",
            "flv",
            url,
        ]
        self._publisher = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def lose_publisher(self) -> None:
        if self._publisher is not None:
            self._publisher.kill()
            self._publisher.wait()
            self._publisher = None

    def watch(self) -> None:
        url = f"http://127.0.0.1:{listening(self.server, 'HTTP')}/live/film/index.m3u8"
        # hls.js gives up for good if the stream is not there yet.
        until(lambda: is_there(url), "the playlist")
        self.browser.open(self.page.url(url))

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self.browser.run(STATE)
        assert found["fatal"] == [], found
        return found

    def until_played(self, seconds: float) -> dict[str, Any]:
        """Wait until so many seconds more have been shown."""
        begin = self.state["time"]
        until(lambda: self.state["time"] > begin + seconds, f"{seconds} s more of the stream")
        return self.state


def is_there(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10):
            return True
    except urllib.error.HTTPError:
        return False


@pytest.fixture(params=VERSIONS)
def world(
    request: pytest.FixtureRequest,
    ffmpeg: FFmpeg,
    start_server: Callable[..., Server],
    tmp_path: Path,
) -> Iterator[World]:
    page = PlayerPage(library(request.param, tmp_path))
    server = start_server("--hls", "*", "--http-media", "127.0.0.1:0", "--http-cors", page.origin)
    browser = Browser(tmp_path)
    made = World(ffmpeg, server, browser, page)
    try:
        yield made
    finally:
        made.lose_publisher()
        browser.quit()
        page.close()


def test_page_plays_near_the_encoder(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.publish()
    world.watch()
    until(lambda: world.state["first"] is not None, "the first picture")
    world.until_played(5)
    state = world.until_played(8)
    behind = state["behind"][len(state["behind"]) // 2 :]
    with capsys.disabled():
        print(  # noqa: T201
            f"\nhls.js: first picture after {state['first']:.0f} ms, {statistics.median(behind):.2f} s behind,"
            f" p95 {statistics.quantiles(behind, n=20)[-1]:.2f} s, {state['stalls']} stalls"
        )
    # It plays parts as they come, and not whole segments.
    parts = world.browser.run(
        "return performance.getEntriesByType('resource').filter((one) => one.name.includes('/p-')).length"
    )
    assert parts > 20


def test_viewer_goes_on_when_the_publisher_returns(world: World) -> None:
    world.publish()
    world.watch()
    until(lambda: world.state["first"] is not None, "the first picture")
    world.until_played(3)
    world.lose_publisher()
    world.publish()
    world.until_played(8)


def test_viewer_goes_on_with_another_size_of_pictures(world: World, request: pytest.FixtureRequest) -> None:
    if "1.6" in request.node.name:
        pytest.skip("hls.js 1.6 stops at a discontinuity (video-dev/hls.js#7962)")
    world.publish()
    world.watch()
    until(lambda: world.state["first"] is not None, "the first picture")
    world.until_played(3)
    world.lose_publisher()
    world.publish(OTHER_MEDIA, "hls_page_large.flv")
    world.until_played(8)
    size = world.browser.run("return document.querySelector('video').videoWidth")
    assert size == 640
