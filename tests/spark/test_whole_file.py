"""Files that appear as a whole: with the rights that any new file has, and with nothing beside them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spark_analytics.errors import CatalogueError
from spark_analytics.whole_file import whole_file


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600), (0o002, 0o664)])
def test_the_umask_decides_who_may_read_it(tmp_path: Path, mask: int, mode: int) -> None:
    path = tmp_path / ("x" * 255)
    with umask(mask), whole_file(path) as descriptor:
        os.write(descriptor, b"all of it")
    assert path.read_bytes() == b"all of it"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert os.listdir(tmp_path) == [path.name]


def test_it_is_not_there_before_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "clip.flv"
    descriptors = []

    def fail_half_way() -> None:
        with whole_file(path) as descriptor:
            descriptors.append(descriptor)
            os.write(descriptor, b"half")
            assert not path.exists()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert os.listdir(tmp_path) == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptors[0])


def test_nothing_is_overwritten_unless_it_is_to_be(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    with pytest.raises(CatalogueError, match="is there already"), whole_file(path):
        pytest.fail("nothing is made for nothing")
    assert path.read_text() == "before"
    with whole_file(path, replace=True) as descriptor:
        os.write(descriptor, b"after")
    assert path.read_text() == "after"
    assert os.listdir(tmp_path) == [path.name]


def test_what_came_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "clip.flv"
    with pytest.raises(CatalogueError, match="is there already"), whole_file(path):
        path.write_text("of somebody else")
    assert path.read_text() == "of somebody else"
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("replace", [False, True])
def test_a_folder_is_not_replaced(tmp_path: Path, replace: bool) -> None:
    with (
        pytest.raises(CatalogueError, match=f"^{tmp_path} cannot be written: it is a folder.$"),
        whole_file(tmp_path, replace),
    ):
        pytest.fail("there is nothing to write to")
    assert os.listdir(tmp_path) == []


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows the temporary one."""
    path = tmp_path / "report.html"

    def refuse(name: Path, *_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(name))

    for call in ("open", "replace", "link"):
        with monkeypatch.context() as patch:
            patch.setattr(f"spark_analytics.whole_file.os.{call}", refuse)
            with (
                pytest.raises(PermissionError, match="Permission denied") as told,
                whole_file(path, replace=call == "replace"),
            ):
                pass
        assert told.value.filename == str(path)
        assert told.value.filename2 is None
    assert os.listdir(tmp_path) == []


def test_what_goes_wrong_while_it_is_written_is_told_as_it_is(tmp_path: Path) -> None:
    """A recording that cannot be read is not the clip's fault."""
    with (
        pytest.raises(OSError, match="bad place") as told,
        whole_file(tmp_path / "clip.flv"),
    ):
        raise OSError(errno.EIO, "bad place", "/rec/a.flv")
    assert told.value.filename == "/rec/a.flv"


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with (
        pytest.raises(CatalogueError, match="cannot be written: there is no folder"),
        whole_file(tmp_path / "no" / "clip.flv"),
    ):
        pytest.fail("there is nowhere to write")


def test_without_links_it_gets_its_name_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a memory card, or a network drive."""

    def no_link(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_link)
    path = tmp_path / "clip.flv"
    with whole_file(path) as descriptor:
        os.write(descriptor, b"all of it")
    assert path.read_bytes() == b"all of it"

    def lose_a_race() -> None:
        with whole_file(tmp_path / "other.flv"):
            (tmp_path / "other.flv").write_bytes(b"precious")

    with pytest.raises(CatalogueError, match="is there already"):
        lose_a_race()
    assert (tmp_path / "other.flv").read_bytes() == b"precious"
    assert sorted(os.listdir(tmp_path)) == ["clip.flv", "other.flv"]
