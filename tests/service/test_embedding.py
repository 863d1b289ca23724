"""The program in docs/embedding.rst works."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import DEADLINE
from tests.service.interop import FFmpeg

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "docs" / "examples" / "embed.py"


@pytest.fixture
def program() -> Iterator[subprocess.Popen[str]]:
    running = subprocess.Popen([sys.executable, str(PROGRAM)], stdout=subprocess.PIPE, text=True)
    yield running
    running.kill()
    running.communicate(timeout=DEADLINE)


def test_documented_program_announces_streams_and_stops_on_a_signal(
    program: subprocess.Popen[str], ffmpeg: FFmpeg
) -> None:
    assert program.stdout is not None
    address = re.search(r"rtmp://\S+/live/", program.stdout.readline())
    assert address is not None
    source = ffmpeg.make("embedded.flv", "-f lavfi -i sine=frequency=440 -t 1 -c:a aac")
    copy = [ffmpeg.program, "-v", "error", "-i", str(source), "-c", "copy", "-f", "flv"]
    subprocess.run([*copy, f"{address[0]}show"], check=True, timeout=DEADLINE)
    assert program.stdout.readline() == "publish_started live/show\n"
    assert program.stdout.readline() == "publish_stopped live/show\n"
    program.terminate()
    program.wait(DEADLINE)


def test_documented_program_is_the_tested_file_and_at_most_twenty_lines() -> None:
    page = (ROOT / "docs" / "embedding.rst").read_text()
    assert ".. literalinclude:: examples/embed.py" in page
    body = PROGRAM.read_text().partition("@implementer")[2]
    assert len([line for line in body.splitlines() if line.strip()]) <= 20
