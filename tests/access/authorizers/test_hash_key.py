"""Hashes of keys, and the command that prints them."""

from __future__ import annotations

import base64
import hashlib
import os
import pty
import re
import subprocess
import sys

import pytest

from rtmprelay.access.authorizers.hash_key import ScryptHash
from rtmprelay.errors import ConfigError
from rtmprelay.secret import Secret

COMMAND = [sys.executable, "-m", "rtmprelay.access.authorizers.hash_key"]

SALT = b"saltsalt"


def test_only_the_right_key_matches_a_hash() -> None:
    hashed = ScryptHash.of(Secret("geheim"))
    assert hashed.matches(Secret("geheim"))
    assert not hashed.matches(Secret("geheim "))
    assert ScryptHash.parse(str(hashed)) == hashed


def test_hash_from_another_scrypt_program_is_accepted() -> None:
    digest = hashlib.scrypt(b"geheim", salt=SALT, n=1024, r=8, p=2, dklen=32)
    text = "$scrypt$ln=10,r=8,p=2${}${}".format(
        *(base64.b64encode(part).decode().rstrip("=") for part in (SALT, digest))
    )
    assert ScryptHash.parse(text).matches(Secret("geheim"))
    assert not ScryptHash.parse(text).matches(Secret("falsch"))


def test_two_hashes_of_one_key_differ() -> None:
    assert str(ScryptHash.of(Secret("geheim"))) != str(ScryptHash.of(Secret("geheim")))


def test_repr_does_not_show_the_digest() -> None:
    hashed = ScryptHash.of(Secret("geheim"))
    assert str(hashed).rpartition("$")[2] not in repr(hashed)


@pytest.mark.parametrize(
    "text",
    [
        "$scrypt$",
        "$scrypt$ln=14,r=8,p=1$c2FsdHNhbHQ$",
        "$scrypt$ln=14,r=8,p=1$c2FsdHNhbHQ$aGFzaA",
        "$scrypt$ln=14,r=8,p=1$c2E$aGFzaGhhc2hoYXNoaGFzaA",
        "$scrypt$ln=14,r=8,p=1$c2FsdHNhbHQ=$aGFzaGhhc2hoYXNoaGFzaA",
        "$scrypt$ln=14,r=8,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaAAAA$more",
        "$scrypt$ln=30,r=8,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA",
        "$scrypt$ln=20,r=99,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA",
        "$scrypt$ln=14,r=0,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA",
        "$scrypt$ln=14,r=8,p=16$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA",
        "$argon2id$v=19$m=65536$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA",
    ],
)
def test_malformed_or_too_expensive_hash_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ScryptHash.parse(text)
    assert "aGFzaA" not in str(caught.value)


# -- the command ---------------------------------------------------------------------------------------------------


def hash_key(given: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], input=given, capture_output=True, text=True, check=False, timeout=30
    )


@pytest.mark.parametrize("given", ["geheim", "geheim\n", "geheim\r\n"])
def test_command_reads_the_key_from_standard_input(given: str) -> None:
    done = hash_key(given)
    assert done.returncode == 0
    assert done.stderr == ""
    assert ScryptHash.parse(done.stdout.strip()).matches(Secret("geheim"))


@pytest.mark.parametrize("given", ["", "\n", "two\nlines", "a\tb", "x" * 5000])
def test_command_refuses_anything_but_one_printable_line(given: str) -> None:
    done = hash_key(given)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "hash_key: one line of printable text is expected\n"


def test_command_refuses_arguments_and_does_not_repeat_them() -> None:
    done = hash_key("", "MARKED")
    assert done.returncode == 2
    assert "usage" in done.stderr
    assert "MARKED" not in done.stderr + done.stdout
    assert hash_key("", "--help").returncode == 0


def run_on_terminal(*lines: str) -> str:
    """What the command prints on a terminal while these lines are typed."""
    process, terminal = pty.fork()
    if process == 0:
        os.execv(COMMAND[0], COMMAND)
    shown = b""
    for line in lines:
        while not re.search(rb"(Key|Again): $", shown):
            shown += os.read(terminal, 1024)
        os.write(terminal, line.encode() + b"\n")
        shown += b"|"
    try:
        while data := os.read(terminal, 1024):
            shown += data
    except OSError:
        # Linux reports the end of a terminal as an error.
        pass
    os.close(terminal)
    os.waitpid(process, 0)
    return shown.decode()


def test_command_asks_twice_on_a_terminal_and_echoes_nothing() -> None:
    shown = run_on_terminal("geheim", "geheim")
    assert "geheim" not in shown
    (found,) = re.findall(r"\$scrypt\S+", shown)
    assert ScryptHash.parse(found).matches(Secret("geheim"))


def test_command_prints_no_hash_when_the_two_keys_differ() -> None:
    shown = run_on_terminal("geheim", "gehiem")
    assert "not the same" in shown
    assert "$scrypt" not in shown
