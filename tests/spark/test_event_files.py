"""Finding event logs and reading their lines, without Spark."""

from __future__ import annotations

import gzip
import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spark_analytics.errors import CatalogueError
from spark_analytics.event_logs.file_table import ReadResult, new_splits, updated_rows
from spark_analytics.event_logs.files import find_event_logs, look_at
from spark_analytics.event_logs.lines import Split, TextLine, lines_of, splits_of

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
LINES = [f'{{"number":{number}}}' + "x" * (number * 37 % 200) for number in range(300)]
TEXT = "".join(line + "\n" for line in LINES).encode()


def write(
    folder: Path, data: bytes = TEXT, name: str = "events_20261116_120000.jsonl", age: float = 600
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    then = NOW.timestamp() - age
    os.utime(path, (then, then))
    return path


def read(path: Path, begin: int = 0, size: int = 1 << 24) -> list[TextLine]:
    found = look_at(str(path))
    assert found is not None
    return [line for split in splits_of(found, begin, size) for line in lines_of(split)]


# -- lines ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["events_20261116_120000.jsonl", "events_20261116_120000.jsonl.gz"])
def test_all_lines_with_their_ends(tmp_path: Path, name: str) -> None:
    lines = read(write(tmp_path, name=name))
    assert [line.text for line in lines] == LINES
    assert [TEXT[line.end - 1 : line.end] for line in lines] == [b"\n"] * 300
    assert lines[-1].end == len(TEXT)


def test_any_split_gives_the_same_lines(tmp_path: Path) -> None:
    path = write(tmp_path)
    whole = read(path)
    for size in [1, 2, 7, 11, 12, 50, 211, 212, 1000, *random.Random(1).sample(range(3, 40_000), 20)]:
        assert read(path, size=size) == whole, size


@pytest.mark.parametrize("name", ["events_20261116_120000.jsonl", "events_20261116_120000.jsonl.gz"])
def test_reading_goes_on_where_it_ended(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name=name)
    whole = read(path)
    for number in (0, 1, 150, 299):
        assert read(path, whole[number].end, 500) == whole[number + 1 :]


@pytest.mark.parametrize("name", ["events_20261116_120000.jsonl", "events_20261116_120000.jsonl.gz"])
def test_a_torn_line_is_no_line(tmp_path: Path, name: str) -> None:
    for torn in (b"x", b'{"number"', TEXT[:100].replace(b"\n", b"")):
        lines = read(write(tmp_path, TEXT + torn, name), size=1000)
        assert [line.text for line in lines] == LINES


def test_a_line_that_ends_nowhere_near_is_told_and_skipped(tmp_path: Path) -> None:
    long = b"y" * (3 * 1024 * 1024)
    path = write(tmp_path, b"one\n" + long + b"\ntwo\n")
    lines = read(path)
    assert [line.text for line in lines] == ["one", None, "two"]
    assert lines[1].problem == "the line is too long for an event"
    assert [line for line in read(path, size=1_000_000) if line.text] == [lines[0], lines[2]]
    assert [line.text for line in read(write(tmp_path, b"one\n" + long))] == ["one"]


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    lines = read(write(tmp_path, b"good\n\xff\xfe\x00\xff\n\ngood \xc3\xa4\n"))
    assert [line.text for line in lines] == ["good", None, "", "good ä"]
    assert lines[1].problem == "the line is no text"


def test_a_compressed_file_that_is_cut_gives_what_it_has(tmp_path: Path) -> None:
    path = write(tmp_path, name="events_20261116_120000.jsonl.gz")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    lines = read(path)
    texts = [line.text for line in lines[:-1]]
    assert 10 < len(texts) < 300
    assert texts == LINES[: len(texts)]
    assert lines[-1].problem is not None
    assert lines[-1].problem.startswith("the compressed file is damaged")
    middle = bytearray(whole)
    middle[len(whole) // 2 : len(whole) // 2 + 40] = bytes(40)
    path.write_bytes(bytes(middle))
    assert read(path)[-1].problem


def test_a_file_that_has_gone_is_told() -> None:
    (line,) = lines_of(Split("id", "/nowhere/events.jsonl", 0, 100, True))
    assert line.problem == "the file cannot be read: No such file or directory"


# -- files ---------------------------------------------------------------------------------------------------


def test_folders_files_and_patterns(tmp_path: Path) -> None:
    write(tmp_path / "a", b"1\n")
    write(tmp_path / "a" / "deep", b"2\n", "events_20261116_130000-2.jsonl.gz")
    write(tmp_path / "a", b"3\n", "notes.jsonl")
    write(tmp_path / "b", b"4\n", "mine.jsonl")
    assert len(find_event_logs([str(tmp_path / "a")])) == 2
    assert len(find_event_logs([str(tmp_path / "a"), str(tmp_path / "a")])) == 2
    assert len(find_event_logs([str(tmp_path / "b" / "mine.jsonl")])) == 1
    assert len(find_event_logs([str(tmp_path / "*" / "*.jsonl")])) == 3
    assert find_event_logs([str(tmp_path / "b")]) == []
    with pytest.raises(CatalogueError, match="There is no event log"):
        find_event_logs([str(tmp_path / "c")])


def test_a_file_is_known_again_wherever_it_is(tmp_path: Path) -> None:
    plain = look_at(str(write(tmp_path)))
    grown = look_at(str(write(tmp_path, TEXT + b"more\n")))
    moved = look_at(str(write(tmp_path / "archive", name="events_20261116_120000.jsonl.gz")))
    other = look_at(str(write(tmp_path, TEXT[1:])))
    assert plain is not None
    assert grown is not None
    assert moved is not None
    assert other is not None
    assert plain.file_id == grown.file_id == moved.file_id
    assert other.file_id != plain.file_id
    assert plain.complete == len(TEXT)
    assert (moved.complete, moved.is_compressed) == (None, True)
    assert moved.path == str(tmp_path / "archive" / "events_20261116_120000.jsonl")


def test_of_two_copies_one_is_taken(tmp_path: Path) -> None:
    """A server that was killed between compressing and deleting leaves both."""
    write(tmp_path)
    compressed = write(tmp_path, name="events_20261116_120000.jsonl.gz")
    assert [found.name for found in find_event_logs([str(tmp_path)])] == [str(compressed)]
    compressed.unlink()
    write(tmp_path / "backup", TEXT[: len(TEXT) // 2])
    assert [found.size for found in find_event_logs([str(tmp_path)])] == [len(TEXT)]


@pytest.mark.parametrize("data", [b"", b'{"torn', b"\n"])
def test_a_file_with_hardly_anything(tmp_path: Path, data: bytes) -> None:
    found = look_at(str(write(tmp_path, data)))
    assert found is not None
    assert found.error is None
    assert read(write(tmp_path, data)) == ([TextLine(1, "")] if data == b"\n" else [])
    broken = tmp_path / "events_20261116_120000.jsonl.gz"
    broken.write_bytes(data)
    assert look_at(str(broken)) is not None


# -- what is new ---------------------------------------------------------------------------------------------


def rows_after(
    folder: Path, known: dict[str, dict[str, object]], at: datetime = NOW
) -> dict[str, dict[str, object]]:
    """Look, read, and remember, as the index does."""
    found = find_event_logs([str(folder)])
    results: dict[str, ReadResult] = {}
    for split in new_splits(found, known):
        for line in lines_of(split):
            one = ReadResult(line.end, 1, 0, at, at, line.problem)
            results[split.file_id] = results.get(split.file_id, ReadResult()).joined(one)
    return {str(row["file_id"]): row for row in updated_rows(found, known, results, [str(folder)], at)}


def test_only_what_was_added_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, TEXT + b'{"tor', age=5)
    known = rows_after(tmp_path, {})
    (row,) = known.values()
    assert (row["read_until"], row["events"], row["status"]) == (len(TEXT), 300, "ok")
    assert new_splits(find_event_logs([str(tmp_path)]), known) == []
    write(tmp_path, TEXT + b'{"torn no more"}\nand', age=4)
    (split,) = new_splits(find_event_logs([str(tmp_path)]), known)
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


def test_compressing_alone_is_nothing_new(tmp_path: Path) -> None:
    write(tmp_path)
    known = rows_after(tmp_path, {})
    write(tmp_path, name="events_20261116_120000.jsonl.gz")
    assert new_splits(find_event_logs([str(tmp_path)]), known) == []


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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    write(tmp_path).chmod(0)
    (row,) = rows_after(tmp_path, {}).values()
    assert (row["status"], row["error"]) == ("unreadable", "Permission denied")


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)

    def refuse(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("spark_analytics.event_logs.files._first_line", refuse)
    (row,) = rows_after(tmp_path, {}).values()
    assert (row["status"], row["error"]) == ("unreadable", "Permission denied")
