"""The dashboard as an operator uses it: a real browser, a real relay with two destinations, a real ffmpeg."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from rtmprelay.session.reports import PublishAccepted
from tests.helpers import LOOPBACK, keyframe, start_frames
from tests.service.browser import MISSING, Browser, until
from tests.service.command import BlockingClient, Server
from tests.service.interop import FFmpeg

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"a browser is needed, and there is no {MISSING}")

TOKEN = "token-that-opens"
KEY = "KEY-that-must-stay-secret"

#: A small moving picture and a tone, which the browser decodes with little effort.
MEDIA = (
    "-f lavfi -i testsrc2=s=320x180:r=25 -f lavfi -i sine=440:r=48000 -t 20"
    " -c:v libx264 -preset veryfast -g 25 -pix_fmt yuv420p -b:v 400k -c:a aac"
)

HARMFUL = "<img src=x onerror=window.harmed=1>"

VIDEO = """
const video = document.querySelector("video");
const { buffered } = video;
return {
  time: video.currentTime,
  frames: video.getVideoPlaybackQuality().totalVideoFrames,
  behind: buffered.length ? buffered.end(buffered.length - 1) - video.currentTime : null,
};
"""


def listening(server: Server, protocol: str) -> int:
    """The port of a protocol in the log of a server."""

    def found() -> re.Match[str] | None:
        assert server.process.poll() is None, server.text()
        return re.search(rf"Listening on 127\.0\.0\.1:(\d+) for {protocol}", server.text())

    return int(until(found, f"listening for {protocol}")[1])


class LiveEvent:
    """A relay with a publisher and two destinations, both on a second server."""

    def __init__(self, folder: Path, ffmpeg: FFmpeg) -> None:
        self._folder = folder
        self._ffmpeg = ffmpeg
        self._media = ffmpeg.make("dashboard.flv", MEDIA)
        self._publisher: subprocess.Popen[bytes] | None = None
        (folder / "sink").mkdir()
        self.sink = Server(folder / "sink")
        self.config = folder / "relay.json"
        places = [self.place(name) | {"name": name} for name in ("first", "second")]
        self.config.write_text(json.dumps({"destinations": places}))
        self.relay = self._start(LOOPBACK)
        self.http_port = listening(self.relay, "HTTP")
        self.url = f"http://127.0.0.1:{self.http_port}/"

    def _start(self, http: str) -> Server:
        options = ("--http-status", http, "--http-token", TOKEN, "--relay-config", str(self.config))
        recording = ("--record-all", "--http-recordings", "--record-dir", str(self._folder / "recordings"))
        return Server(self._folder, *options, *recording)

    def place(self, name: str) -> dict[str, str]:
        """The address and the key of a destination."""
        return {"url": f"rtmp://127.0.0.1:{self.sink_port}/live", "stream_key": f"{KEY}-{name}"}

    @property
    def sink_port(self) -> int:
        return listening(self.sink, "RTMP")

    @property
    def rtmp_port(self) -> int:
        return listening(self.relay, "RTMP")

    def publish(self) -> None:
        """Publish with ffmpeg until `stop_publishing`."""
        self.stop_publishing()
        command = [self._ffmpeg.program, "-v", "error", "-re", "-stream_loop", "-1", "-i", str(self._media)]
        command += ["-c", "copy", "-f", "flv", f"rtmp://127.0.0.1:{self.rtmp_port}/live/concert"]
        self._publisher = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop_publishing(self) -> None:
        if self._publisher is not None:
            self._publisher.kill()
            self._publisher.wait()
            self._publisher = None

    def stop_relay(self) -> None:
        self.relay.stop()

    def start_relay_again(self) -> None:
        """Start the relay again on the same HTTP port."""
        self.relay = self._start(f"tcp:{self.http_port}:interface=127.0.0.1")
        assert listening(self.relay, "HTTP") == self.http_port

    def metric(self, name: str) -> float:
        """One sample of /metrics."""
        with urllib.request.urlopen(f"{self.url}metrics", timeout=10) as answer:
            lines = dict(
                line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[0] != "#"
            )
        return float(lines[name])

    def stop(self) -> None:
        self.stop_publishing()
        self.relay.stop()
        self.sink.stop()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, ffmpeg: FFmpeg) -> Iterator[LiveEvent]:
    """One relay for all tests of this file."""
    event = LiveEvent(tmp_path_factory.mktemp("event"), ffmpeg)
    try:
        event.publish()
        yield event
    finally:
        event.stop()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, live: LiveEvent) -> Iterator[Browser]:
    """The page, open all the time."""
    browser = Browser(tmp_path_factory.mktemp("browser"))
    try:
        # Without animations, so that clicks hit their targets.
        browser.emulate_media({"prefers-reduced-motion": "reduce"})
        browser.resize(1280, 900)
        browser.open(live.url)
        wait_for_word(browser, STREAM, "Live")
        wait_for_word(browser, card("destination", "first"), "Connected")
        wait_for_word(browser, card("destination", "second"), "Connected")
        yield browser
    finally:
        browser.quit()


def card(kind: str, key: str) -> str:
    """The selector of a card."""
    return f".{kind}[data-key='{key}']"


STREAM = card("stream", "live/concert")


def word(page: Browser, selector: str) -> str:
    """The state that a card shows, if it is there."""
    return page.text(f"{selector} [data-part=badgeWord]") if page.count(selector) else ""


def wait_for_word(page: Browser, selector: str, wanted: str) -> None:
    """Wait until a card is there and shows this state."""
    until(lambda: word(page, selector) == wanted, f"{selector}: {wanted}")


def unlock(page: Browser) -> None:
    """Enter the token, unless that was done already."""
    if not page.count(".controls"):
        page.click("#unlock")
        page.type("#unlock-dialog [name=token]", TOKEN)
        page.click("#unlock-dialog [type=submit]")
        until(lambda: page.count(".controls"), "the controls")


def wait_for_images(page: Browser, selector: str, wanted: int) -> int:
    """Wait until a canvas has shown so many different images, and return their number."""
    seen: set[str] = set()

    def enough() -> bool:
        seen.add(page.run("return document.querySelector(arguments[0]).toDataURL()", selector))
        return len(seen) >= wanted

    until(enough, f"{wanted} images")
    return len(seen)


def hide(page: Browser, hidden: bool) -> None:
    """Make the page believe that it is hidden or visible."""
    page.run(
        "Object.defineProperty(document, 'hidden', { value: arguments[0], configurable: true });"
        "document.dispatchEvent(new Event('visibilitychange'))",
        hidden,
    )


def test_page_shows_the_stream_and_both_destinations(page: Browser, live: LiveEvent) -> None:
    assert word(page, STREAM) == "Live"
    until(lambda: page.text(f"{STREAM} [data-part=rate]") != "\u2013", "the bitrate")
    media = "H.264 320\u00d7180 · AAC 48 kHz mono"
    until(lambda: page.text(f"{STREAM} .media") == media, "the codecs")
    until(lambda: page.text(f"{STREAM} [data-part=keyframes]") == "1.0 s", "the keyframe interval")
    until(lambda: page.text(f"{STREAM} [data-part=fps]").startswith("25"), "the measured frame rate")
    until(lambda: page.text(f"{STREAM} [data-part=recording]") == "Recording", "the recording")
    until(lambda: page.text(f"{STREAM} .chips") == "first\nsecond", "the destinations")
    until(lambda: page.text("#total-connected") == "2", "the count")
    until(lambda: "publish of live/concert" in page.text("#events ol").lower(), "the event")
    assert page.text("#connection-word") == "Connected"
    # The addresses are those of this relay, whatever its port.
    page.click(f"{STREAM} [data-part=links]")
    assert page.text(f"{STREAM} [data-part=rtmpLink]") == f"rtmp://127.0.0.1:{live.rtmp_port}/live/concert"
    page.click(f"{STREAM} [data-part=links]")
    assert page.complaints() == []


def test_page_has_no_controls_without_the_token(page: Browser) -> None:
    assert page.count(".controls, .kick") == 0
    assert page.run("return document.getElementById('add-destination').checkVisibility()") is False


def test_plots_show_new_samples(page: Browser) -> None:
    for selector in (STREAM, card("destination", "first")):
        page.run("document.querySelector(arguments[0]).scrollIntoView()", selector)
        assert wait_for_images(page, f"{selector} .plot canvas", 4) == 4
    page.run("scrollTo(0, 0)")


@pytest.mark.full
def test_preview_plays_near_the_live_edge_and_downloads_only_while_visible(
    page: Browser, live: LiveEvent
) -> None:
    watching = 'rtmprelay_players{kind="mp4"}'
    page.click(f"{STREAM} [data-part=preview]")
    until(lambda: page.run(VIDEO)["time"] > 0, "the first picture")
    before = page.run(VIDEO)
    until(lambda: page.run(VIDEO)["time"] > before["time"] + 2, "two more seconds")
    until(lambda: page.run(VIDEO)["frames"] > before["frames"] + 20, "twenty more pictures")
    until(lambda: page.run(VIDEO)["behind"] < 3, "the live edge")
    assert live.metric(watching) == 1
    # Going back to the beginning: the player catches up.
    page.run("const video = document.querySelector('video'); video.currentTime = video.buffered.start(0)")
    until(lambda: page.run(VIDEO)["behind"] < 2, "the live edge")
    hide(page, True)
    until(lambda: live.metric(watching) == 0, "the end of the download while the page is hidden")
    hide(page, False)
    until(lambda: live.metric(watching) == 1, "the new download")
    page.click(f"{STREAM} [data-part=preview]")
    until(lambda: live.metric(watching) == 0, "the end of the download")
    assert page.count("video[src]") == 0
    assert page.complaints() == []


def test_plain_video_element_plays_the_stream(page: Browser, live: LiveEvent) -> None:
    """As in a page that somebody else wrote."""
    page.run(
        "const video = document.createElement('video'); video.id = 'plain'; video.muted = true;"
        "video.src = '/live/concert.mp4'; document.body.append(video); video.play()"
    )
    time = "return document.getElementById('plain').currentTime"
    until(lambda: page.run(time) > 0, "the first picture")
    begun = page.run(time)
    until(lambda: page.run(time) > begun + 1, "one more second")
    assert page.run("return document.getElementById('plain').videoWidth") == 320
    page.run(
        "const video = document.getElementById('plain'); video.removeAttribute('src'); video.load(); video.remove()"
    )
    until(lambda: live.metric('rtmprelay_players{kind="mp4"}') == 0, "the end of the download")
    assert page.complaints() == []


def test_destination_is_added_and_removed_by_clicking(page: Browser, live: LiveEvent) -> None:
    """Lastingly: it is written to the configuration file. Its key is not in the page."""
    unlock(page)
    place = live.place("third")
    page.click("#add-destination")
    for field, value in (("name", "third"), ("url", place["url"]), ("stream_key", place["stream_key"])):
        page.type(f"#add-dialog [name={field}]", value)
    page.click("#add-dialog [name=lasting]")
    page.click("#add-dialog [type=submit]")
    third = card("destination", "third")
    wait_for_word(page, third, "Connected")
    assert "third" in live.config.read_text()
    assert KEY not in page.run("return document.documentElement.outerHTML")

    page.click("#add-destination")
    page.type("#add-dialog [name=name]", "third")
    page.type("#add-dialog [name=url]", place["url"])
    page.click("#add-dialog [type=submit]")
    until(
        lambda: "third" in page.text("#add-dialog [role=alert]"), "the refusal of a second one of this name"
    )
    page.click("#add-dialog [data-close]")
    assert all("409" in line for line in page.complaints())

    page.click(f"{third} [data-part=enable]")
    wait_for_word(page, third, "Disabled")
    page.click(f"{third} [data-part=enable]")
    wait_for_word(page, third, "Connected")
    page.click(f"{third} [data-part=reconnect]")
    until(lambda: page.text(f"{third} [data-part=reconnects]") != "0", "the reconnection")

    page.click(f"{third} [data-part=remove]")
    page.click("#confirm-dialog [type=submit]")
    until(lambda: page.count(third) == 0, "the removal")
    assert "third" not in live.config.read_text()
    assert page.complaints() == []


def test_recording_is_stopped_played_and_started_again(page: Browser) -> None:
    unlock(page)
    until(lambda: page.count(f"{STREAM} .thumb:not([hidden])"), "the picture of the stream")
    page.click(f"{STREAM} .record")
    until(lambda: page.text(f"{STREAM} [data-part=recording]") == "Off", "the end of the recording")
    row = ".recording-row[data-growing=no]"
    until(lambda: page.count(row), "the recording in the list")
    page.click(f"{row} [data-part=play]")
    seen = "const video = document.querySelector('#play-dialog video'); return [video.currentTime, video.videoWidth]"
    until(lambda: page.run(seen)[0] > 0.5, "the recorded pictures")
    assert page.run(seen)[1] == 320
    page.click("#play-dialog [data-close]")
    begin = page.run(
        "return fetch(document.querySelector(arguments[0]).href).then((got) => got.arrayBuffer())"
        ".then((got) => String.fromCharCode(...new Uint8Array(got, 0, 3)))",
        f"{row} [data-part=download]",
    )
    assert begin == "FLV"
    page.click(f"{STREAM} .record")
    until(lambda: page.text(f"{STREAM} [data-part=recording]") == "Recording", "the new recording")
    assert page.complaints() == []


def test_destination_is_changed_and_tried_out(page: Browser, live: LiveEvent) -> None:
    unlock(page)
    second = card("destination", "second")
    page.click(f"{second} [data-part=enable]")
    wait_for_word(page, second, "Disabled")
    page.click(f"{second} [data-part=test]")
    until(lambda: "It works" in page.text(f"{second} .check-box"), "the result")
    page.click(f"{second} [data-part=edit]")
    until(lambda: page.run("return document.querySelector('#add-dialog').open"), "the form")
    page.run("document.querySelector('#add-dialog [name=match]').value = 'live/*'")
    page.click("#add-dialog [type=submit]")
    until(lambda: "live/*" in page.text(f"{second} .match"), "the change")
    assert '"match": "live/*"' in live.config.read_text()
    assert f"{KEY}-second" in live.config.read_text()
    page.click(f"{second} [data-part=enable]")
    wait_for_word(page, second, "Connected")
    assert page.complaints() == []


def test_publisher_is_disconnected_by_clicking(page: Browser, live: LiveEvent) -> None:
    unlock(page)
    page.click(f"{STREAM} .kick")
    assert "live/concert" in page.text("#confirm-dialog")
    page.click("#confirm-dialog [type=submit]")
    wait_for_word(page, STREAM, "Ended")
    live.publish()
    wait_for_word(page, STREAM, "Live")
    assert page.complaints() == []


def test_name_with_html_is_shown_as_text(page: Browser, live: LiveEvent) -> None:
    stranger = BlockingClient(live.rtmp_port)
    stranger.session.publish(HARMFUL)
    stranger.wait(PublishAccepted)
    stranger.send(*start_frames(), keyframe(0))
    names = "return [...document.querySelectorAll('.stream h3')].map((each) => each.textContent)"
    until(lambda: f"live/{HARMFUL}" in page.run(names), "the stranger's stream")
    assert page.run("return window.harmed") is None
    stranger.socket.close()
    assert page.complaints() == []


def test_phone_needs_no_scrolling_sideways(page: Browser) -> None:
    for width in (360, 390):
        page.resize(width, 780)
        wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.run(wide) == 0
    page.resize(1280, 900)


def test_page_reconnects_after_a_restart_of_the_server(page: Browser, live: LiveEvent) -> None:
    """It keeps the plots and the token."""
    unlock(page)
    live.stop_relay()
    until(lambda: page.text("#connection-word") == "Reconnecting…", "the loss")
    assert "No connection to the relay" in page.text("#banner")
    live.start_relay_again()
    until(lambda: page.text("#connection-word") == "Connected", "the return")
    assert page.run("return document.getElementById('banner').hidden") is True
    live.publish()
    wait_for_word(page, STREAM, "Live")
    assert page.count(".controls") == 2
    # The browser logs that the server did not answer.
    assert all("ERR_" in line for line in page.complaints())
