"""The dashboard in a real browser with a fake server: refusals, ended streams, pure functions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.service import fake_relay_http as fake
from tests.service.browser import Browser, until
from tests.service.fake_relay_http import FakeRelay
from tests.service.page_probes import show, unlock, wait_for_text

#: By module: a function, its arguments and its result.
PURE_FUNCTIONS: dict[str, list[tuple[str, list[Any], Any]]] = {
    "format.js": [
        ("bitrate", [None], "\u2013"),
        ("bitrate", [0], "0 kbit/s"),
        ("bitrate", [4.25], "4.3 kbit/s"),
        ("bitrate", [842.4], "842 kbit/s"),
        ("bitrate", [999.6], "1.00 Mbit/s"),
        ("bitrate", [6120.5], "6.12 Mbit/s"),
        ("bitrate", [61_205], "61.2 Mbit/s"),
        ("bitrate", [2_500_000], "2.50 Gbit/s"),
        ("bytes", [0], "0 B"),
        ("bytes", [999], "999 B"),
        ("bytes", [1500], "1.50 kB"),
        ("bytes", [2_850_000_000], "2.85 GB"),
        ("bytes", [None], "\u2013"),
        ("count", [1234567], "1,234,567"),
        ("counted", [1, "message"], "1 message"),
        ("counted", [0, "message"], "0 messages"),
        ("duration", [0], "0:00"),
        ("duration", [42.9], "0:42"),
        ("duration", [3753], "1:02:33"),
        ("duration", [183_845], "2 d 03:04:05"),
        ("duration", [None], "\u2013"),
        ("span", [0.2], "1 s"),
        ("span", [65], "1 min 05 s"),
        ("span", [7800], "2 h 10 min"),
        ("span", [259_200], "3 days"),
        ("frameRate", [25], "25"),
        ("frameRate", [29.9701], "29.97"),
        ("frameRate", [None], "\u2013"),
        ("videoWords", [{"codec": "H.264 AVC", "width": 1920, "height": 1080}], "H.264 1920\u00d71080"),
        ("videoWords", [{"codec": None, "width": None, "height": None}], "Video"),
        ("videoWords", [None], None),
        ("audioWords", [{"codec": "AAC", "sample_rate": 44100, "channels": 2}], "AAC 44.1 kHz stereo"),
        ("audioWords", [{"codec": "Opus", "sample_rate": None, "channels": None}], "Opus"),
        ("dropWords", [{"not_connected": 1200, "queue_full": 0}], "1,200 not connected"),
        ("dropWords", [{"a_new_reason": 1, "queue_full": 5}], "5 receiver too slow, 1 a new reason"),
        ("dropWords", [{}], ""),
        ("lost", [0, 71.6], "0"),
        ("lost", [3, 71.6], "0.1 s"),
        ("lost", [4654, 71.6], "1 min 05 s"),
        ("lost", [340, None], "340 frames"),
        ("lossWords", [{"queue_full": 5}], "receiver too slow"),
        ("lossWords", [{"queue_full": 5, "paused": 7}], "7 paused by the player, 5 receiver too slow"),
        ("lossWords", [{}], ""),
        ("sentence", ["the key is wrong"], "The key is wrong."),
        ("sentence", ["Really?"], "Really?"),
        ("sentence", ["rtmprelay 0.1.0 started"], "rtmprelay 0.1.0 started."),
        ("sentence", [None], ""),
        ("clock", ["nonsense"], "\u2013"),
    ],
    "scale.js": [
        ("scaleFor", [0], {"top": 10, "ticks": [0, 5, 10], "unit": "kbit/s", "labels": ["0", "5", "10"]}),
        (
            "scaleFor",
            [6200],
            {
                "top": 7500,
                "ticks": [0, 2500, 5000, 7500],
                "unit": "Mbit/s",
                "labels": ["0", "2.5", "5", "7.5"],
            },
        ),
    ],
}


@pytest.mark.parametrize("module", PURE_FUNCTIONS)
def test_pure_functions_return_what_people_read(module: str, browser: Browser, fake_relay: FakeRelay) -> None:
    show(browser, fake_relay)
    cases = PURE_FUNCTIONS[module]
    results = browser.run(
        "const [module, calls] = arguments;"
        "return import(module).then((all) => calls.map(([name, values]) => all[name](...values)))",
        f"/assets/{module}",
        [[name, arguments] for name, arguments, _ in cases],
    )
    for (name, arguments, expected), result in zip(cases, results, strict=True):
        assert result == expected, f"{name}({json.dumps(arguments)})"


def test_series_has_gaps_joins_the_servers_history_and_drops_old_samples(
    browser: Browser, fake_relay: FakeRelay
) -> None:
    show(browser, fake_relay)
    stretches, summary, count, quiet = browser.run("""
        return import("/assets/series.js").then(({ Series }) => {
          const series = new Series(1);
          for (let time = 100; time < 110; time += 1) series.push(time, 5);
          series.push(110, null);
          series.push(111, 7);
          series.push(111.1, 8);
          series.load([1, null, 3], 140, 1);
          const found = series.stretches(0).map((stretch) => stretch.map(([time, value]) => [time, value]));
          const summary = series.summary(0);
          for (let time = 141; time < 1200; time += 1) series.push(time, 0);
          return [found, summary, series.times.length, series.hasData(0)];
        });
    """)
    assert stretches == [[[time, 5] for time in range(100, 110)], [[111, 8]], [[138, 1]], [[140, 3]]]
    assert (summary["least"], summary["most"]) == (1, 8)
    assert 300 <= count <= 310
    assert quiet is False


def test_empty_relay_shows_help_with_its_own_addresses(browser: Browser, fake_relay: FakeRelay) -> None:
    fake_relay.hello["rtmp"] = [{"scheme": "rtmp", "port": 1936}]
    show(browser, fake_relay)
    assert browser.text("#publish-server") == "rtmp://127.0.0.1:1936/live"
    assert browser.text("#publish-command").endswith("-f flv rtmp://127.0.0.1:1936/live/test")
    assert "--relay-to" in browser.text("#no-destinations")
    assert browser.text("#events .empty") == "Nothing has happened yet."
    browser.click("[data-copy=publish-server]")
    until(lambda: browser.text("[data-copy=publish-server]") == "Copied", "the copy")


def test_pulls_and_the_cluster_are_shown_if_there_are_any(browser: Browser, fake_relay: FakeRelay) -> None:
    show(browser, fake_relay)
    assert browser.text("#pulls") == browser.text("#cluster") == ""
    error = "the server refused: NetStream.Play.StreamNotFound"
    fetched = {"stream": "live/cam", "status": "error"}
    fake_relay.pulls["origin"] = {
        "name": "origin",
        "url": "rtmp://origin:1935/live/***",
        "match": "live/*",
        "status": "error",
        "last_error": error,
        "viewers": 3,
        "streams": [fetched],
    }
    node = {"url": "rtmp://10.0.0.1:1935", "draining": True, "streams": 2, "players": 1500, "connections": 9}
    directory = {"address": "redis:6379/0", "state": "ok", "last_error": None, "knowledge_age": 1.2}
    fake_relay.cluster = {
        "node": "two",
        "node_url": "rtmp://10.0.0.2:1935",
        "directory": directory,
        "nodes": {"one": node, "two": {**node, "draining": False}},
        "streams": {},
    }
    fake_relay.send_status()
    until(lambda: "origin" in browser.text("#pulls"), "the pull")
    shown = browser.text("#pulls")
    for words in ("Failing", "3 viewers", "The server refused: NetStream.Play.StreamNotFound.", "live/cam"):
        assert words in shown
    assert "This node is two. The directory redis:6379/0 is ok" in browser.text("#cluster")
    assert "one Draining 2 1,500 9" in browser.text("#cluster")
    assert "two Ready" in browser.text("#cluster")
    assert browser.complaints() == []


def test_update_of_fifty_streams_and_fifty_destinations_is_fast(
    browser: Browser, fake_relay: FakeRelay
) -> None:
    """Only plots that can be seen are drawn."""
    for number in range(50):
        fake_relay.streams[f"live/{number}"] = fake.stream(f"live/{number}", destinations=[f"to {number}"])
        fake_relay.destinations[f"to {number}"] = fake.destination(f"to {number}")
    show(browser, fake_relay)
    assert browser.count(".stream") == browser.count(".destination") == 50
    browser.devtools("Performance.enable")

    def busy() -> float:
        metrics = browser.devtools("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))

    before, rounds = busy(), 20
    for number in range(rounds):
        for stream in fake_relay.streams.values():
            stream |= {"bitrate_kbps": 3000 + number, "duration": 100 + number, "fps": 25 + number / 100}
        for destination in fake_relay.destinations.values():
            destination |= {"bitrate_kbps": 3000 + number, "messages_sent": 1000 + number}
        fake_relay.send_status()
        wait_for_text(browser, ".stream .time", f"1:{40 + number}")
    spent = (busy() - before) / rounds
    print(f"an update of 50 streams and 50 destinations: {spent * 1000:.0f} ms of the page's thread")  # noqa: T201
    # Measured: 30 to 50 ms, half of it caused by this test. Updates come every second.
    assert spent < 0.3
    # A canvas that was never drawn still has its default width.
    drawn = browser.run(
        "return [...document.querySelectorAll('.plot canvas')].filter((each) => each.width !== 300).length"
    )
    assert 0 < drawn < 50


def test_updates_keep_elements_focus_and_typed_text(browser: Browser, fake_relay: FakeRelay) -> None:
    fake_relay.streams["live/b"] = fake.stream("live/b")
    fake_relay.destinations["YouTube"] = fake.destination("YouTube")
    show(browser, fake_relay)
    unlock(browser)
    until(lambda: browser.count(".controls"), "the controls")
    browser.run(
        "window.before = document.querySelector('.stream'); window.badge = before.querySelector('.time').firstChild"
    )
    browser.click("#add-destination")
    browser.type("#add-dialog [name=name]", "half a na")
    fake_relay.streams["live/a"] = fake.stream("live/a")
    fake_relay.streams["live/b"]["duration"] = 4000
    fake_relay.send_status()
    until(lambda: browser.count(".stream") == 2, "the second stream")
    assert (
        browser.run(
            "const second = document.querySelectorAll('.stream')[1];"
            "return second === before && second.querySelector('.time').firstChild === badge && badge.data"
        )
        == "1:06:40"
    )
    assert browser.run("return document.activeElement.name") == "name"
    assert browser.run("return document.activeElement.value") == "half a na"
    browser.click("#add-dialog [data-close]")


def test_failed_change_is_explained_and_a_wrong_token_locks_the_page(
    browser: Browser, fake_relay: FakeRelay
) -> None:
    fake_relay.destinations["YouTube"] = fake.destination("YouTube", lasting=True)
    show(browser, fake_relay)
    assert browser.count(".controls, .kick") == 0
    assert browser.run("return document.getElementById('add-destination').checkVisibility()") is False
    unlock(browser, "wrong")
    until(lambda: browser.text("#unlock-dialog [role=alert]") == "This is not the relay's token.", "the no")
    browser.run("document.querySelector('#unlock-dialog form').reset()")
    browser.type("#unlock-dialog [name=token]", fake.TOKEN)
    browser.click("#unlock-dialog [type=submit]")
    until(lambda: browser.count(".controls"), "the controls")

    # The token is known after a reload, and only in this tab.
    browser.open(fake_relay.url)
    until(lambda: browser.count(".controls"), "the controls")
    assert browser.run("return Object.values(localStorage)") == []

    fake_relay.change_refusal = (409, "there is a destination of this name already")
    browser.click("#add-destination")
    browser.type("#add-dialog [name=name]", "YouTube")
    browser.type("#add-dialog [name=url]", "rtmps://host/app")
    browser.type("#add-dialog [name=stream_key]", "very secret")
    browser.click("#add-dialog [type=submit]")
    words = "There is a destination of this name already."
    until(lambda: browser.text("#add-dialog [role=alert]") == words, "the error")
    wanted = {"name": "YouTube", "url": "rtmps://host/app", "stream_key": "very secret", "lasting": False}
    assert fake_relay.changes.pop() == ("POST", "/destinations", wanted)
    assert "very secret" not in browser.run("return document.documentElement.outerHTML")
    browser.click("#add-dialog [data-close]")
    # The close event of a dialog comes a moment later.
    key = "return document.querySelector('#add-dialog [name=stream_key]').value"
    until(lambda: browser.run(key) == "", "the empty field")

    browser.click(".destination [data-part=reconnect]")
    until(lambda: browser.text(".destination [role=alert]") == words, "the error in the card")
    fake_relay.change_refusal = None
    browser.click(".destination [data-part=remove]")
    browser.click("#confirm-dialog [type=submit]")
    until(lambda: ("DELETE", "/destinations/YouTube?lasting=true", None) in fake_relay.changes, "the removal")

    fake_relay.change_refusal = (401, "the token is wrong")
    browser.click(".destination [data-part=enable]")
    until(lambda: not browser.count(".controls"), "the lock")
    assert browser.run("return sessionStorage.length") == 0
    # The browser logs every refused request on its console.
    assert all("409" in line or "401" in line for line in browser.complaints())


def test_server_without_a_token_explains_how_to_allow_changes(
    browser: Browser, fake_relay: FakeRelay
) -> None:
    fake_relay.hello["changes_allowed"] = False
    show(browser, fake_relay)
    browser.click("#unlock")
    assert "--http-token" in browser.text("#locked-dialog")
    browser.click("#locked-dialog [data-close]")


def test_lost_connection_is_explained_and_restored(browser: Browser, fake_relay: FakeRelay) -> None:
    fake_relay.streams["live/a"] = fake.stream("live/a")
    show(browser, fake_relay)
    assert browser.text("#connection-word") == "Connected"
    fake_relay.refusal = (503, "there are 100 readers of events already: try again later")
    fake_relay.disconnect()
    until(lambda: browser.text("#connection-word") == "Reconnecting…", "the loss")
    until(lambda: "there are 100 readers" in browser.text("#banner").lower(), "the reason")
    assert "No connection to the relay since" in browser.text("#banner")
    fake_relay.refusal = None
    until(lambda: browser.text("#connection-word") == "Connected", "the return")
    assert browser.run("return document.getElementById('banner').checkVisibility()") is False
    assert all("503" in line for line in browser.complaints())


def test_ended_stream_is_shown_with_its_reason_until_dismissed(
    browser: Browser, fake_relay: FakeRelay
) -> None:
    fake_relay.streams["live/a"] = fake.stream("live/a")
    show(browser, fake_relay)
    event = {"event": "publish_stopped", "stream": "live/a", "reason": "the connection was lost"}
    fake_relay.send(
        "event", event | {"time": fake_relay.now, "level": "info", "sentence": "publish of live/a stopped"}
    )
    gone = fake_relay.streams.pop("live/a")
    fake_relay.send_status()
    until(lambda: browser.text(".stream .badge") == "Ended", "the end")
    assert browser.text(".stream .note").endswith("The connection was lost.\nDismiss")
    fake_relay.streams["live/a"] = gone
    fake_relay.send_status()
    until(lambda: browser.text(".stream .badge").startswith("Live"), "the return")
    del fake_relay.streams["live/a"]
    fake_relay.send_status()
    until(lambda: browser.text(".stream .badge") == "Ended", "the end")
    browser.click(".stream [data-part=dismiss]")
    assert browser.count(".stream") == 0


def test_events_are_filtered_bounded_and_repeated_ones_joined(
    browser: Browser, fake_relay: FakeRelay
) -> None:
    show(browser, fake_relay)

    def send(name: str, level: str, words: str) -> None:
        fake_relay.send("event", {"time": fake_relay.now, "event": name, "level": level, "sentence": words})

    for number in range(250):
        send("play_started", "info", f"player {number}")
    send("handshake_completed", "info", "routine")
    for wait in (1, 2.5, 5):
        send("destination_failed", "warn", f"<b>failed</b>; next attempt in {wait} s")
        send("destination_connecting", "info", "routine as well")
    times = "#events li:first-child [data-part=times]"
    until(lambda: browser.count(times) and browser.text(times) == "3 times", "the last event")
    words = browser.text("#events li:first-child [data-part=words]")
    assert words == "<b>failed</b>; next attempt in 5 s."
    assert browser.count("#events li") == 200
    assert browser.text("#events li:nth-child(2) p") == "Player 249."
    browser.type("#events input", "player 17")
    assert browser.count("#events li") == 11
    browser.run(
        "const box = document.querySelector('#events input'); box.value = ''; box.dispatchEvent(new Event('input'))"
    )
    for choice, expected in (("all", 200), ("warnings", 1)):
        browser.run(
            "const box = document.querySelector('#events select'); box.value = arguments[0]; box.dispatchEvent(new Event('change'))",
            choice,
        )
        assert browser.count("#events li") == expected
    assert browser.text(times) == "3 times"


def test_every_state_of_a_destination_has_a_word(browser: Browser, fake_relay: FakeRelay) -> None:
    """A failing destination shows why, and when the next attempt is."""
    words = {
        "idle": "Idle",
        "connecting": "Connecting",
        "connected": "Connected",
        "error": "Failing",
        "disabled": "Disabled",
    }
    for state in words:
        fake_relay.destinations[state] = fake.destination(state, status=state, enabled=state != "disabled")
    failure = {"last_error": "the server refused the key", "error_class": "refused"}
    fake_relay.destinations["error"] |= failure | {"next_attempt_in": 65.0}
    fake_relay.destinations["gone"] = fake.destination("gone", status="error", given_up=True, **failure)
    show(browser, fake_relay)
    for state, word in words.items():
        assert browser.text(f".destination[data-key={state}] .badge").startswith(word)
    assert browser.text("[data-key=gone] .badge") == "Given up"
    problem = browser.text("[data-key=error] .problem")
    assert problem.startswith("Refused by the server: The server refused the key. Next attempt in 1 min 0")
    assert browser.text("#total-failing") == "2 failing"
    assert browser.run("return document.title") == "⚠ 2 failing \u2013 rtmprelay"


def test_page_below_a_path_of_a_reverse_proxy_uses_relative_addresses(
    browser: Browser, fake_relay: FakeRelay
) -> None:
    fake_relay.prefix = "/below/a/path"
    fake_relay.url += "below/a/path/"
    fake_relay.streams["live/a"] = fake.stream("live/a")
    show(browser, fake_relay)
    unlock(browser)
    until(lambda: browser.count(".kick"), "the controls")
    browser.click(".stream [data-part=links]")
    assert browser.text(".stream [data-part=flvLink]") == f"{fake_relay.url}live/a.flv"
    assert browser.text(".stream [data-part=pageLink]") == f"{fake_relay.url}live/a/"
    assert browser.text(".stream [data-part=hlsLink]") == f"{fake_relay.url}live/a/index.m3u8"
    browser.click(".kick")
    browser.click("#confirm-dialog [type=submit]")
    until(
        lambda: ("DELETE", "/below/a/path/streams/live/a/publisher", None) in fake_relay.changes, "the change"
    )
