"""The commands that need no server: what they print, and their exit status."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from rtmprelay import __version__
from rtmprelay.cli import main as cli
from rtmprelay.cli.init import settings_text
from rtmprelay.config.help import GROUPS
from rtmprelay.config.options import Options
from rtmprelay.config.settings_file import read_settings_file

Capture = pytest.CaptureFixture[str]


def status_of(*words: str) -> int:
    """The exit status of a command, however it ends."""
    try:
        return cli.main(words)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1


# -- the command itself --------------------------------------------------------------------------------------


def test_without_a_command_it_says_which_there_are(capsys: Capture) -> None:
    assert status_of() == 0
    printed = capsys.readouterr().out
    for command in cli.COMMANDS:
        assert command in printed
    assert "rtmprelay serve --relay-to" in printed


def test_version_is_printed(capsys: Capture) -> None:
    assert status_of("--version") == 0
    assert capsys.readouterr().out == f"rtmprelay {__version__}\n"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("nonsense", "there is no command 'nonsense' (there are serve, check,"),
        ("server", "there is no command 'server'; did you mean serve? ("),
        ("--listen", "options stand after a command: rtmprelay serve --listen ..."),
    ],
)
def test_unknown_command_is_refused_in_one_line(word: str, said: str, capsys: Capture) -> None:
    assert status_of(word) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"rtmprelay: {said}")
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", [*cli.COMMANDS])
def test_every_command_has_help(command: str, capsys: Capture) -> None:
    assert status_of(command, "--help") == 0
    assert f"rtmprelay {command}" in capsys.readouterr().out


# -- init ----------------------------------------------------------------------------------------------------


def test_init_writes_a_file_that_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "relay.toml"
    assert status_of("init", str(path)) == 0
    settings = read_settings_file(path, Options().known_options())
    assert (settings.settings, settings.destinations) == ((), ())


def test_init_explains_every_option() -> None:
    text = settings_text("relay.toml")
    for option in Options().known_options():
        assert f"\n# {option} = " in text


def test_every_example_of_init_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All comments that show a value are taken as settings, apart from those that need other files."""
    text = settings_text("relay.toml")
    lines = [line[2:] for line in text.splitlines() if line.startswith("# ") and " = " in line]
    document = "\n".join(
        line for line in lines if not line.startswith(("name", "url", "stream_key", "match"))
    )
    known = {name for name in tomllib.loads(document) if name in Options().known_options()}
    assert known == set(Options().known_options())


def test_no_example_of_init_is_empty(tmp_path: Path) -> None:
    examples = [line for line in settings_text("x").splitlines() if line.startswith("# ") and " = " in line]
    assert [line for line in examples if line.endswith(' = ""')] == []


def test_init_has_the_groups_of_the_help_and_is_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "relay.toml"
    assert status_of("init", str(path)) == 0
    headings = [line.split()[2] for line in path.read_text().splitlines() if line.startswith("# -- ")]
    assert headings[: len(GROUPS)] == [*GROUPS]
    assert path.stat().st_mode & 0o777 == 0o600


def test_init_leaves_a_file_that_is_there(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "relay.toml"
    path.write_text("mine\n")
    assert status_of("init", str(path)) == 1
    assert path.read_text() == "mine\n"
    assert "is there already" in capsys.readouterr().err


def test_init_in_a_folder_that_does_not_exist_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    assert status_of("init", str(tmp_path / "no" / "relay.toml")) == 1
    assert capsys.readouterr().err.count("\n") == 1


# -- check ---------------------------------------------------------------------------------------------------


def test_check_says_where_each_value_is_from(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "relay.toml"
    path.write_text("\nchunk-size = 4096\nrecord-dir = 'elsewhere'\n")
    assert status_of("check", "--config", str(path), "--record-dir", "here", "--record-all") == 0
    rows = {line.split()[0]: line.split(None, 2)[1:] for line in capsys.readouterr().out.splitlines() if line}
    assert rows["chunk-size"] == ["4096", f"{path}, line 2"]
    assert rows["record-dir"] == ["here", "command line"]
    assert rows["record-all"] == ["yes", "command line"]
    assert rows["listen"] == ["tcp:1935", "default"]
    assert rows["log-level"] == ["info", "default"]


@pytest.mark.usefixtures("_nothing_is_tried")
def test_check_shows_no_secret(tmp_path: Path, capsys: Capture) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text('{"publish": {"live/*": ["HIDDEN-key-of-a-publisher"]}}')
    words = ["check", "--http-status", ":0", "--http-token", "HIDDEN-token-1234567890"]
    words += ["--hook", "http:http://user:HIDDEN@127.0.0.1:9/", "--http-read-token", "HIDDEN-to-read-1234"]
    words += ["--pull", "live/*=rtmp://user:HIDDEN@127.0.0.1/live/HIDDEN"]
    words += ["--relay-to", "rtmp://127.0.0.1:1/app/HIDDEN"]
    status_of(*words)
    printed = capsys.readouterr()
    assert "HIDDEN" not in printed.out + printed.err


@pytest.fixture
def _nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """To try a destination out takes a reactor, and a process of its own."""
    monkeypatch.setattr("rtmprelay.cli.check.try_destinations", lambda destinations: None)


@pytest.mark.usefixtures("_nothing_is_tried")
def test_check_shows_destinations_and_limits_with_their_origin(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "relay.toml"
    path.write_text(
        'relay-to = "rtmp://127.0.0.1:1/two/key"\n[limits]\nmax_connections = 17\n'
        '[[destinations]]\nname = "One"\nurl = "rtmp://127.0.0.1:1/app"\nenabled = false\nstream_key = "x"\n'
    )
    status_of("check", "--config", str(path), "--limit", "idle_timeout=90")
    printed = capsys.readouterr().out
    assert "limit idle_timeout" in printed
    assert "limit max_connections" not in printed, "the command line replaces all values of an option"
    rows = [line for line in printed.splitlines() if line.startswith("destination ")]
    assert rows[0].split() == ["destination", "One", "rtmp://127.0.0.1:1/app/***", "(disabled)", str(path)]
    assert rows[1].split()[-1] == "relay-to"


# -- recordings ----------------------------------------------------------------------------------------------


def test_recordings_are_listed_with_the_oldest_first(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "live_b_20260102_000000.flv").write_bytes(bytes(2_500_000))
    (tmp_path / "live_a%5Fb_20260101_120000.flv").write_bytes(b"abc")
    (tmp_path / "notes.txt").write_text("no recording")
    assert status_of("recordings", "list", str(tmp_path)) == 0
    first, second, total = capsys.readouterr().out.splitlines()
    assert first.split()[:5] == ["2026-01-01", "12:00:00", "3", "B", "live/a_b"]
    assert second.split()[:5] == ["2026-01-02", "00:00:00", "2.5", "MB", "live/b"]
    assert total == "2 recordings, 2.5 MB; times are UTC"


def test_recordings_of_a_missing_folder_are_one_line(tmp_path: Path, capsys: Capture) -> None:
    assert status_of("recordings", "list", str(tmp_path / "none")) == 1
    assert capsys.readouterr().err.endswith("No such file or directory\n")


def test_recordings_check_reports_what_is_no_recording(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "live_a_20260101_120000.flv"
    path.write_bytes(b"abc")
    assert status_of("recordings", "check", str(path)) == 1
    assert str(path) in capsys.readouterr().err


# -- completion ----------------------------------------------------------------------------------------------


def completed(shell_words: str, index: int, capsys: Capture) -> list[str]:
    assert status_of("completion", "bash") == 0
    script = capsys.readouterr().out
    program = (
        f'{script}\nCOMP_WORDS=({shell_words}); COMP_CWORD={index}; _rtmprelay; echo "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=20, check=True)
    return done.stdout.split()


def test_bash_completes_commands_and_options(capsys: Capture) -> None:
    assert completed("rtmprelay re", 1, capsys) == ["recordings"]
    assert completed("rtmprelay serve --relay", 2, capsys) == ["--relay-config", "--relay-to"]
    assert completed("rtmprelay recordings c", 2, capsys) == ["check"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("rtmprelay re", ["recordings"]),
        ("rtmprelay recordings ch", ["check"]),
        ("rtmprelay completion ", ["bash", "fish", "zsh"]),
        ("rtmprelay serve --relay-", ["--relay-config", "--relay-to"]),
    ],
)
def test_fish_completes_commands_and_options(typed: str, offered: list[str], capsys: Capture) -> None:
    assert status_of("completion", "fish") == 0
    program = f"{capsys.readouterr().out}\ncomplete -C '{typed}'"
    done = subprocess.run(["fish", "-c", program], capture_output=True, text=True, timeout=20, check=True)
    assert [line.partition("\t")[0] for line in done.stdout.splitlines()] == offered


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_takes_the_script_and_completes_options(capsys: Capture) -> None:
    assert status_of("completion", "zsh") == 0
    script = capsys.readouterr().out
    words = "COMP_WORDS=(rtmprelay serve --relay); COMP_CWORD=2"
    program = f"autoload -Uz compinit; compinit -u -D\n{script}\nsetopt ksharrays; {words}; _rtmprelay; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["zsh", "-fc", program], capture_output=True, text=True, timeout=20, check=True)
    assert done.stderr == ""
    # zsh itself leaves out what does not begin with the word.
    assert "--relay-to" in done.stdout.split()


def test_fish_gets_every_option_with_its_help(capsys: Capture) -> None:
    assert status_of("completion", "fish") == 0
    printed = capsys.readouterr().out
    for option in Options().known_options():
        assert f" -l {option} " in printed


def test_completion_knows_every_command() -> None:
    parser = cli.make_parser()
    (commands,) = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    assert list(commands.choices) == [*cli.COMMANDS]
