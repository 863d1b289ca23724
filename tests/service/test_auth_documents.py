"""What docs/access.rst, docs/hooks.rst and docs/SECURITY.md show works, and nothing is missing."""

from __future__ import annotations

import re
import shutil
import textwrap
from pathlib import Path

import pytest

from rtmprelay.access.authorizers.keys_rules import parse_keys
from rtmprelay.access.request import Action
from rtmprelay.config.limits import limits_help
from tests.service.command import TWISTD, run

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, kind: str) -> list[str]:
    """The code blocks of a page."""
    found = re.findall(rf"\.\. code-block:: {kind}\n\n((?:   .*\n|\n)+)", (DOCS / page).read_text())
    return [textwrap.dedent(block) for block in found]


def test_the_keys_file() -> None:
    rules = parse_keys(blocks("access.rst", "json")[0])
    assert rules.rule(Action.PLAY, "live/film").anyone
    assert rules.rule(Action.PUBLISH, "live/film").hashes
    assert rules.rule(Action.PUBLISH, "studio/film").users == {"anna"}
    assert rules.wants_user("studio")


def test_the_pages_are_linked_and_know_every_plugin(tmp_path: Path) -> None:
    index = (DOCS / "index.rst").read_text()
    assert "\n   access\n" in index
    assert "\n   hooks\n" in index
    listed = run([*TWISTD, "rtmprelay", "--help-plugins"], tmp_path).stdout
    authorizers, _, hooks = listed.partition("Event sinks")
    for page, names in (("access.rst", authorizers), ("hooks.rst", hooks)):
        for name in re.findall(r"^  ([a-z-]+):", names, re.MULTILINE):
            assert re.search(rf"^{name}:", (DOCS / page).read_text(), re.MULTILINE), name


def test_every_option_of_a_plugin_is_documented(tmp_path: Path) -> None:
    listed = run([*TWISTD, "rtmprelay", "--help-plugins"], tmp_path).stdout
    pages = (DOCS / "access.rst").read_text() + (DOCS / "hooks.rst").read_text()
    for options in re.findall(r"\[#([^\]]+)\]", listed):
        for option in options.split("&"):
            name = option.partition("=")[0]
            assert re.search(rf"^{name} |#{name}=", pages, re.MULTILINE), name


def test_what_each_limit_defends_is_told() -> None:
    """No limit without a reason, and none that does not exist."""
    section = (
        (DOCS / "SECURITY.md").read_text().partition("## What each limit defends")[2].partition("## ")[0]
    )
    rows = [line for line in section.splitlines() if line.startswith("|")]
    told = set(re.findall(r"`([a-z_]+)`", "".join(rows)))
    assert told == set(re.findall(r"^  (\w+)=", limits_help(), re.MULTILINE))


def test_the_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two files of the example are all that it takes."""
    (tmp_path / "rtmprelay_plugins").mkdir()
    shutil.copy(DOCS / "examples" / "door_plugin.py", tmp_path / "rtmprelay_plugins")
    shutil.copy(DOCS / "examples" / "door.py", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    listed = run([*TWISTD, "rtmprelay", "--help-plugins"], tmp_path)
    assert "  door:WORD\n      Lets those in who know the word.\n" in listed.stdout
    refused = run([*TWISTD, "-n", "rtmprelay", "--auth", "door:"], tmp_path)
    assert "--auth: door: the word is missing" in refused.stderr
