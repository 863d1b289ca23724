"""The table `event_files`: what the next run knows of event logs that have grown, moved or vanished."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rtmprelay.events.lines import LONGEST_LINE
from spark_analytics.event_logs.lines import (
    LogSplit,
    lines_of,
    read_in_workers,
)
from spark_analytics.event_logs.logs import FoundLog
from spark_analytics.event_logs.state import ReadResult, new_splits, updated_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
from tests.spark.test_event_files import NOW, TEXT, rows_after, write
from tests.spark.test_event_files import find as find


def test_only_what_was_added_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, TEXT + b'{"tor', age=5)
    known = rows_after(tmp_path, {})
    (row,) = known.values()
    assert (row["read_until"], row["events"], row["status"]) == (len(TEXT), 300, "ok")
    assert new_splits(find(tmp_path, known), known) == []
    write(tmp_path, TEXT + b'{"torn no more"}\nand', age=4)
    (split,) = new_splits(find(tmp_path, known), known)
    assert [line.text for line in lines_of(split)] == ['{"torn no more"}']
    known = rows_after(tmp_path, known, NOW + timedelta(hours=1))
    (row,) = known.values()
    # Nobody writes it any more: what is behind the last line is torn for good.
    assert (row["events"], row["torn_bytes"], row["status"]) == (301, 3, "torn")
    path.unlink()
    write(tmp_path, TEXT + b'{"torn no more"}\nand', "events_20261116_120000.jsonl.gz", age=4)
    known = rows_after(tmp_path, known, NOW + timedelta(hours=2))
    (row,) = known.values()
    assert (row["compressed"], row["events"], row["torn_bytes"]) == (True, 301, 3)
    assert row["path"] == str(path)
    assert rows_after(tmp_path, known, NOW + timedelta(hours=3)) == known


def test_a_plain_log_that_is_damaged_may_be_torn_too(tmp_path: Path) -> None:
    long = b"y" * (2 * LONGEST_LINE)
    write(tmp_path, b"one\n" + long + b"\ntwo\n" + b"torn")
    (row,) = rows_after(tmp_path, {}).values()
    assert (row["status"], row["torn_bytes"], row["events"]) == ("damaged", 4, 2)
    # Nobody knows what is behind a place that could not be read.
    found = find(tmp_path)
    refused = {found[0].file_id: ReadResult(4, 1, problem="the file cannot be read: Input/output error")}
    (row,) = updated_rows(found, {}, refused, [str(tmp_path)], NOW)
    assert (row["status"], row["torn_bytes"]) == ("unreadable", 0)


def test_compressing_alone_is_nothing_new(tmp_path: Path) -> None:
    write(tmp_path)
    known = rows_after(tmp_path, {})
    write(tmp_path, name="events_20261116_120000.jsonl.gz")
    assert new_splits(find(tmp_path, known), known) == []


def test_files_that_vanish_are_marked_and_may_return(tmp_path: Path) -> None:
    path = write(tmp_path)
    known = rows_after(tmp_path, {})
    path.unlink()
    gone = rows_after(tmp_path, known)
    (row,) = gone.values()
    assert (row["vanished_at"], row["events"]) == (NOW, 300)
    # Another folder says nothing about it.
    other = updated_rows([], known, {}, [str(tmp_path / "other")], NOW)
    assert other == list(known.values())
    write(tmp_path)
    (row,) = rows_after(tmp_path, gone).values()
    assert (row["vanished_at"], row["events"]) == (None, 300)


def test_files_in_a_folder_that_is_closed_for_a_while_have_not_vanished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "host")
    known = rows_after(tmp_path, {})
    path.rename(tmp_path / "away")

    def refuse(name: str) -> None:
        raise PermissionError(13, "Permission denied", name)

    with monkeypatch.context() as closed:
        closed.setattr("spark_analytics.paths.os.lstat", refuse)
        assert rows_after(tmp_path, known) == known
    assert [row["vanished_at"] for row in rows_after(tmp_path, known).values()] == [NOW]


@pytest.mark.parametrize(
    ("place", "is_in"),
    [
        ("a", True),
        ("a/deep", True),
        ("a/deep/events_*", True),
        ("a/*/events_20261116_120000.jsonl", True),
        ("a/*", True),
        ("**/*.jsonl", True),
        ("a/**", True),
        ("a/*/*.gz", True),
        ("a/*.jsonl", False),
        ("*.jsonl", False),
        ("b/**/*.jsonl", False),
        ("a/deep/other_*", False),
        ("a/deep/d/**", False),
    ],
)
def test_only_what_would_be_found_can_be_missed(tmp_path: Path, place: str, is_in: bool) -> None:
    path = write(tmp_path / "a" / "deep")
    known = rows_after(tmp_path, {})
    places = [str(tmp_path / place)]
    assert updated_rows([], known, {}, places, NOW) == list(known.values())
    path.rename(str(path) + ".gz")
    assert updated_rows([], known, {}, places, NOW) == list(known.values())
    Path(str(path) + ".gz").unlink()
    (row,) = updated_rows([], known, {}, places, NOW)
    assert (row["vanished_at"] is not None) == is_in


def test_a_name_that_another_file_has_now(tmp_path: Path) -> None:
    """The file that was there is gone. One that had no line yet, or could not be opened, is the same as before."""
    path = write(tmp_path, b"")
    known = rows_after(tmp_path, {})
    write(tmp_path)
    known = rows_after(tmp_path, known)
    (row,) = known.values()
    assert (row["status"], row["events"], row["vanished_at"]) == ("ok", 300, None)
    unreadable = FoundLog("by-name", str(path), 5, 1, 0, "Permission denied")
    rows = updated_rows([unreadable], known, {}, [str(tmp_path)], NOW)
    assert [(row["status"], row["vanished_at"]) for row in rows] == [("unreadable", None), ("ok", None)]
    known = rows_after(tmp_path, {str(row["file_id"]): row for row in rows})
    assert [row["status"] for row in known.values()] == ["ok"]
    write(tmp_path, b"another\n")
    rows = list(rows_after(tmp_path, known).values())
    assert [(row["events"], row["vanished_at"]) for row in rows] == [(1, None), (300, NOW)]


def test_a_file_that_could_not_be_read_is_read_the_next_time(tmp_path: Path) -> None:
    """Nothing about it has changed: the worker only did not get at it."""
    write(tmp_path)
    found = find(tmp_path)
    (split,) = new_splits(found, {})
    refused = {split.file_id: ReadResult(problem="the file cannot be read: Stale file handle")}
    (row,) = updated_rows(found, {}, refused, [str(tmp_path)], NOW)
    assert (row["status"], row["error"]) == ("unreadable", "the file cannot be read: Stale file handle")
    known = {row["file_id"]: row}
    assert new_splits(found, known) == [split]
    # Another refusal is nothing new.
    assert updated_rows(found, known, refused, [str(tmp_path)], NOW + timedelta(hours=1)) == [row]
    (row,) = rows_after(tmp_path, known).values()
    assert (row["status"], row["error"], row["events"]) == ("ok", None, 300)
    assert new_splits(found, {split.file_id: row}) == []


def test_a_compressed_file_that_was_made_good_is_good(tmp_path: Path) -> None:
    path = write(tmp_path, name="events_20261116_120000.jsonl.gz")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    known = rows_after(tmp_path, {})
    (row,) = known.values()
    assert "the compressed file is damaged" in str(row["error"])
    assert rows_after(tmp_path, known) == known
    path.write_bytes(whole)
    (row,) = rows_after(tmp_path, known).values()
    assert (row["error"], row["events"]) == (None, 300)


def test_a_file_that_goes_while_one_looks(tmp_path: Path) -> None:
    path = write(tmp_path)
    known = rows_after(tmp_path, {})
    path.unlink()
    compressed = write(tmp_path, name="events_20261116_120000.jsonl.gz")
    found = find(tmp_path, known)
    compressed.unlink()
    assert len(new_splits(found, known)) == 1
    assert [row["torn_bytes"] for row in updated_rows(found, known, {}, [str(tmp_path)], NOW)] == [0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    write(tmp_path).chmod(0)
    (row,) = rows_after(tmp_path, {}).values()
    assert (row["status"], row["error"]) == ("unreadable", "Permission denied")


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)

    def refuse(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("spark_analytics.event_logs.logs._first_line", refuse)
    (row,) = rows_after(tmp_path, {}).values()
    assert (row["status"], row["error"]) == ("unreadable", "Permission denied")


def test_a_log_of_the_year_2400_has_a_row(tmp_path: Path) -> None:
    """Its nanoseconds are more than a table holds."""
    path = write(tmp_path)
    os.utime(path, (13_569_465_600, 13_569_465_600))
    (found,) = find(tmp_path)
    assert found.mtime_ns < 2**63
    (row,) = updated_rows([found], {}, {}, [str(tmp_path)], NOW)
    assert row["mtime_ns"] == found.mtime_ns


def test_every_split_is_read_by_a_task_of_its_own(spark: SparkSession) -> None:
    splits = [LogSplit(f"file{number % 7}", "/nowhere", 1000 * number, None, True) for number in range(20)]
    tasks = read_in_workers(spark, splits).rdd.glom().map(len).collect()
    assert tasks == [1] * len(splits)
