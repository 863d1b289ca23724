"""Changing the relay configuration file: one entry at a time, all or nothing."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from rtmprelay.destinations.config_file import RelayFile, read_relay_config, replace_file
from rtmprelay.errors import ConfigError

NEW = {"name": "new", "url": "rtmp://new.example/app", "stream_key": "nëw"}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a key from the environment, a key from a file, and fields in an unusual order."""
    monkeypatch.setenv("A_KEY", "from-the-environment")
    (tmp_path / "key").write_text("from-a-file\n")
    file = tmp_path / "relay.json"
    file.write_text(
        """{"destinations": [
        {"url": "rtmp://a.example/app", "stream_key": "${A_KEY}", "name": "a", "linger": 0.5},
        {"name": "b", "url": "rtmp://b.example/app", "stream_key_file": "key", "metadata": {"ü": [1, 2.50]}}
        ]}"""
    )
    return file


def entries(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["destinations"]
    return found


def test_changes_touch_one_entry_and_keep_order_and_placeholders(path: Path) -> None:
    before = entries(path)
    file = RelayFile(str(path))
    assert file.names == {"a", "b"}
    file.add(NEW)
    assert entries(path) == [*before, NEW]
    assert "nëw" in path.read_text()
    assert file.names == {"a", "b", "new"}
    file.enable("a", False)
    assert entries(path) == [{**before[0], "enabled": False}, before[1], NEW]
    assert list(entries(path)[0]) == ["url", "stream_key", "name", "linger", "enabled"]
    file.remove("new")
    file.enable("a", True)
    assert entries(path) == [{**before[0], "enabled": True}, before[1]]
    assert file.names == {"a", "b"}
    assert [one.name for one in read_relay_config(str(path))] == ["a", "b"]
    assert [name.name for name in path.parent.iterdir() if "new" in name.name] == []


def test_refused_change_leaves_the_file_alone(path: Path) -> None:
    before = path.read_bytes()
    file = RelayFile(str(path))
    with pytest.raises(ConfigError, match="has a destination 'a' already"):
        file.add({**NEW, "name": "a"})
    with pytest.raises(ConfigError, match="go to the same place"):
        file.add({"name": "c", "url": "rtmp://a.example/app/from-the-environment"})
    with pytest.raises(ConfigError, match="unknown field"):
        file.add({**NEW, "nmae": 1})
    with pytest.raises(ConfigError, match="is not in"):
        file.remove("none")
    with pytest.raises(ConfigError, match="is not in"):
        file.enable("none", True)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"destinations": 1}', '{"destinations": [1]}', '{"more": 1}']
)
def test_file_with_mistakes_is_left_alone(path: Path, content: str) -> None:
    file = RelayFile(str(path))
    path.write_text(content)
    with pytest.raises(ConfigError, match="corrected"):
        file.add(NEW)
    assert path.read_text() == content
    RelayFile(str(path))


def test_missing_file_is_not_created(path: Path) -> None:
    file = RelayFile(str(path))
    path.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        file.add(NEW)
    assert not path.exists()
    assert RelayFile(str(path)).names == frozenset()


def test_permissions_and_links_are_kept(path: Path) -> None:
    """The file that a link leads to is replaced, not the link."""
    path.chmod(0o640)
    link = path.parent / "link.json"
    link.symlink_to(path)
    RelayFile(str(link)).add(NEW)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert len(entries(path)) == 3


def test_new_file_is_never_readable_by_others(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its permissions are set when it is complete."""
    path.chmod(0o644)
    modes = []
    real = os.fchmod

    def note(descriptor: int, mode: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        real(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", note)
    RelayFile(str(path)).add(NEW)
    assert modes == [0o600]


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_failing_disk_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    before = path.read_bytes()

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    if step == "write":
        monkeypatch.setattr(os, "fchown", fail)
    else:
        monkeypatch.setattr(os, step, fail)
    with pytest.raises(ConfigError, match="No space left on device"):
        RelayFile(str(path)).add(NEW)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["key", "relay.json"]


def test_content_is_on_the_disk_before_it_gets_the_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = []
    real_sync, real_replace = os.fsync, os.replace

    def sync(descriptor: int) -> None:
        order.append("sync")
        real_sync(descriptor)

    def rename(source: Any, target: Any) -> None:
        order.append("rename")
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", rename)
    replace_file(path, b"new")
    assert order == ["sync", "rename", "sync"]
    assert path.read_bytes() == b"new"


def test_leftover_of_a_crash_is_overwritten_and_a_link_not_followed(path: Path) -> None:
    other = path.parent / "other"
    other.write_text("untouched")
    left_over = path.with_name(f".{path.name}.{os.getpid()}.new")
    left_over.write_text("half")
    RelayFile(str(path)).add(NEW)
    assert len(entries(path)) == 3
    left_over.symlink_to(other)
    with pytest.raises(ConfigError):
        RelayFile(str(path)).remove("new")
    assert other.read_text() == "untouched"


def test_error_about_the_file_shows_no_key(path: Path) -> None:
    path.write_text(path.read_text().replace('"linger": 0.5', '"linger": "s3cret"'))
    with pytest.raises(ConfigError) as caught:
        RelayFile(str(path)).add({**NEW, "stream_key": "an0ther"})
    for secret in ("s3cret", "an0ther", "from-the-environment", "from-a-file"):
        assert secret not in str(caught.value)
