"""README.md: the program that embeds a relay runs, and what the README points to is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, pages
from tests.helpers import DEADLINE
from tests.service.command import BlockingClient, port_in

#: Shows what is logged, which a program that embeds the relay decides for itself.
_WITH_A_LOG = """
import sys
from twisted.logger import globalLogBeginner, textFileLogObserver
globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stdout)], redirectStandardIO=False)
"""


def test_readme_program_embeds_a_relay(tmp_path: Path) -> None:
    """A client connects to the relay in the program, which ends on a signal."""
    (program,) = (block.text for block in blocks() if (block.page, block.language) == ("README.md", "python"))
    assert len(program.splitlines()) <= 10
    here = program.replace('"tcp:1935"', '"tcp:0:interface=127.0.0.1"')
    assert here != program
    log = tmp_path / "out.log"
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-u", "-c", _WITH_A_LOG + here], stdout=out, stderr=out)
    try:
        BlockingClient(port_in(log, process)).socket.close()
        process.terminate()
        process.wait(DEADLINE)
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize(
    "page", [page for page in pages() if page.suffix == ".md"], ids=lambda page: page.stem
)
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    """Files that Markdown links to exist. In the other pages Sphinx sees to that."""
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_license_contributing_changelog_and_security_are_there() -> None:
    """A visitor finds how to contribute, what is new, where to report a vulnerability, and the license."""
    for name in ("LICENSE", "docs/CONTRIBUTING.md", "docs/CHANGELOG.rst", "docs/SECURITY.md"):
        assert (ROOT / name).read_text().strip(), name
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")
