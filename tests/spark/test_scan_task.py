"""What a worker sends, without Spark."""

from __future__ import annotations

import os
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="Spark is not installed: pip install '.[spark]'")

import pyarrow as pa

from spark_analytics.recordings import tasks
from spark_analytics.recordings.discover import FoundFile, find_recordings
from spark_analytics.recordings.plan import Split, cut
from spark_analytics.recordings.results import PartResult, Reading
from spark_analytics.recordings.rows import DETAIL_ROWS, FINISHERS, FileFrames, packed, unpacked
from spark_analytics.recordings.tasks import Lot, run_task, run_tasks
from tests.flv.media import AAC_HEADER, AVC_HEADER, groups
from tests.spark.media import DAMAGES, make_recording, record

READING = Reading("run", datetime(2026, 1, 2, tzinfo=UTC))

WHOLE = 1 << 40


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[FoundFile]:
    folder = tmp_path_factory.mktemp("recordings")
    whole = make_recording(folder / "live_a_20260101_120000.flv", "h264_aac", 8).read_bytes()
    (folder / "live_b_20260101_120000.flv").write_bytes(DAMAGES["garbage"](whole))
    (folder / "live_c_20260101_120000.flv").write_text("<html></html>")
    return list(find_recordings([str(folder)]).files.values())


def splits_of(files: list[FoundFile], size: int = WHOLE) -> list[Split]:
    return [split for number, file in enumerate(files) for split in cut(file, number, size)]


def recordings_of(lots: list[Lot]) -> list[pa.Table]:
    return [unpacked(lot.recordings) for lot in lots if lot.recordings is not None]


def tables(lots: list[Lot]) -> dict[str, list[dict[str, Any]]]:
    recordings = pa.concat_tables(recordings_of(lots)).sort_by("file")
    frames = FileFrames.of(recordings, {})
    found = {"recordings": recordings.to_pylist()}
    for name, schema in DETAIL_ROWS.items():
        sent = [unpacked(lot.details[name]) for lot in lots if name in lot.details]
        rows = FINISHERS[name](pa.concat_tables([schema.empty_table(), *sent]), frames)
        found[name] = rows.sort_by([("stream", "ascending"), ("wall", "ascending")]).to_pylist()
    return found


def test_rows_in_many_lots_are_the_same(files: list[FoundFile], monkeypatch: pytest.MonkeyPatch) -> None:
    splits = splits_of(files)
    together = list(run_task(splits, READING))
    assert len(together) == 1
    expected = tables(together)
    assert [row["status"] for row in expected["recordings"]] == ["ok", "damaged", "not_flv"]
    assert {row["stream"] for row in expected["seconds"]} == {"a", "b"}
    monkeypatch.setattr(tasks, "_BATCH_ROWS", 4)
    lots = list(run_task(splits, READING))
    assert len(lots) > 2
    assert tables(lots) == expected
    counts = [lot.rows for lot in lots]
    assert counts == sorted(counts)
    assert counts[-1] >= sum(len(expected[name]) for name in DETAIL_ROWS)
    # Whoever cannot take that many gets the first ones, and is told of the rest.
    few = [lot.within(counts[1]) for lot in lots]
    assert few[:2] == lots[:2]
    assert not any(lot.details for lot in few[2:])
    assert [lot.rows for lot in few] == counts
    assert recordings_of(few) == recordings_of(lots)


def test_a_worker_reads_task_after_task(files: list[FoundFile]) -> None:
    tasks = [pickle.dumps([split]) for split in splits_of(files)]
    lots = list(run_tasks(READING, [tasks[2], tasks[0]]))
    assert [table["status"].to_pylist() for table in recordings_of(lots)] == [
        ["not_flv"],
        ["ok"],
    ]


def test_files_that_were_cut_are_sent_in_parts(files: list[FoundFile]) -> None:
    splits = splits_of(files[:1], files[0].size // 3)
    assert len(splits) == 3
    (lot,) = run_task(splits[::-1], READING)
    assert lot.recordings is None
    parts = [(file, part, PartResult.unpacked(data)) for file, part, data in lot.parts]
    assert [(file, part) for file, part, _ in parts] == [(0, 2), (0, 1), (0, 0)]
    last, middle, first = (result for _, _, result in parts)
    assert (first.begin, first.end, middle.end, last.end) == (13, middle.begin, last.begin, files[0].size)
    assert first.part.steps.sum() > 0
    assert first.metadata
    assert not last.metadata


def test_a_recording_without_its_file_header_is_known_by_its_metadata(tmp_path: Path) -> None:
    path = tmp_path / "lost+found.flv"
    (tmp_path / "made").mkdir()
    (made,) = record(tmp_path / "made", [AVC_HEADER, AAC_HEADER, *groups(3)], "live/film", 1_767_268_800.0)
    whole = made.read_bytes()
    found = []
    for data in (whole, bytes(13) + whole[13:], whole[13:]):
        path.write_bytes(data)
        os.utime(path, (0, 0))
        (lot,) = run_task(splits_of(list(find_recordings([str(path)]).files.values())), READING)
        found += recordings_of([lot])[0].to_pylist()
    assert [row["status"] for row in found] == ["ok", "damaged", "damaged"]
    assert len({(row["app"], row["stream"], row["started_at"], row["start_source"]) for row in found}) == 1
    assert found[0]["start_source"] == "metadata"


def test_what_cannot_be_read_has_a_row_that_says_why(files: list[FoundFile], tmp_path: Path) -> None:
    gone = FoundFile(str(tmp_path / "gone.flv"), 100, 0)
    (lot,) = run_task(splits_of([gone, files[0]]), READING)
    (recordings,) = recordings_of([lot])
    assert recordings["status"].to_pylist() == ["unreadable", "ok"]
    assert recordings["error"].to_pylist() == ["No such file or directory", None]


def test_an_error_in_the_middle_of_a_file_is_that_of_the_file(
    files: list[FoundFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is: rows that were sent before are left out by the status."""

    def fails(*_: object) -> None:
        raise RuntimeError("bad luck")

    monkeypatch.setattr(tasks, "read_metadata", fails)
    (lot,) = run_task(splits_of(files[:1]), READING)
    (recordings,) = recordings_of([lot])
    assert recordings["error"].to_pylist() == ["RuntimeError: bad luck"]
    assert tables([lot]) == {
        "recordings": recordings.to_pylist(),
        "seconds": [],
        "keyframes": [],
        "incidents": [],
    }


def test_a_bug_in_judging_a_file_is_told_in_its_row(
    files: list[FoundFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr("spark_analytics.recordings.results.drift_incident", fails)
    (lot,) = run_task(splits_of(files[:1]), READING)
    (row,) = recordings_of([lot])[0].to_pylist()
    assert (row["status"], row["error"]) == ("unreadable", "ValueError: a bug")


def test_what_is_sent_is_small() -> None:
    """A file may have millions of seconds, and Java holds the rows of all of them."""
    count = 50_000
    table = pa.table(
        [
            pa.array(range(count), field.type)
            if field.name == "second"
            else pa.array([0] * count, field.type)
            for field in DETAIL_ROWS["seconds"]
        ],
        schema=DETAIL_ROWS["seconds"],
    )
    data = packed(table)
    assert data is not None
    assert len(data) < table.nbytes / 10
    assert unpacked(data).equals(table)
    assert packed(table.slice(0, 0)) is None
