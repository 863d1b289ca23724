"""Files on a real disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from rtmprelay.errors import ConfigError
from rtmprelay.files.disk import OsFile, attempt, check_folder, create_file, error_name, try_to_lock


def create(folder: Path, *names: str) -> OsFile:
    return create_file(folder, names or ("a",))


def test_the_first_free_name_is_taken(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("old")
    file = create(tmp_path, "a", "b", "c", "d")
    file.append(b"new")
    file.close()
    assert file.path == tmp_path / "c"
    assert [(tmp_path / name).read_text() for name in "abc"] == ["old", "old", "new"]


def test_no_file_is_created_when_all_names_are_taken(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(FileExistsError) as caught:
        create(tmp_path)
    assert caught.value.filename == str(tmp_path / "a")


def test_a_folder_that_is_gone_is_created_again_but_not_its_parent(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        create(tmp_path / "not mounted" / "folder")
    create(tmp_path / "folder").close()
    assert (tmp_path / "folder" / "a").exists()


def test_a_file_is_appended_to_overwritten_and_cut(tmp_path: Path) -> None:
    file = create(tmp_path)
    assert file.append(b"0123456789") == 10
    file.write_at(b"ab", 2)
    file.truncate(6)
    file.append(b"z")
    file.sync()
    file.close()
    assert file.path.read_bytes() == b"01ab45z"


def test_a_deleted_file_knows_it(tmp_path: Path) -> None:
    file = create(tmp_path)
    before = file.is_deleted()
    file.delete()
    assert (before, file.is_deleted()) == (False, True)
    file.close()


def test_a_file_that_another_process_locked_is_not_locked_twice(tmp_path: Path) -> None:
    file = create(tmp_path)
    other = os.open(file.path, os.O_RDONLY)
    try:
        assert [try_to_lock(file.descriptor), try_to_lock(other)] == [True, False]
        file.close()
        assert try_to_lock(other)
    finally:
        os.close(other)


def test_errors_have_the_names_that_people_search_for() -> None:
    assert error_name(OSError(errno.ENOSPC, "full")) == "ENOSPC"
    assert error_name(TimeoutError()) == "TimeoutError"


def test_an_attempt_returns_the_error() -> None:
    error = OSError(errno.EIO, "broken")

    def fail() -> None:
        raise error

    assert attempt(fail) is error
    assert attempt(lambda: None) is None


def test_a_usable_folder_is_not_created_yet(tmp_path: Path) -> None:
    assert check_folder(str(tmp_path)) == tmp_path
    assert check_folder(str(tmp_path / "new" / "deep")) == tmp_path / "new" / "deep"
    assert list(tmp_path.iterdir()) == []


def test_an_unusable_folder_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for text, reason in (
        ("", "'' cannot be a folder"),
        ("a\0b", "cannot be a folder"),
        (f"{tmp_path}/file", "file' is not a folder"),
        (f"{tmp_path}/file/x", "file' is not a folder"),
    ):
        with pytest.raises(ConfigError) as caught:
            check_folder(text)
        assert reason in str(caught.value)
