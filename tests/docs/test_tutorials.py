"""The tutorials, followed word by word: each command is typed, in its order, and does what the page says."""

from __future__ import annotations

import json
import re
import signal

import pytest

from tests.docs.pages import DOCS, blocks, shell_lines
from tests.docs.terminal import Terminal
from tests.helpers import wait_for

#: What a new user has done before: the environment of these tests is made by the same lines.
INSTALLATION = ("python3 -m venv", ". venv/bin/activate", "pip install")


def typed(page: str) -> list[str]:
    """What is typed, line by line, without the installation."""
    lines = [
        line
        for block in blocks()
        if block.page == f"docs/tutorials/{page}.rst" and block.language == "sh"
        for line in shell_lines(block.text)
    ]
    return [line for line in lines if not line.startswith(INSTALLATION)]


def printed(page: str) -> list[str]:
    """What the page shows as printed, in its order."""
    return [
        block.text
        for block in blocks()
        if block.page == f"docs/tutorials/{page}.rst" and block.language == "output"
    ]


def assert_prints(actual: str, shown: str) -> None:
    """The page shows what was printed, line by line but for `...`, with any numbers, ports and folders."""
    pattern = ""
    for line in shown.splitlines():
        escaped = re.sub(r"(?:\\ )+", r"\\s+", re.escape(line.strip()))
        escaped = re.sub(r"run\\s\+[^)\\]+(?:\\-[^)\\]+)*", r"run [\\da-f-]+", escaped)
        escaped = re.sub(r"\d+(?:\\\.\d+)*", r"[\\d.]+(?::\\d+)?", escaped)
        escaped = re.sub(r"session=\w+", r"session=[\\w-]+", escaped)
        escaped = re.sub(r"/home/you/\S*", r"\\S+", escaped)
        pattern += r"(?:.*\s+)*?" if line.strip() == "..." else rf"\s*{escaped}\s*"
    assert re.search(pattern, actual), f"shown:\n{shown}\nprinted:\n{actual}"


def test_shown_output_is_compared_but_for_its_numbers() -> None:
    log = "2026-11-19T20:00:01+0000 [rtmprelay#info] started (run 20261119-200000-9a69ce)\na\nListening on 127.0.0.1:1935"
    shown = "2026-01-01T00:00:00+0000 [rtmprelay#info] started (run 20260101-000000-000000)"
    assert_prints(log, shown)
    assert_prints(log, f"{shown}\n...\nListening on 127.0.0.1:80")
    for wrong in ("stopped", f"{shown}\nListening on 127.0.0.1:80", "Listening on nothing"):
        with pytest.raises(AssertionError):
            assert_prints(log, wrong)


def test_tutorial_first_stream_works_as_written(terminal: Terminal) -> None:
    started, answered, recorded = printed("first_stream")
    server, encoder, player, *asking, listing, checking = typed("first_stream")
    relay = terminal.start_server(server)
    wait_for(lambda: "may publish" in terminal.log_of(relay).read_text(), "the last line of the start")
    assert_prints(terminal.log_of(relay).read_text(), started)
    publisher = terminal.start(encoder)
    wait_for(lambda: is_live(terminal), "the stream")
    terminal.run(player)
    answers = [terminal.run(line) for line in asking]
    assert answers[0].startswith(answered)
    stream, health = (json.loads(answer) for answer in answers)
    assert (stream["video"]["codec"], stream["audio"]["codec"], stream["live"]) == ("H.264 AVC", "AAC", True)
    assert health["streams"] == 1
    terminal.end(publisher)
    wait_for(lambda: not is_live(terminal), "the end of the stream")
    terminal.end(relay)
    assert_prints(terminal.run(listing) + terminal.run(checking), recorded)
    assert sorted(path.name for path in terminal.folder.iterdir()) == ["recordings"]


def is_live(terminal: Terminal) -> bool:
    """Whether somebody publishes."""
    streams = json.loads(terminal.run("curl http://127.0.0.1:8080/streams"))["streams"]
    return any(stream["live"] for stream in streams.values())


def test_relay_to_a_platform(terminal: Terminal) -> None:
    practice, protect, export, check, server, encoder, asking = typed("relay_to_a_platform")
    checked, connected, returned = printed("relay_to_a_platform")
    platform = terminal.start_server(practice)
    (configuration,) = (
        block.text
        for block in blocks()
        if block.page.endswith("relay_to_a_platform.rst") and block.language == "json"
    )
    (terminal.folder / "relay.json").write_text(terminal.here(configuration))
    terminal.run(protect)
    terminal.export(export)
    assert_prints(terminal.run(check), checked)
    relay = terminal.start_server(server)
    terminal.start(encoder)

    def destination() -> dict[str, object]:
        found: dict[str, object] = json.loads(terminal.run(asking))["destinations"]["practice"]
        return found

    wait_for(lambda: destination()["status"] == "connected", "the connection to the platform")
    log = terminal.log_of(relay)
    assert_prints(log.read_text(), connected)
    play = re.search(r"``(ffplay rtmp://127\.0\.0\.1:1936/\S+)``", page("relay_to_a_platform"))
    assert play is not None
    terminal.run(play[1])
    # The platform goes, and comes back in its old place.
    terminal.end(platform, signal.SIGINT)
    wait_for(lambda: destination()["status"] != "connected", "the loss of the platform")
    terminal.start_server(practice, again=True)
    wait_for(lambda: destination()["status"] == "connected", "the platform's return")
    wait_for(lambda: "were not sent" in log.read_text(), "the count of what was not sent")
    assert_prints(log.read_text(), returned)
    assert is_live(terminal)
    # The platform knows it as the name of a stream; the relay keeps it to itself.
    assert "my-secret-key" not in log.read_text()


def test_watch_in_a_browser(terminal: Terminal) -> None:
    server, encoder, player, reading = typed("watch_in_a_browser")
    relay = terminal.start_server(server)
    publisher = terminal.start(encoder)
    wait_for(lambda: "Codec detected" in terminal.log_of(relay).read_text(), "the stream")
    terminal.run(player)
    assert (terminal.folder / "first.mp4").stat().st_size > 1000
    (shown,) = printed("watch_in_a_browser")
    assert_prints(terminal.run(reading), shown)
    terminal.end(publisher)
    terminal.end(relay)


def page(name: str) -> str:
    """The text of a tutorial."""
    return (DOCS / "tutorials" / f"{name}.rst").read_text()
