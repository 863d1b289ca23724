"""The commands of ffmpeg, ffplay and curl on all pages but the tutorials, typed as they stand there."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import Block, blocks, commands_of, shell_lines
from tests.docs.terminal import Terminal
from tests.helpers import DEADLINE, wait_for
from tests.service.interop import FFmpeg

TUTORIALS = "docs/tutorials/"

#: A page with several relays, whose commands tests/cluster/test_howto.py types.
NODES = "docs/howto/nodes.rst"

MOVIE = (
    "-f lavfi -i testsrc2=size=160x90:rate=25 -f lavfi -i sine=frequency=440"
    " -t 1 -c:v libx264 -preset ultrafast -g 10 -pix_fmt yuv420p -c:a aac"
)

SERVER = "twistd -n rtmprelay --http-status :8080 --http-token file:token.txt --relay-config relay.json --hls 'live/*'"


def lines_with(*programs: str) -> list[tuple[Block, str]]:
    """What is typed for these programs, on any page."""
    return [
        (block, line)
        for block in blocks()
        if block.language in {"sh", "text", ""}
        and not block.page.startswith(TUTORIALS)
        and block.page != NODES
        and block.file is None
        for line in shell_lines(block.text)
        if line.split()[0] in programs
    ]


def is_publishing(line: str) -> bool:
    """Whether a command sends a stream, rather than getting one."""
    (command,) = commands_of(line)
    return command.words[-1].startswith("rtmp")


PUBLISHING = [line for _, line in lines_with("ffmpeg") if is_publishing(line)]
GETTING = [line for _, line in lines_with("ffmpeg", "ffplay", "curl") if not is_publishing(line)]


@pytest.fixture
def relay(terminal: Terminal, ffmpeg: FFmpeg) -> Terminal:
    """A terminal beside a relay, with a film."""
    film = ffmpeg.make("film.mp4", MOVIE)
    (terminal.folder / "film.mp4").symlink_to(film)
    (terminal.folder / "token.txt").write_text("a-long-token-of-a-test")
    (terminal.folder / "relay.json").write_text('{"destinations": []}')
    terminal.export("TOKEN=a-long-token-of-a-test")
    terminal.start_server(SERVER)
    return terminal


def live(relay: Terminal) -> set[str]:
    """The streams that are published."""
    streams = json.loads(relay.run("curl http://127.0.0.1:8080/streams"))["streams"]
    return {key for key, stream in streams.items() if stream["live"]}


def test_pages_have_commands_for_publishing_and_playing() -> None:
    assert len(PUBLISHING) >= 4
    assert {line.split()[0] for line in GETTING} == {"ffmpeg", "ffplay", "curl"}


def test_documented_publishing_commands_go_live(relay: Terminal) -> None:
    """Each one goes live under the name that the page says, and ends by itself or at Ctrl-C."""
    for line in PUBLISHING:
        address = re.search(r"rtmp://127\.0\.0\.1/([a-z/]+)", line)
        assert address is not None, line
        publish(relay, line, address[1])


def publish(relay: Terminal, line: str, name: str) -> None:
    """Type a publishing command."""
    process = relay.start(line)
    wait_for(lambda: name in live(relay), f"{line} going live")
    if "-stream_loop" not in line:
        assert process.wait(DEADLINE) == 0, relay.log_of(process).read_text()
    relay.end(process)
    wait_for(lambda: not live(relay), f"the end of {line}")


def test_documented_playing_commands_get_something(relay: Terminal) -> None:
    """Each one gets something while the stream is live."""
    for name in ("live/film", "live/test"):
        relay.start(f"ffmpeg -v error -re -stream_loop -1 -i film.mp4 -c copy -f flv rtmp://127.0.0.1/{name}")
    wait_for(lambda: {"live/film", "live/test"} <= live(relay), "two streams")
    for line in GETTING:
        # There is no such platform, and nobody is to be asked for it.
        line = line.replace("rtmps://a.rtmps.example/", "rtmp://127.0.0.1:1/")
        if " > " in line:
            stays_open(relay, line, relay.folder / line.rpartition(" > ")[2])
        else:
            relay.run(re.sub(r"-t \d+", "-t 1", line))
    assert (relay.folder / "kept.mkv").stat().st_size > 10_000
    assert json.loads((relay.folder / "relay.json").read_text())["destinations"][0]["name"] == "YouTube"


def stays_open(relay: Terminal, line: str, file: Path) -> None:
    """A command that gets a live stream until somebody ends it."""
    process: subprocess.Popen[bytes] = relay.start(line)
    wait_for(lambda: file.exists() and file.stat().st_size > 10_000, line)
    relay.end(process)
