"""The layout of the dashboard in a real browser: extreme names, narrow screens, plots, contrast, accessibility."""

from __future__ import annotations

import pytest

from tests.service import fake_relay_http as fake
from tests.service.browser import MISSING, Browser, until
from tests.service.fake_relay_http import FakeRelay
from tests.service.page_probes import CROWDED_LABELS, CUT_OFF, FAINT_TEXT, nameless, overflow, show, unlock

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"a browser is needed, and there is no {MISSING}")

#: Names that would be harmful as HTML, or break a careless layout.
HOSTILE_NAMES = (
    "<img src=x onerror=window.harmed=1>",
    "</script><script>window.harmed=1</script>",
    "'\"><svg onload=window.harmed=1>",
    "x" * 255,
    "שלום-עולם",
    "🎥🎸 concert 🇩🇪",
    "a/b/c",
    "__proto__",
    "constructor",
)


def test_hostile_names_are_text_and_do_not_widen_the_page(browser: Browser, fake_relay: FakeRelay) -> None:
    names = list(HOSTILE_NAMES)
    for name in names:
        fake_relay.streams[f"live/{name}"] = fake.stream(f"live/{name}", destinations=names)
        problem = {"status": "error", "last_error": name * 5, "match": name, "url": f"rtmp://{name}/"}
        fake_relay.destinations[name] = fake.destination(
            name, outlets=[{"stream": name, "status": "error"}], **problem
        )
    fake_relay.hello["events"] = [
        {"time": fake_relay.now, "event": "publish_started", "level": "warn", "sentence": name}
        for name in names
    ]
    browser.resize(360, 740)
    show(browser, fake_relay)
    shown = browser.run("return [...document.querySelectorAll('.stream h3')].map((each) => each.textContent)")
    assert sorted(shown) == sorted(f"live/{name}" for name in names)
    shown = browser.run(
        "return [...document.querySelectorAll('.destination h3')].map((each) => each.textContent)"
    )
    assert sorted(shown) == sorted(names)
    # Changed texts are text, too.
    for destination in fake_relay.destinations.values():
        destination |= {"last_error": f"now {destination['name']}", "url": f"now {destination['name']}"}
    fake_relay.send_status()
    until(lambda: browser.text("[data-part=problemWords]").startswith("Now "), "the change")
    assert browser.run("return window.harmed") is None
    assert browser.count(".card img, .card script, #events img, #events script") == 0
    for compact in (True, False):
        browser.run(
            "const box = document.querySelector('[name=compact]'); if (box.checked !== arguments[0]) box.click()",
            compact,
        )
        assert overflow(browser) == 0
        assert browser.run(CUT_OFF) == []


def test_plot_has_all_pixels_and_is_read_out_by_mouse_and_keyboard(
    browser: Browser, fake_relay: FakeRelay
) -> None:
    fake_relay.streams["live/a"] = fake.stream("live/a")
    fake_relay.hello["history"]["streams"]["live/a"] = [2000] * 100 + [None] * 100 + [4000] * 99
    show(browser, fake_relay)
    pixels, width = browser.run(
        "const plot = document.querySelector('.plot canvas'); return [plot.width, plot.clientWidth]"
    )
    assert abs(pixels - 2 * width) <= 1
    readout = ".stream output"
    browser.run("document.querySelector('.stream .plot canvas').focus()")
    for keys, expected in (
        ("\ue011", "2.00 Mbit/s · "),
        ("\ue014" * 30, "no data · "),
        ("\ue010", "6.12 Mbit/s · "),
    ):
        browser.type(".stream .plot canvas", keys)
        assert browser.text(readout).startswith(expected)
    browser.type(".stream .plot canvas", "\ue00c")
    assert browser.run("return document.querySelector(arguments[0]).hidden", readout) is True
    assert "between 2.00 Mbit/s and" in browser.run("return document.querySelector('.plot canvas').ariaLabel")


def test_labels_of_a_plot_never_overlap(browser: Browser, fake_relay: FakeRelay) -> None:
    fake_relay.streams["live/a"] = fake.stream("live/a")
    fake_relay.hello["history"]["streams"]["live/a"] = [2000] * 300
    show(browser, fake_relay)
    for width, first, count in (
        (800, "5 min ago", 6),
        (420, "5 min ago", 6),
        (320, "5 min", 6),
        (180, "5 min ago", 2),
    ):
        times, crowded = browser.run(CROWDED_LABELS, width)
        assert crowded == [], width
        assert (times[0], times[-1]) == (first, "now")
        assert len(times) == count


@pytest.mark.parametrize("width", [1280, 1000, 390, 360])
def test_totals_are_aligned_at_every_width(width: int, browser: Browser, fake_relay: FakeRelay) -> None:
    """No label is broken within a word, and no figure is lower than those beside it."""
    fake_relay.streams["live/a"] = fake.stream("live/a", bitrate_kbps=123_000.0)
    for number in range(12):
        state = "connected" if number else "error"
        fake_relay.destinations[f"to {number}"] = fake.destination(f"to {number}", status=state)
    browser.resize(width, 900)
    show(browser, fake_relay)
    assert browser.text("#total-failing") == "1 failing"
    names, figures = browser.run(
        "const all = (selector) => [...document.querySelectorAll(`.totals ${selector}`)];"
        "const box = (each) => each.getBoundingClientRect();"
        "return [all('dt').map((each) => box(each).height),"
        " all('dl > div').map((each) => box(each.querySelector('b')).top - box(each).top)]"
    )
    assert max(names) - min(names) < 1
    assert max(figures) - min(figures) < 1
    assert overflow(browser) == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_the_contrast_of_wcag_aa_in_both_themes(
    theme: str, browser: Browser, fake_relay: FakeRelay
) -> None:
    """The theme is remembered."""
    fake_relay.streams["live/a"] = fake.stream(
        "live/a", messages_dropped=5, dropped_by_reason={"queue_full": 5}, destinations=["error"]
    )
    fake_relay.streams["live/b"] = fake.stream("live/b", live=False, publisher=None)
    for state in ("connecting", "connected", "error"):
        fake_relay.destinations[state] = fake.destination(state, status=state, last_error="it broke")
    fake_relay.hello["events"] = [
        {"time": fake_relay.now, "event": "x", "level": "warn", "sentence": "it broke"}
    ]
    show(browser, fake_relay)
    browser.run("document.querySelector(`input[name=theme][value=${arguments[0]}]`).click()", theme)
    browser.open(fake_relay.url)
    until(lambda: browser.run("return document.body.dataset.loaded"), "the first status")
    assert browser.run("return getComputedStyle(document.documentElement).colorScheme") == theme
    unlock(browser)
    until(lambda: browser.count(".controls"), "the controls")
    browser.click(".stream [data-part=links]")
    assert browser.run(FAINT_TEXT) == []
    for dialog in ("add-dialog", "unlock-dialog", "locked-dialog"):
        browser.run("document.getElementById(arguments[0]).showModal()", dialog)
        assert browser.run(FAINT_TEXT) == []
        browser.run("document.getElementById(arguments[0]).close()", dialog)


def test_every_control_has_an_accessible_name(browser: Browser, fake_relay: FakeRelay) -> None:
    fake_relay.streams["live/a"] = fake.stream("live/a")
    fake_relay.destinations["YouTube"] = fake.destination("YouTube")
    show(browser, fake_relay)
    assert nameless(browser) == []
    tree = browser.devtools("Accessibility.getFullAXTree")["nodes"]
    roles = {node["role"]["value"] for node in tree}
    assert {"banner", "navigation", "main", "region", "heading", "article"} <= roles


def test_buttons_on_a_phone_are_large_enough_for_a_finger(browser: Browser, fake_relay: FakeRelay) -> None:
    fake_relay.streams["live/a"] = fake.stream("live/a")
    fake_relay.destinations["YouTube"] = fake.destination("YouTube")
    browser.resize(390, 844)
    browser.devtools("Emulation.setTouchEmulationEnabled", enabled=True)
    try:
        show(browser, fake_relay)
        unlock(browser)
        until(lambda: browser.count(".controls"), "the controls")
        heights = browser.run(
            "return [...document.querySelectorAll('.button:not(.small)')].filter((each) => each.checkVisibility())"
            ".map((each) => each.getBoundingClientRect().height)"
        )
        assert len(heights) >= 7
        assert min(heights) >= 40
        assert overflow(browser) == 0
        assert browser.run(CUT_OFF) == []
    finally:
        browser.devtools("Emulation.setTouchEmulationEnabled", enabled=False)
