"""Every command and program on a page is run by a test, or read by the program that it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtmprelay.errors import RtmpRelayError
from tests.docs.checks import PROGRAMS, check
from tests.docs.pages import Block, blocks, blocks_of, commands_of, inline_commands, pages
from tests.docs.parsers import UnreadableError, check_option_names


@pytest.mark.parametrize("block", blocks(), ids=str)
def test_block_of_a_page_is_run_or_parsed(block: Block, folder: Path) -> None:
    check(block, folder)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_options_modules_and_commands_named_in_the_text_exist(page: Path) -> None:
    """Options, modules and commands that the text names exist."""
    for code in inline_commands(page, frozenset(PROGRAMS) - {"."}):
        # Quotes may be left open where a line is cut short.
        words = code.split() if code.count("'") % 2 or code.count('"') % 2 else None
        for command in [words] if words else [list(command.words) for command in commands_of(code)]:
            check_option_names(command)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("sh", "frobnicate --now"),
        ("sh", "twistd -n rtmprelay --no-such-option"),
        ("sh", "twistd -n rtmprelay --listen 99999"),
        ("sh", "twistd -n rtmprelay [--no-such-option]"),
        ("sh", "python -m spark_analytics frobnicate"),
        ("sh", "python -m rtmprelay.flv check"),
        ("sh", "pip install '.[frobnication]'"),
        ("sh", "docker run -p 1935:1936 rtmprelay"),
        ("text", "something that nobody knows"),
        ("text", "--hook frobnicate:now"),
        ("", "increase(rtmprelay_frobnications_total[5m]) > 0"),
        ("json", '{"destinations": [{"name": "a", "url": "http://wrong"}]}'),
        ("json", '{"event": "play_started", "frobnication": 1}'),
        ("python", "print('of no example')"),
        ("cobol", "DISPLAY 'HELLO'."),
    ],
)
def test_a_wrong_or_unknown_one_is_found(
    language: str, text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checks can fail."""
    with pytest.raises((AssertionError, RtmpRelayError)):
        check(Block("docs/new.rst", 1, language, text), folder)
    capsys.readouterr()


def test_a_directive_that_nobody_knows_is_found() -> None:
    """It might show a command that no test sees."""
    with pytest.raises(ValueError, match="parsed-literal"):
        blocks_of(Path("new.rst"), ".. parsed-literal::\n\n   twistd -n rtmprelay\n")


def test_blocks_are_found() -> None:
    """In all the ways in which pages write them."""
    found = blocks_of(
        Path("new.rst"), "Do::\n\n   a b\n\n.. code-block:: sh\n   :caption: x\n\n   c \\\n     d\n\nEnd.\n"
    )
    assert [(block.language, block.text) for block in found] == [("", "a b"), ("sh", "c \\\n  d")]
    found = blocks_of(Path("new.md"), "Do:\n\n```sh\ne f\n```\n")
    assert [(block.line, block.language, block.text) for block in found] == [(3, "sh", "e f")]


def test_a_sketch_with_an_unknown_command_is_found() -> None:
    with pytest.raises(UnreadableError):
        check_option_names(["python", "-m", "spark_analytics", "frobnicate", "[--out", "DIR]"])
