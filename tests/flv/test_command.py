"""`python -m rtmprelay.flv check` and `repair`, as people see them."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from rtmprelay.flv import __main__ as command
from rtmprelay.flv.__main__ import ProgressBar, main
from tests.flv.media import STARTUP, WHOLE, groups, plain_file, tags_in


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "live_test_20261116_045106.flv"


def test_command_checks_and_repairs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = path.with_name("good.flv")
    good.write_bytes(WHOLE)
    path.write_bytes(WHOLE[:-5])
    assert main(["check", str(good)]) == 0
    assert capsys.readouterr().out == f"{good}: fine (63 whole tags, 6 keyframes, 1.160 s)\n"
    assert main(["check", str(good), str(path)]) == 1
    assert f"{path}: damaged, 20 bytes and 0 ms lost" in capsys.readouterr().out
    assert main(["repair", str(path), str(good)]) == 0
    out = capsys.readouterr().out
    assert f"{path}: repaired, 20 bytes and 0 ms lost (62 whole tags, 6 keyframes, 1.160 s)\n" in out
    assert "  a torn tag at the end: 20 bytes from byte" in out
    assert main(["check", str(path)]) == 0


def test_command_continues_after_a_file_that_it_cannot_read(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_bytes(b"<html>")
    good = path.with_name("good.flv")
    good.write_bytes(WHOLE)
    assert main(["check", str(path.with_name("absent.flv")), str(path), str(good)]) == 1
    out, err = capsys.readouterr()
    assert "good.flv: fine" in out
    assert "absent.flv: No such file or directory" in err
    assert f"{path}: This is not an FLV file" in err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_bar_is_redrawn_for_each_percent() -> None:
    out = Terminal()
    bar = ProgressBar(out, "big.flv", 1 << 30)
    bar(0)
    bar(1)
    bar(1 << 29)
    bar(1 << 30)
    bar.close()
    assert out.getvalue() == (
        f"\rbig.flv [{'.' * 40}]   0 %\rbig.flv [{'#' * 20}{'.' * 20}]  50 %\rbig.flv [{'#' * 40}] 100 %\r\x1b[K"
    )


def test_progress_bar_is_only_for_large_files_on_terminals() -> None:
    silent, small, just_large = io.StringIO(), Terminal(), Terminal()
    for out, size in ((silent, 1 << 30), (small, (64 << 20) - 1), (just_large, 64 << 20)):
        bar = ProgressBar(out, "some.flv", size)
        bar(5)
        bar.close()
    assert silent.getvalue() == small.getvalue() == ""
    assert just_large.getvalue() == f"\rsome.flv [{'.' * 40}]   0 %\r\x1b[K"


def test_progress_bar_that_was_not_drawn_is_not_cleared() -> None:
    out = Terminal()
    ProgressBar(out, "big.flv", 1 << 30).close()
    assert out.getvalue() == ""


@pytest.mark.parametrize("name", ["check", "repair"])
def test_command_shows_progress_on_the_terminal(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Terminal()
    monkeypatch.setattr(command, "_PROGRESS_MIN_SIZE", 1)
    monkeypatch.setattr(sys, "stderr", out)
    path.write_bytes(WHOLE)
    main([name, str(path)])
    assert out.getvalue().startswith(f"\r{path.name} [")
    assert out.getvalue().endswith("] 100 %\r\x1b[K")


def test_command_lists_what_is_wrong(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tags = tags_in(WHOLE)
    at = tags[30].offset
    path.write_bytes(WHOLE[:at] + b"x" * 100 + WHOLE[at:] + bytes(20))
    assert main(["check", str(path)]) == 1
    assert capsys.readouterr().out == (
        f"{path}: damaged, 120 bytes and 0 ms lost (63 whole tags, 6 keyframes, 1.160 s)\n"
        f"  damage: 100 bytes from byte {at} on, 0 ms lost\n"
        f"  zeros at the end: 20 bytes from byte {len(WHOLE) + 100} on, an unknown time lost\n"
        f"  the metadata says filesize {len(WHOLE)} instead of {len(WHOLE) + 120}\n"
    )


def test_command_says_that_a_file_was_never_finished(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_bytes(plain_file([*STARTUP, *groups(1)]))
    assert main(["check", str(path)]) == 1
    assert capsys.readouterr().out == (
        f"{path}: unfinished, nothing lost (12 whole tags, 1 keyframes, 0.160 s)\n"
        "  there is no metadata at the start\n"
    )


HELP = {
    (): """\
usage: python -m rtmprelay.flv [-h] {check,repair} ...

Check FLV recordings, or repair them in place.

positional arguments:
  {check,repair}
    check         report what is wrong, and change nothing
    repair        cut torn tails, remove damaged parts, rebuild the metadata and the keyframe index
""",
    ("check",): """\
usage: python -m rtmprelay.flv check [-h] FILE [FILE ...]

report what is wrong, and change nothing

positional arguments:
  FILE        a recording
""",
    ("repair",): """\
usage: python -m rtmprelay.flv repair [-h] FILE [FILE ...]

cut torn tails, remove damaged parts, rebuild the metadata and the keyframe index

positional arguments:
  FILE        a recording
""",
}


@pytest.mark.parametrize("arguments", HELP)
def test_help_explains_the_commands(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, "--help"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith(HELP[arguments])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "the following arguments are required: command"),
        (["check"], "the following arguments are required: FILE"),
    ],
)
def test_missing_arguments_are_refused(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert sentence in capsys.readouterr().err
