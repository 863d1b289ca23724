"""The page to watch as people use it: a real browser, a real relay, a real ffmpeg."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import LOOPBACK
from tests.hls.broadcast import Broadcast as MadeUpBroadcast
from tests.service.browser import MISSING, Browser, until
from tests.service.command import Server
from tests.service.encoder import Encoder
from tests.service.interop import FFmpeg
from tests.service.page_probes import FAINT_TEXT

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"a browser is needed, and there is no {MISSING}")

#: A small moving picture and a tone, which the browser decodes with little effort.
MEDIA = (
    "-f lavfi -i testsrc2=s=320x180:r=25 -f lavfi -i sine=440:r=48000 -t 20"
    " -c:v libx264 -preset veryfast -tune zerolatency -g 25 -pix_fmt yuv420p -b:v 300k -c:a aac"
)

STATE = """
const video = document.getElementById("video");
const { buffered } = video;
return {
  state: document.getElementById("status").dataset.state,
  live: document.getElementById("live").dataset.at,
  latency: Number.parseFloat(/[0-9.]+/.exec(document.getElementById("latency").textContent)?.[0] ?? "NaN"),
  notice: document.getElementById("notice").hidden ? "" : document.getElementById("notice").textContent,
  time: video.currentTime,
  frames: video.getVideoPlaybackQuality().totalVideoFrames,
  paused: video.paused,
  muted: video.muted,
  source: video.src,
};
"""

#: Elements that are wider than the page.
TOO_WIDE = """
return [...document.querySelectorAll("body *")]
  .filter((each) => each.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
  .map((each) => each.id || each.tagName);
"""


class Broadcast:
    """A relay that sends HLS to viewers, and an encoder that comes and goes."""

    def __init__(self, folder: Path, ffmpeg: FFmpeg) -> None:
        self._ffmpeg = ffmpeg
        self._encoder: Encoder | None = None
        self.relay = Server(folder, "--hls", "*", "--hls-window", "12s", "--http-media", LOOPBACK)
        self.url = f"http://127.0.0.1:{self.relay.http_port()}"

    def publish(self, name: str = "film") -> None:
        """Publish with ffmpeg until `stop_publishing`."""
        self.stop_publishing()
        self._encoder = Encoder(self._ffmpeg, self.relay, f"live/{name}")
        self._encoder.publish(MEDIA, "watched.flv")

    def stop_publishing(self) -> None:
        if self._encoder is not None:
            self._encoder.lose()
            self._encoder = None

    def stop(self) -> None:
        self.stop_publishing()
        self.relay.stop()


@pytest.fixture(scope="module")
def broadcast(tmp_path_factory: pytest.TempPathFactory, ffmpeg: FFmpeg) -> Iterator[Broadcast]:
    """One relay for all tests of this file."""
    broadcast = Broadcast(tmp_path_factory.mktemp("broadcast"), ffmpeg)
    try:
        yield broadcast
    finally:
        broadcast.stop()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of this file."""
    browser = Browser(tmp_path_factory.mktemp("browser"))
    try:
        browser.resize(1280, 800)
        yield browser
    finally:
        browser.quit()


def look(page: Browser) -> dict[str, Any]:
    found: dict[str, Any] = page.run(STATE)
    return found


def wait_for(page: Browser, what: str, **wanted: Any) -> dict[str, Any]:
    """Wait until the page is in a state, and return all of it."""

    def reached() -> dict[str, Any] | None:
        found = look(page)
        return found if all(found[name] == value for name, value in wanted.items()) else None

    return until(reached, what)


def wait_for_frames(page: Browser, count: int) -> dict[str, Any]:
    """Wait until so many more pictures were shown."""
    before = look(page)["frames"]

    def shown() -> dict[str, Any] | None:
        found = look(page)
        return found if found["frames"] >= before + count else None

    return until(shown, f"{count} more pictures")


def test_page_says_that_a_stream_is_not_live_and_begins_when_it_is(
    page: Browser, broadcast: Broadcast
) -> None:
    page.open(f"{broadcast.url}/live/film/")
    found = wait_for(page, "a page that waits", state="offline")
    assert "not live now" in found["notice"]
    assert page.text("#name") == "film"
    broadcast.publish()
    found = wait_for(page, "a page that plays", state="playing", live="edge", paused=False)
    assert found["notice"] == ""
    found = wait_for_frames(page, 25)
    # The relay says where players are to be: three parts of a third of a second from the end.
    assert 0.5 < found["latency"] < 3


@pytest.mark.full
def test_viewer_can_go_back_in_the_window_and_to_live_again(page: Browser, broadcast: Broadcast) -> None:
    until(lambda: page.run("return document.getElementById('seek').max > 9") or None, "a window")
    page.run(
        "const seek = document.getElementById('seek'); seek.value = Number(seek.max) - 7;"
        " seek.dispatchEvent(new Event('change'))"
    )
    wait_for(page, "an older picture", state="playing", live="behind")
    found = wait_for_frames(page, 15)
    assert found["live"] == "behind"
    end = page.run("return Number(document.getElementById('seek').max)")
    assert 4 < end - found["time"] < 12
    page.click("#live")
    wait_for(page, "the live edge", state="playing", live="edge")
    found = wait_for_frames(page, 10)
    assert found["latency"] < 3


def test_buttons_and_keys_pause_and_mute(page: Browser, broadcast: Broadcast) -> None:
    page.click("#play")
    wait_for(page, "a pause", paused=True)
    page.click("#play")
    wait_for(page, "no pause", paused=False)
    page.click("#mute")
    wait_for(page, "silence", muted=True)
    page.run("document.dispatchEvent(new KeyboardEvent('keydown', { key: 'm', bubbles: true }))")
    wait_for(page, "sound", muted=False)
    page.click("#live")
    wait_for(page, "the live edge", live="edge")


def test_page_goes_on_when_the_publisher_comes_back(page: Browser, broadcast: Broadcast) -> None:
    """Without a new media source: it is the same broadcast, whoever publishes it."""
    before = wait_for_frames(page, 5)
    broadcast.stop_publishing()
    found = wait_for(page, "a page that waits for the publisher", state="waiting")
    assert "away" in found["notice"]
    broadcast.publish()
    wait_for(page, "a page that plays", state="playing")
    after = wait_for_frames(page, 25)
    assert after["source"] == before["source"]
    assert after["time"] > before["time"]
    assert after["notice"] == ""


def test_page_fits_a_phone_and_can_be_read_in_the_dark(page: Browser, broadcast: Broadcast) -> None:
    page.resize(390, 760)
    try:
        for colours in ("dark", "light"):
            page.emulate_media({"prefers-color-scheme": colours})
            wait_for(page, "a page that plays", state="playing")
            assert page.run(TOO_WIDE) == []
            assert page.run(FAINT_TEXT) == []
    finally:
        page.resize(1280, 800)
        page.emulate_media({"prefers-color-scheme": "light"})


@pytest.mark.full
def test_page_says_that_a_stream_has_ended_and_begins_with_the_next_one(
    page: Browser, broadcast: Broadcast
) -> None:
    broadcast.publish("short")
    page.open(f"{broadcast.url}/live/short/")
    before = wait_for(page, "a page that plays", state="playing")
    broadcast.stop_publishing()
    # After the window of 12 s nobody waits for the publisher any more.
    wait_for(page, "the end", state="ended")
    page.open(f"{broadcast.url}/live/short/")
    found = wait_for(page, "the end for those who come later", state="ended")
    assert found["frames"] == 0
    broadcast.publish("short")
    after = wait_for(page, "a page that plays", state="playing")
    assert after["source"] != before["source"]
    wait_for_frames(page, 10)


def test_browser_reports_no_mistake_of_the_page(page: Browser, broadcast: Broadcast) -> None:
    """Streams that are not there are 404: the browser tells these by itself, and the page cannot keep it from that."""
    complaints = [one for one in page.complaints() if not re.search(r"status of (404|410|503)", one)]
    assert complaints == []


def test_page_is_sent_without_a_word_about_the_relay_inside(broadcast: Broadcast) -> None:
    with urllib.request.urlopen(f"{broadcast.url}/live/film/", timeout=10) as answer:
        policy = answer.headers["Content-Security-Policy"]
    assert "unsafe-inline" not in policy
    assert "Traceback" not in broadcast.relay.text()


READ = """
const [text, delta] = arguments;
return import("/assets/hls_playlist.js").then(({ readMedia }) => {
  const plain = (playlist) => playlist && playlist.segments.map((one) => [one.number, one.domain, one.url, one.map]);
  const before = readMedia(text, "http://relay/live/film/");
  return [plain(before), plain(readMedia(delta, "http://relay/live/film/", before)), readMedia(delta, "http://relay/")];
});
"""


def test_page_understands_delta_updates(page: Browser, broadcast: Broadcast) -> None:
    """A window of hours would be sent three times a second without them."""
    page.open(f"{broadcast.url}/live/film/")
    made = MadeUpBroadcast()
    before, whole, _ = page.run(READ, made.playlist(30, 1), made.playlist(30, 2))
    _, merged, alone = page.run(READ, made.playlist(30, 1), made.playlist(30, 2, skip=True))
    assert merged == whole
    assert len(before) == 13
    assert alone is None


def test_browser_plays_a_clip_as_a_plain_file(page: Browser, broadcast: Broadcast) -> None:
    """It asks for parts of the file, as phones do."""
    broadcast.publish()
    page.open(f"{broadcast.url}/live/film/")
    wait_for(page, "a page that plays", state="playing")
    until(lambda: page.run("return document.getElementById('seek').max > 5") or None, "a window")
    page.run(
        "const clip = document.createElement('video'); clip.id = 'clip'; clip.muted = true;"
        " clip.src = 'clip.mp4?last=4s'; document.body.append(clip); clip.play().catch(() => {})"
    )
    state = "const clip = document.getElementById('clip'); return [clip.currentTime, clip.duration, clip.error?.message]"

    def played() -> list[Any] | None:
        found: list[Any] = page.run(state)
        assert found[2] is None
        return found if found[0] > 1 else None

    _, duration, _ = until(played, "a clip that plays")
    # The encoder may have begun less than four seconds ago; what is older than that is not asked for.
    assert 0.9 < duration < 9
