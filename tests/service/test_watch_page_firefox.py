"""The page to watch in Firefox."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.browser import until
from tests.service.command import Server
from tests.service.encoder import MEDIA, Encoder
from tests.service.firefox import FIREFOX, Firefox
from tests.service.interop import FFmpeg
from tests.service.test_watch_page_browser import STATE

#: Parts that are large enough to measure the network with.
LARGE = MEDIA.replace("320x180", "640x360").replace(
    "-b:v 400k", "-b:v 3000k -minrate 3000k -maxrate 3000k -bufsize 1000k"
)

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(FIREFOX is None, reason="there is no Firefox: apt-get install firefox-esr"),
]


@pytest.fixture
def firefox(tmp_path: Path) -> Iterator[Firefox]:
    browser = Firefox(tmp_path)
    try:
        yield browser
    finally:
        browser.quit()


@pytest.fixture
def encoder(ffmpeg: FFmpeg, start_server: Callable[..., Server], tmp_path: Path) -> Iterator[Encoder]:
    """Of a relay that writes an event log."""
    (tmp_path / "events").mkdir()
    options = ("--hls", "*", "--http-media", "127.0.0.1:0", "--event-log", str(tmp_path / "events"))
    encoder = Encoder(ffmpeg, start_server(*options))
    try:
        yield encoder
    finally:
        encoder.close()


def wait_for(firefox: Firefox, what: str, frames: int = 0, **wanted: Any) -> dict[str, Any]:
    """Wait until the page is in a state, and has shown so many pictures since it began to play."""

    def reached() -> dict[str, Any] | None:
        found: dict[str, Any] = firefox.run(STATE)
        is_so = all(found[name] == value for name, value in wanted.items()) and found["frames"] >= frames
        return found if is_so else None

    return until(reached, what)


def test_page_begins_goes_back_and_goes_on_when_the_publisher_returns(
    firefox: Firefox, encoder: Encoder
) -> None:
    firefox.open(encoder.index.removesuffix("index.m3u8"))
    assert "not live now" in wait_for(firefox, "a page that waits", state="offline")["notice"]
    encoder.publish()
    encoder.until_ready()
    found = wait_for(firefox, "a page that plays", state="playing", live="edge", paused=False)
    found = wait_for(firefox, "three seconds of pictures", found["frames"] + 90, state="playing")
    assert 0.5 < found["latency"] < 5
    until(lambda: firefox.run("return document.getElementById('seek').max > 9") or None, "a window")
    firefox.run(
        "const seek = document.getElementById('seek'); seek.value = Number(seek.max) - 7;"
        " seek.dispatchEvent(new Event('change'))"
    )
    wait_for(firefox, "an older picture", live="behind")
    firefox.run("document.getElementById('live').click()")
    wait_for(firefox, "the live edge", live="edge")
    encoder.lose()
    before = wait_for(firefox, "a page that waits for the publisher", state="waiting")
    encoder.publish()
    after = wait_for(firefox, "a page that goes on", before["frames"] + 90, state="playing")
    assert after["source"] == before["source"]
    assert after["time"] > before["time"]


def ended_plays(folder: Path) -> list[dict[str, Any]]:
    """The ends of plays in an event log, whose last line may be half written."""
    lines = [line for file in folder.iterdir() for line in file.read_text().split("\n")[:-1]]
    return [event for line in lines if (event := json.loads(line))["event"] == "play_stopped"]


def test_event_log_has_what_the_page_tells_of_itself(
    firefox: Firefox, encoder: Encoder, tmp_path: Path
) -> None:
    encoder.publish(LARGE, "watched_large.flv")
    firefox.open(encoder.until_ready().removesuffix("index.m3u8"))
    found = wait_for(firefox, "a page that plays", state="playing")
    wait_for(firefox, "three seconds of pictures", found["frames"] + 90, state="playing")
    firefox.open("about:blank")

    def told() -> list[dict[str, Any]] | None:
        return [one for one in ended_plays(tmp_path / "events") if one["startup"] is not None] or None

    (play,) = until(told, "the end of the play")
    assert play["protocol"] == "hls"
    assert 0 < play["startup"] < 30
    assert play["throughput_kbps"] > 100
    assert play["stalls"] >= 0
