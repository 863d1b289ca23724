"""The commands that start a server, on all pages: each one is typed, and the server starts and ends."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from rtmprelay.access.authorizers.keys_rules import parse_keys
from tests.docs.checks import SKETCHED, moved
from tests.docs.pages import blocks, commands_in, commands_of, inline_commands, pages, shell_lines
from tests.docs.terminal import Terminal
from tests.helpers import DEADLINE, wait_for

#: Several servers that need each other, and one with a plugin: tests/cluster/test_howto.py and test_examples.py type these.
ELSEWHERE = {"docs/howto/nodes.rst", "docs/howto/plugins.rst"}

KEYS = "docs/howto/keys.rst"


def serving(words: tuple[str, ...], line: str) -> bool:
    """Whether a command starts a server here, and is no sketch of one."""
    return (
        words[:2] == ("rtmprelay", "serve")
        and not {"--help", "--help-plugins", "--check-destinations", "--config"} & set(words)
        and not SKETCHED.search(line)
    )


def documented() -> list[str]:
    """Every different command, in blocks and in the text."""
    in_blocks = [
        command
        for block in blocks()
        if block.language in {"sh", "text", ""} and block.file is None and block.page not in ELSEWHERE
        for command in commands_in(block.text)
    ]
    in_text = [
        command
        for page in pages()
        for code in inline_commands(page, frozenset({"rtmprelay"}))
        for command in commands_of(code)
    ]
    found = [command.words for command in in_blocks + in_text if serving(command.words, command.line)]
    return sorted({shlex.join(words) for words in found})


def with_free_ports(words: list[str]) -> list[str]:
    """The same command on any free ports of this machine alone."""
    replaced = [words[0]]
    for before, word in pairwise(words):
        if before in {"--listen", "--http-status", "--http-media"}:
            word = re.sub(r"^([\d.]+:|:)?\d+$", "127.0.0.1:0", word)
            word = re.sub(
                r"^((?:haproxy:)?(?:tcp|ssl)):\d+(?::interface=[\d.]+)?", r"\1:0:interface=127.0.0.1", word
            )
        replaced.append(word)
    return replaced if "--listen" in replaced else [*replaced, "--listen", "127.0.0.1:0"]


def test_ports_of_a_command_are_replaced_by_free_ones() -> None:
    words = "serve --listen 443 --listen ssl:443:privateKey=k --http-status :8080 --http-media 127.0.0.1:8081"
    here = with_free_ports(words.split())
    assert here[2::2] == [
        "127.0.0.1:0",
        "ssl:0:interface=127.0.0.1:privateKey=k",
        "127.0.0.1:0",
        "127.0.0.1:0",
    ]


@pytest.mark.full
@pytest.mark.parametrize("line", documented())
def test_documented_command_starts_a_server_that_ends_at_sigterm(line: str, folder: Path) -> None:
    words = [moved(word, folder) for word in with_free_ports(shlex.split(line)[1:])]
    log = folder / "out.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [sys.executable, "-m", "rtmprelay", *words], cwd=folder, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        wait_for(lambda: server.poll() is not None or " started (run" in log.read_text(), line)
        server.terminate()
        server.wait(DEADLINE)
    finally:
        server.kill()
        server.wait()
    text = log.read_text()
    assert " stopped after" in text, text
    assert "Traceback" not in text


def test_page_with_keys_works_as_written(terminal: Terminal) -> None:
    """Each server takes the file that was made for it, and nobody else on the machine can read the secret ones."""
    lines = [
        line
        for block in blocks()
        if block.page == KEYS and block.language == "sh"
        for line in shell_lines(block.text)
    ]
    (
        make_token,
        protect_token,
        with_token,
        asking,
        make_keys,
        protect_keys,
        show,
        with_keys,
        certify,
        with_tls,
    ) = lines
    terminal.run(make_token)
    terminal.run(protect_token)
    terminal.start_server(with_token)
    assert json.loads(terminal.run(asking))["authorized"] is True
    terminal.run(make_keys)
    terminal.run(protect_keys)
    assert parse_keys(terminal.run(show))
    terminal.start_server(with_keys)
    terminal.run(certify)
    server = terminal.start(re.sub(r"ssl:\d+", "ssl:0:interface=127.0.0.1", with_tls))
    wait_for(lambda: " for RTMPS" in terminal.log_of(server).read_text(), with_tls)
    for name in ("token.txt", "keys.json", "key.pem"):
        assert (terminal.folder / name).stat().st_mode & 0o077 == 0, name
