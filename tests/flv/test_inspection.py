"""What an inspection of a recording reports: losses, and what is wrong in the header and the metadata."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.flv.repair import inspect, repair
from rtmprelay.flv.script import encode_metadata
from rtmprelay.media import MediaFrame, MediaKind
from tests.flv.media import STARTUP, WHOLE, groups, metadata_of, plain_file, sound, tags_in

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "live_test_20261116_045106.flv"


def insert(data: bytes, *places: tuple[int, bytes]) -> bytes:
    """Put something before some of the tags, which are counted from 0."""
    tags = tags_in(data)
    for number, more in sorted(places, reverse=True):
        at = tags[number].offset
        data = data[:at] + more + data[at:]
    return data


def test_lost_time_counts_once_for_damage_before_the_same_frame(path: Path) -> None:
    script = MediaFrame(MediaKind.DATA, 40, b"\x02\0\x0aonCuePoint\x05")
    frames = [*STARTUP, sound(0), script, sound(100), MediaFrame(MediaKind.AUDIO, 200, b""), sound(130)]
    path.write_bytes(insert(plain_file(frames), (3, b"x" * 5), (4, b"y" * 6), (5, b"z" * 7), (6, b"z" * 8)))
    found = inspect(path)
    assert [(loss.damage.size, loss.milliseconds) for loss in found.losses] == [
        (5, 100),
        (6, 0),
        (7, 30),
        (8, 0),
    ]
    assert (found.lost_bytes, found.lost_ms) == (26, 130)


def test_lost_time_is_unknown_without_frames_around(path: Path) -> None:
    path.write_bytes(insert(plain_file([sound(500), sound(520)]), (0, b"x" * 5)) + b"y" * 3)
    found = inspect(path)
    assert [loss.milliseconds for loss in found.losses] == [None, None]
    assert found.lost_ms == 0


def test_time_that_goes_back_over_damage_is_not_lost(path: Path) -> None:
    path.write_bytes(insert(plain_file([sound(500), sound(100)]), (1, b"x" * 5)))
    assert [loss.milliseconds for loss in inspect(path).losses] == [0]


def test_inspect_and_repair_report_progress(path: Path) -> None:
    path.write_bytes(WHOLE)
    for work in (inspect, repair):
        shown: list[int] = []
        work(path, shown.append)
        assert shown[0] == 13
        assert shown[-1] == len(WHOLE)


COMPLAINTS: list[tuple[Change, str]] = [
    (lambda values: values.pop("filesize"), "the metadata was never completed"),
    (
        lambda values: values.update(filesize=1.0),
        "the metadata says filesize 1 instead of {size}",
    ),
    (lambda values: values.update(duration=2.2), "the metadata says duration 2.2 instead of 1.16"),
    (lambda values: values.update(duration=0.1), "the metadata says duration 0.1 instead of 1.16"),
    (
        lambda values: values.update(duration="1.16"),
        "the metadata says duration that is not a number instead of 1.16",
    ),
    (
        lambda values: values.pop("duration"),
        "the metadata says duration that is not a number instead of 1.16",
    ),
    *(
        (change, "the keyframe index is missing or wrong")
        for change in (
            lambda values: values.pop("keyframes"),
            lambda values: values.update(keyframes=5.0),
            lambda values: values.update(keyframes={}),
            lambda values: values["keyframes"].update(times=1.0),
            lambda values: values["keyframes"].update(filepositions="x"),
            lambda values: values["keyframes"].update(times=[], filepositions=[]),
            lambda values: values["keyframes"]["times"].pop(),
            lambda values: values["keyframes"]["filepositions"].pop(),
            lambda values: values["keyframes"]["times"].reverse(),
        )
    ),
]


def with_metadata(change: Change) -> bytes:
    """A finished file with changed metadata; file size and keyframe index are right unless they are changed."""
    values: dict[str, Any] = {**metadata_of(WHOLE)}
    rest = WHOLE[tags_in(WHOLE)[1].offset :]

    def start(of: dict[str, Any]) -> bytes:
        return plain_file([MediaFrame(MediaKind.DATA, 0, encode_metadata(of))])

    moved = len(start(values)) + len(rest) - len(WHOLE)
    values["keyframes"]["filepositions"] = [at + moved for at in values["keyframes"]["filepositions"]]
    changed = copy.deepcopy(values)
    change(changed)
    values["filesize"] = float(len(start(changed)) + len(rest))
    change(values)
    return start(values) + rest


def test_metadata_written_by_others_is_fine(path: Path) -> None:
    path.write_bytes(with_metadata(lambda values: values.update(duration=2.1)))
    assert inspect(path).is_fine


@pytest.mark.parametrize(("change", "complaint"), COMPLAINTS)
def test_wrong_metadata_is_reported(path: Path, change: Change, complaint: str) -> None:
    path.write_bytes(with_metadata(change))
    found = inspect(path)
    assert found.complaints == [complaint.format(size=found.size)]
    assert found.losses == []


def test_filesize_must_be_exact(path: Path) -> None:
    path.write_bytes(with_metadata(lambda values: values.update(filesize=values["filesize"] + 1.0)))
    size = path.stat().st_size
    assert inspect(path).complaints == [f"the metadata says filesize {size + 1} instead of {size}"]


@pytest.mark.parametrize("flags", [0, 1, 4])
def test_wrong_file_header_is_reported(path: Path, flags: int) -> None:
    path.write_bytes(WHOLE[:4] + bytes([flags]) + WHOLE[5:])
    assert inspect(path).complaints == ["the file header does not say which media there are"]


@pytest.mark.parametrize(
    ("filesize", "shown"),
    [(7.0, "filesize 7 instead of"), ([[["x" * 100]]], "filesize that is not a number instead of")],
)
def test_wrong_metadata_is_reported_briefly(path: Path, filesize: AmfValue, shown: str) -> None:
    """A number is shown as people write it; anything else in a stranger's file is not shown at all."""
    metadata = MediaFrame(MediaKind.DATA, 0, encode_metadata({"filesize": filesize, "duration": 1.0}))
    path.write_bytes(plain_file([metadata, *STARTUP, *groups(2)]))
    (complaint,) = inspect(path).complaints
    assert shown in complaint
    assert len(complaint) < 100
