"""Finding event logs and reading their lines, without Spark."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

from rtmprelay.events.lines import LONGEST_LINE
from spark_analytics.errors import CatalogueError
from spark_analytics.event_logs.copies import Row, without_copies
from spark_analytics.event_logs.lines import (
    LogSplit,
    lines_of,
    read_split,
    splits_of,
)
from spark_analytics.event_logs.logs import FoundLog, find_event_logs, look_at
from spark_analytics.event_logs.parse import TextLine
from spark_analytics.event_logs.state import ReadResult, new_splits, updated_rows
from tests.spark.event_world import story

if TYPE_CHECKING:
    pass

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


def find(folder: Path, known: Mapping[str, Row] | None = None) -> list[FoundLog]:
    return without_copies(find_event_logs([str(folder)]), known or {})


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


def test_a_line_is_an_event_up_to_twice_what_the_server_writes(tmp_path: Path) -> None:
    lines = read(write(tmp_path, b"y" * (2 * LONGEST_LINE - 1) + b"\n" + b"z" * 2 * LONGEST_LINE + b"\n"))
    assert [line.problem for line in lines] == [None, "the line is too long for an event"]


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
    (line,) = lines_of(LogSplit("id", "/nowhere/events.jsonl", 0, 100, True))
    assert line.problem == "the file cannot be read: No such file or directory"


def test_a_worker_holds_some_lines_and_not_too_much_text(tmp_path: Path) -> None:
    """A compressed file of nearly nothing may be gigabytes of text."""
    path = write(tmp_path, (b"z" * 100_000 + b"\n") * 150, "events_20261116_120000.jsonl.gz")
    split = LogSplit("id", str(path), 0, None, True)
    batches = [batch for batch in read_split(split) if batch.num_rows]
    assert sum(batch.num_rows for batch in batches) == 150
    assert max(batch.nbytes for batch in batches) < 10 * 1024 * 1024
    short = write(tmp_path, b"z\n" * 50_000, "events_20261116_130000.jsonl.gz")
    counts = [batch.num_rows for batch in read_split(attrs.evolve(split, name=str(short)))]
    assert counts == [20_000, 20_000, 10_000]


def test_compressed_file_that_becomes_more_text_than_any_log_is_read_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of some megabytes may become gigabytes of lines, each of them a row."""
    monkeypatch.setattr("spark_analytics.event_logs.logs._MOST_TEXT", 100_000)
    text = (b"z" * 99 + b"\n") * 100_000
    path = write(tmp_path, text, "events_20261116_120000.jsonl.gz")
    assert len(text) > 200 * path.stat().st_size
    *lines, last = read(path)
    most = max(100_000, 100 * path.stat().st_size)
    assert sum(len(line.text or "") + 1 for line in lines) <= most
    assert last.problem == f"the compressed file is damaged: it becomes more than {most} bytes of text"
    # What a log of the server becomes is nowhere near that.
    monkeypatch.setattr("spark_analytics.event_logs.logs._MOST_TEXT", 0)
    log = write(tmp_path, story().text().encode() * 20, "events_20261116_130000.jsonl.gz")
    assert read(log)[-1].problem is None


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


def test_what_is_no_file_or_has_no_name_is_left_out(tmp_path: Path) -> None:
    """Who opens a pipe waits for ever, and a name that is no UTF-8 is in no table."""
    path = write(tmp_path)
    pipe = tmp_path / "events_20261116_130000.jsonl"
    os.mkfifo(pipe)
    (tmp_path / "events_20261116_140000.jsonl").mkdir()
    folder = os.fsencode(tmp_path) + b"/log\xff"
    os.mkdir(folder)
    Path(os.fsdecode(folder + b"/events_20261116_150000.jsonl")).write_bytes(b"1\n")
    assert [found.name for found in find_event_logs([str(tmp_path)])] == [str(path)]
    assert find_event_logs([str(pipe), os.fsdecode(folder)]) == []
    os.symlink(path, tmp_path / "events_20261116_160000.jsonl")
    os.symlink("events_20261116_170000.jsonl", tmp_path / "events_20261116_170000.jsonl")
    assert len(find(tmp_path)) == 1


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
    """Who was killed while compressing leaves both, and only the plain one is sure to be complete."""
    plain = write(tmp_path)
    compressed = write(tmp_path, name="events_20261116_120000.jsonl.gz")
    data = compressed.read_bytes()
    for size in (len(data), len(data) // 2, 5, 0):
        compressed.write_bytes(data[:size])
        assert [found.name for found in find(tmp_path)] == [str(plain)]
    compressed.write_bytes(data)
    plain.write_bytes(b"")
    assert [found.name for found in find(tmp_path)] == [str(compressed)]
    compressed.unlink()
    write(tmp_path)
    write(tmp_path / "backup", TEXT[: len(TEXT) // 2])
    assert [found.size for found in find(tmp_path)] == [len(TEXT)]


NUMBERED = b'{"instance": "i1", "number": 1}\n'
GROWN = NUMBERED + TEXT


def rows_of(*known: tuple[FoundLog, int]) -> dict[str, Row]:
    """What `event_files` says of logs that were read so far."""
    return {one.file_id: {"read_until": read_until, "path": one.path} for one, read_until in known}


def test_a_backup_of_a_log_that_is_being_written_is_not_the_log(tmp_path: Path) -> None:
    """It is compressed, and it ends where the log was when it was made, or in the middle of what was copied."""
    plain = write(tmp_path / "live", GROWN)
    backup = write(tmp_path / "backup", GROWN[: len(GROWN) // 10], "events_20261116_120000.jsonl.gz")
    assert [found.name for found in find(tmp_path)] == [str(plain)]
    # Its last bytes say how much text it has; those of half a file say anything.
    data = gzip.compress(GROWN)
    for end in (b"\xff\xff\xff\xff", b"\x00\x00\x00\x00"):
        backup.write_bytes(data[: len(data) // 2] + end)
        assert [found.name for found in find(tmp_path)] == [str(plain)]
    write(tmp_path / "backup", GROWN, "events_20261116_120000.jsonl.gz")
    assert [found.name for found in find(tmp_path)] == [str(plain)]


def test_the_copy_that_goes_furthest_is_read(tmp_path: Path) -> None:
    half = len(GROWN) // 2
    write(tmp_path / "a", GROWN[:half])
    cut = write(tmp_path / "b", GROWN, "events_20261116_120000.jsonl.gz")
    cut.write_bytes(cut.read_bytes()[:-200] + b"\xff" * 4)
    whole = write(tmp_path / "c", GROWN, "events_20261116_120000.jsonl.gz")
    write(tmp_path / "d", GROWN[: half + 1], "events_20261116_120000.jsonl.gz")
    (best,) = find(tmp_path)
    assert best.name == str(whole)
    # What was read of it before is not looked for in those that do not have it.
    whole.unlink()
    cut.unlink()
    (best,) = find(tmp_path, rows_of((best, half + 1)))
    assert best.name == str(tmp_path / "d" / "events_20261116_120000.jsonl.gz")
    (best,) = find(tmp_path, rows_of((best, len(GROWN))))
    assert best.path == str(tmp_path / "d" / "events_20261116_120000.jsonl")


def test_copies_that_say_the_same_are_not_read_to_compare_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be thousands of them, and each run looks at all."""
    for folder in ("a", "b"):
        write(tmp_path / folder, GROWN, "events_20261116_120000.jsonl.gz")
    monkeypatch.setattr("spark_analytics.event_logs.copies._blocks", lambda _: pytest.fail("it is read"))
    (best,) = find(tmp_path)
    write(tmp_path / "c", GROWN[:100])
    (best,) = find(tmp_path, rows_of((best, len(GROWN))))
    assert best.is_compressed
    write(tmp_path / "c", GROWN)
    (best,) = find(tmp_path, rows_of((best, len(GROWN))))
    assert not best.is_compressed


def test_a_compressed_file_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    """The server calls it so until it is complete."""
    path = write(tmp_path, NUMBERED)
    write(tmp_path, gzip.compress(NUMBERED * 50), "events_20261116_120000.jsonl.gz.tmp")
    for place in (tmp_path, tmp_path / "*", tmp_path / "*.tmp", Path(f"{path}.gz.tmp")):
        expected = [] if place.name.endswith(".tmp") else [str(path)]
        assert [found.name for found in find_event_logs([str(place)])] == expected


FOREIGN = b'{"event": "begin"}\n'


def test_logs_of_the_server_are_known_by_their_first_line_alone(tmp_path: Path) -> None:
    write(tmp_path / "a", NUMBERED + b"one\n")
    write(tmp_path / "b", NUMBERED + b"two\n")
    assert len(find(tmp_path)) == 1


def test_logs_of_other_programs_may_begin_alike(tmp_path: Path) -> None:
    """Each is read, a copy is not, and each is known again when it has grown, was moved, or is alone."""
    one = write(tmp_path / "a", FOREIGN + b"one\n")
    two = write(tmp_path / "b", FOREIGN + b"two\n" * 9, "events_20261116_120000.jsonl.gz")
    write(tmp_path / "copy", FOREIGN + b"one\n")
    write(tmp_path / "copy", FOREIGN + b"two\n" * 9, "events_20261116_130000.jsonl")
    known = rows_after(tmp_path, {})
    assert sorted(row["events"] for row in known.values()) == [2, 10]
    assert rows_after(tmp_path, known) == known
    three = write(tmp_path / "c", FOREIGN + b"three\n" * 5)
    write(tmp_path / "a", FOREIGN + b"one\nmore\n")
    known = rows_after(tmp_path, known)
    assert sorted(row["events"] for row in known.values()) == [3, 6, 10]
    two.unlink()
    one.rename(tmp_path / "a" / "events_20261117_120000.jsonl")
    three.rename(one)
    known = rows_after(tmp_path, known)
    assert sorted(row["events"] for row in known.values()) == [3, 6, 10]
    assert all(row["vanished_at"] is None for row in known.values())


def test_a_log_that_takes_the_place_of_one_that_was_moved(tmp_path: Path) -> None:
    """Even if it begins with the same line."""
    path = write(tmp_path, FOREIGN + b"one\n" * 9)
    known = rows_after(tmp_path, {})
    path.rename(tmp_path / "events_20261115_120000.jsonl")
    write(tmp_path, FOREIGN + b"two\n")
    known = rows_after(tmp_path, known)
    assert sorted((Path(row["path"]).name, row["events"]) for row in known.values()) == [
        ("events_20261115_120000.jsonl", 10),
        ("events_20261116_120000.jsonl", 2),
    ]
    assert rows_after(tmp_path, known) == known


@pytest.mark.parametrize("name", ["events_20261116_120000.jsonl", "events_20261116_120000.jsonl.gz"])
def test_a_log_whose_first_line_has_no_end_is_read(tmp_path: Path, name: str) -> None:
    """A power cut may leave zeros where a file began."""
    zeros = bytes(3 * 1024 * 1024)
    write(tmp_path, zeros, name)
    known = rows_after(tmp_path, {})
    assert [row["events"] for row in known.values()] == [0]
    write(tmp_path, zeros + b"\n" + TEXT, name, age=500)
    (row,) = rows_after(tmp_path, known).values()
    assert (row["events"], row["unreadable"], row["status"]) == (300, 1, "damaged")
    assert row["error"] == "the line is too long for an event"


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


def rows_after(folder: Path, known: Mapping[str, Row], at: datetime = NOW) -> dict[str, Row]:
    """Look, read, and remember, as the index does."""
    found = find(folder, known)
    results: dict[str, ReadResult] = {}
    for split in new_splits(found, known):
        result = results.get(split.file_id, ReadResult())
        for line in lines_of(split):
            is_event = line.text is not None
            result = result.joined(ReadResult(line.end, is_event, not is_event, at, at, line.problem))
        results[split.file_id] = result
    return {str(row["file_id"]): row for row in updated_rows(found, known, results, [str(folder)], at)}
