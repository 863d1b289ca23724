"""The output of the demo: the table, the lines and the verdict."""

from __future__ import annotations

import io
import json
import os
import re

import pytest

from rtmprelay.demo.display import (
    DIFFERS,
    IDENTICAL,
    Display,
    Rate,
    Row,
    TerminalDisplay,
    display_for,
    plain_line,
    table,
)
from rtmprelay.demo.tape import ReceivedTape, SentTape
from rtmprelay.demo.verdict import DemoVerdict, ReceiverResult
from tests.helpers import group, start_frames

ROWS = [
    Row("source", "publishing", 100, 512.34),
    Row("destination-1", "connected", 99, 510.0, 0.0015, 0.004, IDENTICAL),
    Row("player", "playing", 98, None, None, None, DIFFERS),
]


def test_table_aligns_its_columns() -> None:
    assert table(ROWS, 120) == [
        "receiver       state       messages  kbit/s  latency ms (worst)  media",
        "source         publishing       100   512.3",
        "destination-1  connected         99   510.0           1.5 (4.0)  identical",
        "player         playing           98                              DIFFERS",
    ]


def test_table_is_never_wider_than_the_terminal() -> None:
    for width in range(1, 90):
        assert max(map(len, table(ROWS, width))) <= width


def test_narrow_table_keeps_names_and_results() -> None:
    assert table(ROWS, 25)[1:] == ["source", "destination-1  identical", "player         DIFFERS"]


def test_table_colours_the_results() -> None:
    lines = table(ROWS, 120, colour=True)
    assert lines[2].endswith("\x1b[32midentical\x1b[0m")
    assert lines[3].endswith("\x1b[31mDIFFERS\x1b[0m")


def test_plain_line_has_all_receivers() -> None:
    expected = "5 s: 100 messages sent, 512 kbit/s; destination-1 99 identical, player 98 DIFFERS"
    assert plain_line(5.2, ROWS[0], ROWS[1:]) == expected


def test_rate_covers_the_last_seconds() -> None:
    rate = Rate()
    assert rate.update(0.0, 0) is None
    assert rate.update(1.0, 1000) == pytest.approx(8.0)
    for second in range(2, 20):
        kbps = rate.update(float(second), 1000 + 5000 * (second - 1))
    assert kbps == pytest.approx(40.0)


def test_terminal_display_draws_over_the_table_before() -> None:
    out = io.StringIO()
    display = TerminalDisplay(out, colour=False, terminal_size=lambda: os.terminal_size((100, 30)))
    display.show(1.0, ROWS)
    display.show(3661.5, ROWS)
    first, up, second = out.getvalue().partition("\x1b[5A")
    assert up
    assert first.count("\n") == second.count("\n") == 5
    assert "1:01:01, Ctrl-C ends it and checks everything" in second


def test_terminal_display_draws_below_printed_lines() -> None:
    out = io.StringIO()
    display = TerminalDisplay(out, terminal_size=lambda: os.terminal_size((100, 30)))
    display.show(1.0, ROWS)
    display.say("words")
    display.show(2.0, ROWS)
    assert not re.search(r"\x1b\[\d+A", out.getvalue())


def test_terminal_display_starts_again_after_a_resize() -> None:
    sizes = iter([os.terminal_size((100, 30)), os.terminal_size((40, 3))])
    out = io.StringIO()
    display = TerminalDisplay(out, terminal_size=lambda: next(sizes))
    display.show(1.0, ROWS)
    before = len(out.getvalue())
    display.show(2.0, ROWS)
    drawn = out.getvalue()[before:]
    assert "\x1b[5A" not in drawn
    assert drawn.count("\n") == 2, "no more lines than fit"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("out", "environment", "kind"),
    [
        (io.StringIO(), {"TERM": "xterm"}, Display),
        (Terminal(), {"TERM": "dumb"}, Display),
        (Terminal(), {}, Display),
        (Terminal(), {"TERM": "xterm"}, TerminalDisplay),
    ],
)
def test_table_is_drawn_only_on_capable_terminals(
    out: io.StringIO, environment: dict[str, str], kind: type[Display]
) -> None:
    assert type(display_for(out, environment)) is kind


def tapes(missing: int = 0) -> tuple[SentTape, ReceivedTape]:
    frames = [*start_frames(), *group(0)]
    sent = SentTape()
    received = ReceivedTape("player", sent)
    for frame in frames:
        sent.add(frame, 1.0)
    for frame in frames[: len(frames) - missing]:
        received.add(frame, 1.002)
    return sent, received


def verdict(missing: int = 0, failure: str | None = None, trouble: str | None = None) -> DemoVerdict:
    sent, received = tapes(missing)
    results = [ReceiverResult.of(tapes()[1]), ReceiverResult.of(received, failure)]
    return DemoVerdict.of(sent, results, 2.0, "x.flv", trouble)


def test_verdict_passes_when_all_got_the_same() -> None:
    good = verdict()
    assert good.passed
    lines = good.lines()
    assert lines[0].startswith("Sent 12 audio and video messages (")
    assert "The recording is kept: x.flv" in lines
    assert lines[-1] == "OK: player and player got exactly what was sent"
    document = json.loads(json.dumps(good.as_json()))
    assert document["ok"] is True
    assert document["receivers"][1]["identical"] is True
    assert document["receivers"][1]["worst_latency_ms"] == pytest.approx(2.0)
    assert document["sent"]["digest"] == document["receivers"][0]["digest"]


@pytest.mark.parametrize(
    ("bad", "conclusion"),
    [
        (
            verdict(missing=1),
            "FAILED: player lacks 1 messages at the end, from message 12 (audio at 0.160 s) on",
        ),
        (
            verdict(missing=1, failure="connection refused"),
            "FAILED: player lacks 1 messages at the end, from message 12 (audio at 0.160 s) on (connection refused)",
        ),
        (verdict(failure="the disk is full"), "FAILED: player the disk is full"),
        (verdict(trouble="nobody came"), "FAILED: nobody came"),
        (DemoVerdict.of(SentTape(), [], 0.0), "FAILED: nothing was sent"),
    ],
)
def test_verdict_says_what_failed(bad: DemoVerdict, conclusion: str) -> None:
    assert not bad.passed
    assert bad.lines()[-1] == conclusion
    assert bad.as_json()["ok"] is False


def test_verdict_without_receivers_does_not_pass() -> None:
    assert not DemoVerdict.of(tapes()[0], [], 1.0).passed
