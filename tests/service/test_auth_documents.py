"""The examples of docs/access.rst and docs/hooks.rst work, and both pages and docs/SECURITY.md are complete."""

from __future__ import annotations

import re
import shutil
import textwrap
from pathlib import Path

import pytest

from rtmprelay.access.authorizers.keys_rules import parse_keys
from rtmprelay.access.request import Action
from rtmprelay.config.limits import limits_help
from rtmprelay.config.plugins import plugins_help
from tests.service.command import FOREGROUND, TWISTD, run

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, kind: str) -> list[str]:
    """The code blocks of a page."""
    found = re.findall(rf"\.\. code-block:: {kind}\n\n((?:   .*\n|\n)+)", (DOCS / page).read_text())
    return [textwrap.dedent(block) for block in found]


def test_documented_keys_file_is_valid() -> None:
    rules = parse_keys(blocks("access.rst", "json")[0])
    assert rules.rule(Action.PLAY, "live/film").anyone
    assert rules.rule(Action.PUBLISH, "live/film").hashes
    assert rules.rule(Action.PUBLISH, "studio/film").users == {"anna"}
    assert rules.wants_user("studio")


def test_every_plugin_has_a_section_on_a_linked_page() -> None:
    index = (DOCS / "index.rst").read_text()
    assert "\n   access\n" in index
    assert "\n   hooks\n" in index
    authorizers, _, hooks = plugins_help().partition("Event sinks")
    for page, names in (("access.rst", authorizers), ("hooks.rst", hooks)):
        for name in re.findall(r"^  ([a-z-]+):", names, re.MULTILINE):
            assert re.search(rf"^{name}:", (DOCS / page).read_text(), re.MULTILINE), name


def test_every_option_of_a_plugin_is_documented() -> None:
    pages = (DOCS / "access.rst").read_text() + (DOCS / "hooks.rst").read_text()
    found = re.findall(r"\[#([^\]]+)\]", plugins_help())
    assert len(found) >= 5
    for options in found:
        for option in options.split("&"):
            name = option.partition("=")[0]
            assert re.search(rf"^{name} |#{name}=", pages, re.MULTILINE), name


def test_every_limit_has_its_reason_in_the_security_page() -> None:
    section = (
        (DOCS / "SECURITY.md").read_text().partition("## What each limit defends")[2].partition("## ")[0]
    )
    rows = [line for line in section.splitlines() if line.startswith("|")]
    explained = set(re.findall(r"`([a-z_]+)`", "".join(rows)))
    assert explained == set(re.findall(r"^  (\w+)=", limits_help(), re.MULTILINE))


def test_documented_plugin_is_found_and_checks_its_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rtmprelay_plugins").mkdir()
    shutil.copy(DOCS / "examples" / "door_plugin.py", tmp_path / "rtmprelay_plugins")
    shutil.copy(DOCS / "examples" / "door.py", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    listed = run([*TWISTD, "rtmprelay", "--help-plugins"], tmp_path)
    assert "  door:WORD\n      Lets those in who know the word.\n" in listed.stdout
    refused = run([*TWISTD, *FOREGROUND, "rtmprelay", "--auth", "door:"], tmp_path)
    assert "--auth: door: the word is missing" in refused.stderr
