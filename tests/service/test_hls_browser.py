"""HLS in real browsers with the players of others: they play near the encoder, and go on when the publisher comes back."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.browser import MISSING, Browser, until
from tests.service.command import Server
from tests.service.encoder import MEDIA, Encoder
from tests.service.firefox import FIREFOX, Firefox
from tests.service.interop import FFmpeg
from tests.service.web_players import HLS_JS, OLD_HLS_JS, SHAKA, PlayerPage

pytestmark = pytest.mark.full

CHROMIUM = pytest.mark.skipif(bool(MISSING), reason=f"a browser is needed, and there is no {MISSING}")
FOX = pytest.mark.skipif(FIREFOX is None, reason="there is no Firefox: apt-get install firefox-esr")

WORLDS = [
    pytest.param((HLS_JS, Browser, "333ms"), id="hls.js 1.7-chromium", marks=CHROMIUM),
    pytest.param((OLD_HLS_JS, Browser, "333ms"), id="hls.js 1.6-chromium", marks=CHROMIUM),
    pytest.param((SHAKA, Browser, "333ms"), id="shaka-chromium", marks=CHROMIUM),
    pytest.param((HLS_JS, Firefox, "333ms"), id="hls.js 1.7-firefox", marks=FOX),
    pytest.param((SHAKA, Firefox, "333ms"), id="shaka-firefox", marks=FOX),
]
SHORT_PARTS = pytest.param(
    (HLS_JS, Browser, "200ms"), id="hls.js 1.7-chromium, parts of 200 ms", marks=CHROMIUM
)
#: hls.js 1.6 stops at a discontinuity (video-dev/hls.js#7962).
WITH_DISCONTINUITIES = [world for world in WORLDS if "1.6" not in str(world.id)]
ONE = WORLDS[:1]

LARGER = MEDIA.replace("320x180", "640x360")
OTHER_CODEC = MEDIA.replace(
    "-c:v libx264 -preset ultrafast -tune zerolatency",
    "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -lag-in-frames 0",
)

#: Sessions that watch while the publisher comes and goes, and how often it does.
SESSIONS = 20
RESTARTS = 3

#: Seconds of media that a player of low latency has left while nothing comes.
HELD_BACK = 0.8

#: Seconds that somebody watches without a stall; 600 show what is promised.
WATCHED = float(os.environ.get("RTMPRELAY_TEST_WATCHED_SECONDS", "45"))


class World:
    """A relay with HLS, a publisher, and a page that watches."""

    def __init__(self, encoder: Encoder, browser: Browser | Firefox, page: PlayerPage) -> None:
        self.encoder = encoder
        self.browser = browser
        self._page = page

    def watch(self, players: int = 1) -> None:
        """Publish, and watch when there is something: players give up for good if the stream is not there yet."""
        self.encoder.publish()
        self.watch_at(self.encoder.until_ready(self._page.player.segments), players)

    def watch_at(self, index: str, players: int = 1) -> None:
        """Watch what is there."""
        self.browser.open(self._page.url(index, players))
        until(lambda: all(one["first"] is not None for one in self.look()), "the first picture")

    def look(self) -> list[dict[str, Any]]:
        """What each player has seen."""
        found: list[dict[str, Any]] = self.browser.run("return look()")
        assert [one["fatal"] for one in found] == [[]] * len(found), found
        return found

    def until_shown(self, pictures: int) -> list[dict[str, Any]]:
        """Wait until each player has shown so many pictures more."""
        before = [one["frames"] for one in self.look()]

        def shown() -> list[dict[str, Any]] | None:
            found = self.look()
            enough = (one["frames"] >= old + pictures for one, old in zip(found, before, strict=True))
            return found if all(enough) else None

        return until(shown, f"{pictures} more pictures", 90)


@pytest.fixture
def world(
    request: pytest.FixtureRequest, ffmpeg: FFmpeg, start_server: Callable[..., Server], tmp_path: Path
) -> Iterator[World]:
    player, browser_type, part = request.param
    page = PlayerPage(player, tmp_path)
    options = ("--hls", "*", "--hls-variants", "live/*_{low,high}", "--http-media", "127.0.0.1:0")
    server = start_server(*options, "--hls-part", part, "--http-cors", page.origin)
    browser = browser_type(tmp_path)
    encoder = Encoder(ffmpeg, server)
    try:
        yield World(encoder, browser, page)
    finally:
        browser.quit()
        page.close()
        encoder.close()


@pytest.mark.parametrize("world", [*WORLDS, SHORT_PARTS], indirect=True)
def test_page_plays_near_the_encoder(
    world: World, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    world.watch()
    (state,) = world.until_shown(360)
    behind = state["behind"][len(state["behind"]) // 2 :]
    with capsys.disabled():
        print(  # noqa: T201
            f"\n{request.node.callspec.id}: first picture after {state['first']:.0f} ms,"
            f" {statistics.median(behind):.2f} s behind, p95 {statistics.quantiles(behind, n=20)[-1]:.2f} s,"
            f" {state['stalls']} stalls"
        )
    # It plays parts as they come, and not whole segments.
    parts = world.browser.run(
        "return performance.getEntriesByType('resource').filter((one) => one.name.includes('/p-')).length"
    )
    assert parts > 20


@pytest.mark.parametrize("world", WORLDS, indirect=True)
def test_viewer_goes_on_when_the_publisher_returns(world: World) -> None:
    world.watch()
    world.until_shown(60)
    world.encoder.lose()
    world.encoder.publish()
    world.until_shown(240)


@pytest.mark.parametrize("world", WITH_DISCONTINUITIES, indirect=True)
def test_viewer_goes_on_with_another_size_of_pictures(world: World) -> None:
    world.watch()
    world.until_shown(60)
    world.encoder.lose()
    world.encoder.publish(LARGER, "hls_page_large.flv")
    (state,) = world.until_shown(240)
    assert state["width"] == 640


@pytest.mark.parametrize("world", ONE, indirect=True)
def test_all_of_twenty_sessions_go_on_each_time_the_publisher_returns(world: World) -> None:
    world.watch(SESSIONS)
    for _ in range(RESTARTS):
        world.until_shown(60)
        world.encoder.lose()
        world.encoder.publish()
    assert len(world.until_shown(120)) == SESSIONS


@pytest.mark.parametrize("world", ONE, indirect=True)
@pytest.mark.parametrize(
    ("media", "name"),
    [(LARGER, "hls_page_large.flv"), (OTHER_CODEC, "hls_page_vp9.flv")],
    ids=["size", "codec"],
)
def test_all_of_twenty_sessions_go_on_with_what_another_encoder_sends(
    world: World, media: str, name: str
) -> None:
    world.watch(SESSIONS)
    world.until_shown(60)
    world.encoder.lose()
    world.encoder.publish(media, name)
    assert len(world.until_shown(240)) == SESSIONS


@pytest.mark.parametrize("world", ONE, indirect=True)
def test_viewer_changes_between_streams_that_are_variants(world: World) -> None:
    low, high = (world.encoder.named(f"live/show_{name}") for name in ("low", "high"))
    try:
        low.publish()
        high.publish(LARGER, "hls_page_large.flv")
        for one in (low, high):
            one.until_ready()
        world.watch_at(low.index.replace("show_low", "show"))
        for width, number in ((640, 1), (320, 0), (640, 1)):
            world.browser.run(f"document.querySelector('video').player.nextLevel = {number}")
            until(lambda wanted=width: world.look()[0]["width"] == wanted or None, f"{width} pixels")  # type: ignore[misc]
        world.until_shown(60)
    finally:
        low.close()
        high.close()


@pytest.mark.parametrize("world", ONE, indirect=True)
def test_nothing_stalls(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """As long as the machine keeps up: neither the encoder nor the browser may be kept from working."""
    world.watch()
    world.until_shown(60)
    (before,) = world.look()
    began = time.monotonic()
    while time.monotonic() < began + WATCHED:
        world.until_shown(30)
    (after,) = world.look()
    behind = after["behind"][len(before["behind"]) :]
    stalls = after["stalls"] - before["stalls"]
    with capsys.disabled():
        print(  # noqa: T201
            f"\nhls.js, {WATCHED:.0f} s: {stalls} stalls, {statistics.median(behind):.2f} s behind,"
            f" p95 {statistics.quantiles(behind, n=20)[-1]:.2f} s, {len(after['errors'])} errors it went over"
        )
    longest = max(world.encoder.longest_pause, after["pause"] / 1000)
    if stalls and longest > HELD_BACK:
        pytest.skip(
            f"the machine was too busy: for {longest:.1f} s nothing was sent, or the browser did nothing"
        )
    assert stalls == 0
