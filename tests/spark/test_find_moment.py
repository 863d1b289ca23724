"""Where a stream is shown at a moment, near midnight and near the beginning of a recording."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spark_analytics.catalogue import Catalogue
from spark_analytics.errors import CatalogueError
from spark_analytics.questions.api import find_moment, list_outages
from spark_analytics.questions.ask import Scope
from spark_analytics.store.versions import Snapshot
from tests.spark.report_world import Row, write

MIDNIGHT = datetime(2026, 1, 2, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return MIDNIGHT + timedelta(seconds=seconds)


def catalogue_of(root: Path, begin: float, end: float, keyframes: list[float], **more: list[Row]) -> Snapshot:
    """One recording; times are seconds since midnight, and the byte of a keyframe is its number."""
    names = {"file_id": "f", "path": "/rec/f.flv", "app": "live", "stream": "x"}
    recording = {
        **names,
        "started_at": at(begin),
        "ended_at": at(end),
        "duration_ms": round((end - begin) * 1000),
        "video_frames": 100,
        "audio_frames": 100,
        "status": "ok",
    }
    rows = [
        {**names, "wall": at(time), "time_ms": round((time - begin) * 1000), "byte_offset": number}
        for number, time in enumerate(keyframes)
    ]
    write(root, {"recordings": [recording], "keyframes": rows, **more})
    return Catalogue(root).open()


@pytest.mark.parametrize(
    ("begin", "keyframes", "asked", "found"),
    [
        # Sound first, and the first picture after midnight.
        (-1.0, [0.1, 2.1], -0.5, 0),
        # The first keyframe has an earlier timestamp than the sound that is before it in the file.
        (0.0, [-0.02, 1.98], 0.5, 0),
        (-10.0, [-10.0, -0.5, 1.5], 1.0, 1),
        (-10.0, [-10.0, -0.5, 1.5], 2.0, 2),
        # The camera was switched on two days later.
        (0.0, [2 * 86_400.0], 60.0, 0),
    ],
)
def test_the_keyframe_of_a_moment_near_midnight(
    tmp_path: Path, begin: float, keyframes: list[float], asked: float, found: int
) -> None:
    snapshot = catalogue_of(tmp_path, begin, 3 * 86_400, keyframes)
    moment = find_moment(snapshot, "live/x", at(asked))
    assert (moment.byte_offset, moment.wall) == (found, at(keyframes[found]))


def test_the_keyframe_of_an_outage_near_midnight(tmp_path: Path) -> None:
    outage = {
        "destination": "YouTube",
        "app": "live",
        "stream": "x",
        "began": at(0.5),
        "ended": at(9),
        "seconds": 8.5,
    }
    snapshot = catalogue_of(tmp_path, 0.0, 60.0, [-0.02, 1.98], outages=[outage])
    (found,) = list_outages(snapshot, Scope())
    assert found["byte_offset"] == 0


def test_without_any_keyframe_it_is_the_moment_itself(tmp_path: Path) -> None:
    moment = find_moment(catalogue_of(tmp_path, 0.0, 60.0, []), "live/x", at(12.5))
    assert (moment.byte_offset, moment.time_ms, moment.wall) == (None, 12_500, at(12.5))


def gap(name: str, begin: float, end: float) -> Row:
    return {
        "file_id": name,
        "path": f"/rec/{name}.flv",
        "app": "live",
        "stream": "x",
        "kind": "gap",
        "wall": at(begin),
        "length_ms": round((end - begin) * 1000),
    }


def test_a_moment_in_a_gap_of_the_recording_is_not_shown(tmp_path: Path) -> None:
    snapshot = catalogue_of(tmp_path, -60.0, 4000.0, [-60.0, -10.0, 3600.0], incidents=[gap("f", -5, 3600)])
    with pytest.raises(CatalogueError) as told:
        find_moment(snapshot, "live/x", at(500))
    assert str(told.value) == (
        "No recording shows live/x at 2026-01-02T00:08:20Z;"
        " /rec/f.flv has a gap there, from 2026-01-01T23:59:55Z to 2026-01-02T01:00:00Z."
    )
    # The last picture before it is shown for a while.
    for second, found in ((-4.5, 1), (3600, 2)):
        assert find_moment(snapshot, "live/x", at(second)).byte_offset == found


def test_another_recording_without_the_gap_is_taken(tmp_path: Path) -> None:
    """Also one that is damaged elsewhere."""
    snapshot = catalogue_of(tmp_path / "one", 0.0, 60.0, [0.0, 40.0], incidents=[gap("f", 10, 40)])
    rows = {name: snapshot.arrow(name).to_pylist() for name in ("recordings", "keyframes", "incidents")}
    other = {"file_id": "g", "path": "/rec/g.flv"}
    rows["recordings"].append({**rows["recordings"][0], **other, "status": "damaged"})
    rows["keyframes"].append({**rows["keyframes"][0], **other, "wall": at(18), "byte_offset": 7})
    write(tmp_path / "two", rows)
    both = Catalogue(tmp_path / "two").open()
    assert [find_moment(both, "live/x", at(second)).path for second in (5, 20, 50)] == [
        "/rec/f.flv",
        "/rec/g.flv",
        "/rec/f.flv",
    ]
    assert find_moment(both, "live/x", at(20)).byte_offset == 7


def test_a_frame_with_a_wrong_timestamp_makes_no_gap(tmp_path: Path) -> None:
    """One frame said that it was an hour later; then there was a real gap, from the 30th to the 40th second."""
    shown = [*range(-10, 31), *range(40, 60), 3600]
    seconds = [
        {"file_id": "f", "app": "live", "stream": "x", "second": second + 10, "wall": at(second)}
        for second in shown
    ]
    gaps = [gap("f", 19.96, 3620), gap("f", 30.5, 40)]
    snapshot = catalogue_of(
        tmp_path, -10.0, 3620.0, [-10.0, 18.0, 28.0, 40.0], incidents=gaps, seconds=seconds
    )
    for second, found in ((15, 0), (21, 1), (29, 2), (31, 2), (45, 3)):
        assert find_moment(snapshot, "live/x", at(second)).byte_offset == found
    with pytest.raises(CatalogueError, match=r"has a gap there, from 2026-01-02T00:00:30\.5Z"):
        find_moment(snapshot, "live/x", at(35))


def test_of_two_segments_the_one_that_shows_the_moment_is_taken(tmp_path: Path) -> None:
    """The last picture of the first one would be shown for a while; but the second one goes on, torn as its end may be."""
    snapshot = catalogue_of(tmp_path / "one", 0.0, 9.96, [0.0, 8.0])
    rows = {name: snapshot.arrow(name).to_pylist() for name in ("recordings", "keyframes")}
    other = {"file_id": "g", "path": "/rec/g.flv"}
    times = {"started_at": at(10), "ended_at": at(15)}
    rows["recordings"].append({**rows["recordings"][0], **other, **times, "status": "truncated"})
    rows["keyframes"].append({**rows["keyframes"][0], **other, "wall": at(10), "byte_offset": 7})
    write(tmp_path / "two", rows)
    both = Catalogue(tmp_path / "two").open()
    found = [find_moment(both, "live/x", at(second)).path for second in (9.9, 9.98, 10, 10.9)]
    assert found == ["/rec/f.flv", "/rec/f.flv", "/rec/g.flv", "/rec/g.flv"]
