"""Forms, tests, players, recordings, pictures and the machine on the dashboard, with a fake server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service import fake_relay_http as fake
from tests.service.browser import MISSING, Browser, until
from tests.service.fake_relay_http import FakeRelay
from tests.service.interop import FFmpeg
from tests.service.page_probes import FAINT_TEXT, nameless, overflow, show, unlock, wait_for_text

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"a browser is needed, and there is no {MISSING}")

STREAM = ".stream[data-key='live/concert']"
CHOOSE = (
    "const field = document.querySelector('#add-dialog [name=preset]');"
    "field.value = arguments[0]; field.dispatchEvent(new Event('change', { bubbles: true }))"
)
SETTINGS: dict[str, Any] = {
    "name": "YouTube",
    "url": "rtmps://a.example/live2",
    "has_key": True,
    "backup": [],
    "failures_before_backup": 3,
    "enabled": True,
    "max_retries": 0,
    "match": "live/*",
    "linger": 10.0,
    "verify": True,
    "metadata": {},
}


def unlocked(browser: Browser, relay: FakeRelay) -> None:
    show(browser, relay)
    unlock(browser)
    until(lambda: browser.run("return document.body.dataset.changes") == "unlocked", "the unlocked page")


def value_of(browser: Browser, name: str) -> Any:
    return browser.run("return document.querySelector('#add-dialog form').elements[arguments[0]].value", name)


# -- destinations ----------------------------------------------------------------------------------------------------


def test_preset_fills_in_the_form_and_what_is_left_of_it_is_asked_for(
    browser: Browser, fake_relay: FakeRelay
) -> None:
    unlocked(browser, fake_relay)
    browser.click("#add-destination")
    browser.run(CHOOSE, "youtube")
    assert (value_of(browser, "name"), value_of(browser, "url")) == (
        "YouTube",
        "rtmps://a.rtmps.youtube.com/live2",
    )
    browser.run(CHOOSE, "kick")
    assert value_of(browser, "name") == "Kick"
    assert value_of(browser, "url").endswith(".live-video.net:443/app")
    browser.click("#add-dialog [type=submit]")
    until(lambda: "YOUR-SERVER" in browser.text("#add-dialog [role=alert]"), "the question for the server")
    assert fake_relay.changes == []
    # What somebody typed is kept.
    browser.run("document.querySelector('#add-dialog [name=url]').value = 'rtmps://mine.example/app'")
    browser.run(CHOOSE, "twitch")
    assert value_of(browser, "url") == "rtmps://mine.example/app"
    browser.type("#add-dialog [name=stream_key]", "key-of-mine")
    browser.click("#add-dialog [type=submit]")
    until(lambda: fake_relay.changes, "the new destination")
    wanted = {
        "url": "rtmps://mine.example/app",
        "stream_key": "key-of-mine",
        "name": "Twitch",
        "lasting": False,
    }
    assert fake_relay.changes == [("POST", "/destinations", wanted)]


def test_edit_sends_only_what_was_changed(browser: Browser, fake_relay: FakeRelay) -> None:
    fake_relay.destinations["YouTube"] = fake.destination("YouTube", lasting=True)
    fake_relay.settings["YouTube"] = SETTINGS
    unlocked(browser, fake_relay)
    browser.click(".destination [data-part=edit]")
    until(lambda: browser.run("return document.querySelector('#add-dialog').open"), "the form")
    assert browser.text("#add-title") == "Change YouTube"
    assert value_of(browser, "url") == SETTINGS["url"]
    assert browser.run("return document.activeElement.name") == "url"
    browser.run("document.querySelector('#add-dialog [name=match]').value = 'stage/*'")
    browser.click("#add-dialog [type=submit]")
    until(lambda: fake_relay.changes, "the change")
    assert fake_relay.changes == [("PATCH", "/destinations/YouTube", {"match": "stage/*", "lasting": True})]
    # The form is empty again for a new one.
    until(lambda: not browser.run("return document.querySelector('#add-dialog').open"), "the end of the form")
    browser.click("#add-destination")
    assert (browser.text("#add-title"), value_of(browser, "url")) == ("Add destination", "")
    browser.click("#add-dialog [data-close]")


def test_test_shows_each_step_and_the_reason_of_the_one_that_failed(
    browser: Browser, fake_relay: FakeRelay
) -> None:
    fake_relay.destinations["idle"] = fake.destination("idle", status="idle")
    fake_relay.destinations["busy"] = fake.destination(
        "busy", outlets=[{"stream": "live/a", "status": "connected", "lingering": False}]
    )
    fake_relay.steps = [fake.step("dns", detail="192.0.2.9"), fake.step("publish", "the key is <b>wrong</b>")]
    unlocked(browser, fake_relay)
    assert browser.run("return document.querySelector('[data-key=busy] [data-part=test]').disabled") is True
    browser.click("[data-key=idle] [data-part=test]")
    wait_for_text(browser, "[data-key=idle] .check-box > p", "It does not work yet.")
    lines = browser.text("[data-key=idle] .check-box ol").replace("Done:\n", "").split("\n")
    assert lines == [
        "Find the server (DNS)",
        "192.0.2.9",
        "12 ms",
        "Failed:",
        "Ask to publish",
        "The key is <b>wrong</b>.",
        "12 ms",
    ]
    assert fake_relay.changes == [("POST", "/destinations/idle/check", None)]
    fake_relay.steps = [fake.step("dns"), fake.step("publish")]
    browser.click("#add-destination")
    browser.type("#add-dialog [name=url]", "rtmp://new.example/app")
    browser.click("#add-dialog [data-part=test]")
    wait_for_text(browser, "#add-dialog .check-box > p", "It works: the server would take a stream.")
    assert fake_relay.changes[-1] == (
        "POST",
        "/check",
        {"url": "rtmp://new.example/app", "backup": [], "verify": True},
    )
    browser.click("#add-dialog [data-close]")


# -- streams ---------------------------------------------------------------------------------------------------------


def test_players_are_listed_while_the_panel_is_open_and_disconnected(
    browser: Browser, fake_relay: FakeRelay
) -> None:
    fake_relay.streams["live/concert"] = fake.stream("live/concert")
    fake_relay.players = [
        fake.player("c000001", address="192.0.2.1:5"),
        fake.player(
            "h000002",
            address="<b>x</b>",
            protocol="flv",
            stalls=2,
            messages_dropped=7,
            dropped_by_reason={"queue_full": 7},
        ),
    ]
    show(browser, fake_relay)
    browser.click(f"{STREAM} [data-part=playersButton]")
    until(lambda: browser.count(".players li") == 2, "the players")
    rows = browser.text(".players ul").split("\n")
    assert rows == [
        "192.0.2.1:5 RTMP · 1:02 · 47.0 MB",
        "<b>x</b> HTTP-FLV · 1:02 · 47.0 MB · 2 stalls Missed: 7 receiver too slow",
    ]
    unlock(browser)
    end = ".players li:first-child [data-part=end]"
    until(
        lambda: browser.run("return document.querySelector(arguments[0]).checkVisibility()", end),
        "the button",
    )
    fake_relay.players.pop(0)
    browser.click(end)
    until(lambda: browser.count(".players li") == 1, "the end")
    assert fake_relay.changes == [("DELETE", "/players/c000001", None)]


def test_recording_is_started_and_stopped_on_the_card(browser: Browser, fake_relay: FakeRelay) -> None:
    fake_relay.streams["live/concert"] = fake.stream("live/concert")
    unlocked(browser, fake_relay)
    assert browser.text(f"{STREAM} .record") == "Record"
    browser.click(f"{STREAM} .record")
    until(lambda: fake_relay.changes, "the start")
    state = {"state": "waiting", "path": None, "duration": 0, "bytes": 0, "last_error": None}
    fake_relay.streams["live/concert"]["recording"] = state
    fake_relay.send_status()
    wait_for_text(browser, f"{STREAM} .record", "Stop recording")
    browser.click(f"{STREAM} .record")
    until(lambda: len(fake_relay.changes) == 2, "the stop")
    path = "/streams/live/concert/recording"
    assert fake_relay.changes == [("POST", path, None), ("DELETE", path, None)]


def test_picture_of_a_stream_is_decoded_and_only_while_the_page_is_seen(
    browser: Browser, fake_relay: FakeRelay, ffmpeg: FFmpeg
) -> None:
    still = ffmpeg.make(
        "still.mp4",
        "-f lavfi -i color=c=red:s=320x180:r=25 -frames:v 1 -pix_fmt yuv420p -c:v libx264"
        " -movflags empty_moov+default_base_moof",
    )
    fake_relay.media["/live/concert.still"] = still.read_bytes()
    fake_relay.streams["live/concert"] = fake.stream("live/concert")
    fake_relay.streams["live/none"] = fake.stream("live/none")
    show(browser, fake_relay)
    until(lambda: browser.count(f"{STREAM} .thumb:not([hidden])"), "the picture")
    red, green, blue = browser.run(
        "const canvas = document.querySelector(arguments[0]);"
        "return [...canvas.getContext('2d').getImageData(20, 20, 1, 1).data].slice(0, 3)",
        f"{STREAM} .thumb canvas",
    )
    assert red > 200
    assert max(green, blue) < 60
    assert browser.count(".thumb:not([hidden])") == 1
    asked = fake_relay.asked["/live/concert.still"]
    asked_for = browser.run(
        "Object.defineProperty(document, 'hidden', { value: true, configurable: true });"
        "return import('/assets/thumbnails.js').then(({ due }) => due(Date.now() + 60_000).length)"
    )
    assert (asked, asked_for) == (1, 0)
    visible = "delete document.hidden; return import('/assets/thumbnails.js').then(({ due }) => due(Date.now() + 60_000).length)"
    assert browser.run(visible) == 2


def test_stream_that_ended_before_the_page_was_opened_is_shown(
    browser: Browser, fake_relay: FakeRelay
) -> None:
    now = browser.run("return new Date().toISOString()")
    end = {"event": "publish_stopped", "time": now, "reason": "the connection was lost", "duration": 5.0}
    fake_relay.hello["ended"] = [
        {**end, "stream": "live/gone", "bytes": 10},
        {**end, "stream": "live/back"},
        {**end, "stream": "live/old", "time": "2020-01-01T00:00:00.000Z"},
    ]
    fake_relay.streams["live/back"] = fake.stream("live/back")
    show(browser, fake_relay)
    keys = "return [...document.querySelectorAll('.stream')].map((each) => each.dataset.key)"
    assert browser.run(keys) == ["live/back", "live/gone"]
    assert "The connection was lost." in browser.text("[data-key='live/gone'] .note")
    assert browser.text("[data-key='live/back'] .badge").startswith("Live")


def test_failed_attempts_stand_beside_the_reconnects(browser: Browser, fake_relay: FakeRelay) -> None:
    fake_relay.destinations["far"] = fake.destination(
        "far", status="error", connected_duration=None, failures=12, last_error="it broke"
    )
    show(browser, fake_relay)
    assert browser.text(".destination [data-part=reconnectsNote]") == "12 failed attempts"


# -- the machine and recordings --------------------------------------------------------------------------------------


def test_use_of_the_machine_is_shown_with_its_history(browser: Browser, fake_relay: FakeRelay) -> None:
    disk = {"used_for": ["recordings"], "size": 500e9, "free": 20e9}
    fake_relay.machine = {
        "cpu_percent": 14.2,
        "cores": 8,
        "memory_bytes": 93_400_000,
        "memory_size": 8_000_000_000,
        "disks": [disk, {"used_for": ["events"], "size": 100e9, "free": 90e9}],
    }
    fake_relay.hello["history"]["machine"] = {"cpu_percent": [10.0] * 100, "memory_bytes": [9e7] * 100}
    show(browser, fake_relay)
    words = browser.text("#machine").replace("\n", " ")
    assert "14 % of one of 8 cores" in words
    assert "93.4 MB of 8.00 GB" in words
    assert "Disk: recordings 20.0 GB free of 500 GB" in words
    assert browser.run("return document.querySelector('.meter').dataset.level") == "bad"
    painted = browser.run(
        "const canvas = document.querySelector('#machine canvas');"
        "return canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((each) => each)"
    )
    assert painted


def test_recordings_are_listed_found_and_downloaded(browser: Browser, fake_relay: FakeRelay) -> None:
    fake_relay.files = [fake.recording("live_a_20260101_201500.flv", growing=True, duration=None)]
    fake_relay.files += [fake.recording(f"other {number}.flv", stream=None) for number in range(20)]
    show(browser, fake_relay)
    until(lambda: browser.count(".recording-row") == 8, "the newest recordings")
    first = browser.text(".recording-row").replace("\n", " ")
    assert "live/concert Recording" in first
    assert "recording now · 2.70 GB" in first
    browser.click("#recordings [data-part=more]")
    assert browser.count(".recording-row") == 21
    browser.type("#recordings input", "other 1")
    assert browser.count(".recording-row") == 11
    link = browser.run("return document.querySelector('.recording-row a').getAttribute('href')")
    assert link == "recordings/other%201.flv/download"
    assert browser.run(FAINT_TEXT) == []
    browser.resize(360, 740)
    assert overflow(browser) == 0


def test_recording_is_played_and_jumped_in(browser: Browser, fake_relay: FakeRelay, ffmpeg: FFmpeg) -> None:
    name = "film.flv"
    playlist = ffmpeg.make(
        "vod.m3u8",
        "-f lavfi -i testsrc2=s=160x90:r=10 -t 60 -g 40 -pix_fmt yuv420p -c:v libx264 -preset ultrafast -f hls"
        " -hls_segment_type fmp4 -hls_time 4 -hls_playlist_type vod -hls_fmp4_init_filename vod-init.mp4",
    )
    fake_relay.media[f"/recordings/{name}/index.m3u8"] = playlist.read_bytes()
    for file in playlist.parent.glob("vod*"):
        fake_relay.media[f"/recordings/{name}/{file.name}"] = file.read_bytes()
    fake_relay.files = [fake.recording(name)]
    show(browser, fake_relay)
    until(lambda: browser.count(".recording-row"), "the recording")
    browser.click(".recording-row [data-part=play]")
    time = "return document.querySelector('#play-dialog video').currentTime"
    until(lambda: browser.run(time) > 0.3, "the first pictures")
    assert browser.run("return document.querySelector('#play-dialog video').duration") == pytest.approx(
        60, abs=1
    )
    # Only what is about to be shown is loaded.
    assert fake_relay.asked[f"/recordings/{name}/vod12.m4s"] == 0
    browser.run("document.querySelector('#play-dialog video').currentTime = 50")
    until(lambda: browser.run(time) > 50.3, "the pictures after the jump")
    browser.click("#play-dialog [data-close]")
    until(lambda: browser.count("#play-dialog video[src]") == 0, "the end of the download")
    del fake_relay.media[f"/recordings/{name}/index.m3u8"]
    browser.click(".recording-row [data-part=play]")
    wait_for_text(browser, "#play-dialog [role=status]", "There is nothing here.")
    browser.click("#play-dialog [data-close]")
    assert all("404" in line for line in browser.complaints())


def test_page_is_as_long_as_what_is_on_it(browser: Browser, fake_relay: FakeRelay) -> None:
    """What is only for screen readers makes no empty room at its end, and every card is there at once."""
    for number in range(3):
        fake_relay.streams[f"live/{number}"] = fake.stream(f"live/{number}")
        fake_relay.destinations[f"to {number}"] = fake.destination(f"to {number}")
    fake_relay.hello["events"] = [
        {"time": fake_relay.now, "event": "x", "level": "warn", "sentence": f"event {number}"}
        for number in range(60)
    ]
    browser.resize(390, 780)
    show(browser, fake_relay)
    whole, body = browser.run(
        "return [document.documentElement.scrollHeight, document.body.getBoundingClientRect().height]"
    )
    assert whole - body < 2
    skipped = "return [...document.querySelectorAll('.card')].filter((each) => getComputedStyle(each).contentVisibility !== 'visible').length"
    assert browser.run(skipped) == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everything_that_opens_has_names_and_contrast(
    theme: str, browser: Browser, fake_relay: FakeRelay
) -> None:
    fake_relay.streams["live/concert"] = fake.stream("live/concert")
    fake_relay.destinations["far"] = fake.destination("far", status="error", last_error="it broke")
    fake_relay.players = [fake.player("c1", messages_dropped=3, dropped_by_reason={"queue_full": 3})]
    fake_relay.files = [fake.recording("a.flv", growing=True)]
    fake_relay.steps = [fake.step("dns"), fake.step("publish", "the key is wrong")]
    unlocked(browser, fake_relay)
    browser.run("document.querySelector(`input[name=theme][value=${arguments[0]}]`).click()", theme)
    until(lambda: browser.count(".recording-row"), "the recording")
    browser.click(f"{STREAM} [data-part=playersButton]")
    until(lambda: browser.count(".players li"), "the player")
    browser.click(".destination [data-part=test]")
    until(lambda: browser.count(".check-box li"), "the steps")
    assert browser.run(FAINT_TEXT) == []
    browser.click("#add-destination")
    browser.run(CHOOSE, "facebook")
    browser.click("#add-dialog summary")
    browser.click("#add-dialog [data-part=test]")
    until(lambda: browser.count("#add-dialog .check-box li"), "the steps")
    assert browser.run(FAINT_TEXT) == []
    assert nameless(browser) == []
    browser.click("#add-dialog [data-close]")
    assert nameless(browser) == []


def test_form_is_filled_in_and_sent_by_keyboard(browser: Browser, fake_relay: FakeRelay) -> None:
    unlocked(browser, fake_relay)
    browser.click("#add-destination")
    # The field for the name has the focus; Enter sends the form.
    for text in ("My server", "\ue004rtmp://mine.example/app", "\ue004my-key\ue007"):
        browser.type(":focus", text)
    until(lambda: fake_relay.changes, "the new destination")
    wanted = {"name": "My server", "url": "rtmp://mine.example/app", "stream_key": "my-key", "lasting": False}
    assert fake_relay.changes == [("POST", "/destinations", wanted)]
