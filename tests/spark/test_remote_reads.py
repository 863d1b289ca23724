"""A file that is far away is read in blocks, not frame by frame: each request takes its time there."""

from __future__ import annotations

from collections.abc import Callable
from itertools import starmap
from random import Random

import pytest

from rtmprelay.flv.tags import composition_time_ms
from rtmprelay.media import MediaFrame, MediaKind
from tests.spark.media import frames_file

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.flv import scan
from spark_analytics.flv.classify import Classifier
from spark_analytics.flv.datasource import _rows
from spark_analytics.flv.scan import DamagedPart, RangeScanner
from spark_analytics.flv.sources import BlockFile
from tests.spark.test_scanning import MemoryFile, check

_BLOCK = 1 << 16


class CountingFile(MemoryFile):
    """Counts how often it is asked."""

    requests = 0

    def read_at(self, size: int, begin: int) -> bytes:
        self.requests += 1
        return super().read_at(size, begin)


def enhanced(fourcc: bytes) -> Callable[[int, int], bytes]:
    return lambda frame_type, time: bytes([0x81 | frame_type << 4]) + fourcc + time.to_bytes(3, "big")


def one_track(frame_type: int, time: int) -> bytes:
    return bytes([0x86 | frame_type << 4, 0x01]) + b"hvc1\x00" + time.to_bytes(3, "big")


def extended(frame_type: int, time: int) -> bytes:
    """With a timestamp in nanoseconds before the rest."""
    return bytes([0x87 | frame_type << 4, 2, 0, 0, 1, 0x01]) + b"hvc1" + time.to_bytes(3, "big")


HEADS = {
    "hevc": enhanced(b"hvc1"),
    "av1": enhanced(b"av01"),
    "vp9": enhanced(b"vp09"),
    "one track": one_track,
    "extended": extended,
}


@pytest.mark.parametrize("kind", HEADS)
def test_frames_are_not_asked_for_one_by_one(kind: str) -> None:
    times = [(0, 40, 0xFFFFD8)[number % 3] for number in range(600)]
    payloads = [
        HEADS[kind](1 if number % 50 == 0 else 2, time) + bytes(2000) for number, time in enumerate(times)
    ]
    frames = starmap(MediaFrame, [(MediaKind.VIDEO, 40 * n, payload) for n, payload in enumerate(payloads)])
    data = frames_file(list(frames))
    file = CountingFile(data)
    source = BlockFile(file, len(data), "memory", _BLOCK)
    classifier = Classifier()
    found = []
    for tags in RangeScanner(source, 13, len(data)):
        assert not isinstance(tags, DamagedPart)
        found += _rows("memory", source, tags, classifier).to_pylist()
    assert [row["composition_time"] for row in found] == [composition_time_ms(one) for one in payloads]
    assert sum(row["keyframe"] for row in found) == 12
    # What the first bytes do not tell is read with what is between: once for what it is, once for when it is shown.
    assert file.requests <= (1.2 if kind in ("hevc", "av1", "vp9") else 3.5) * len(data) / _BLOCK + 2


def test_places_that_look_like_tags_are_not_asked_one_by_one() -> None:
    """Each of these bytes begins a tag that ends 16 MiB behind it; none of them is one."""
    data = bytes([8, 0xFF, 0, 0, 0, 7]) * (1 << 17) + bytes(17 << 20)
    file = CountingFile(data)
    source = BlockFile(file, len(data), "memory", _BLOCK)
    assert scan.find_start(source, 0, len(data)) is None
    assert file.requests < 150


def _bait(rng: Random, size: int) -> bytes:
    """Many places that look like tags, few that are."""
    data = bytearray()
    while len(data) < size:
        payload = rng.randrange(400)
        data += bytes([rng.choice((8, 9, 18))]) + payload.to_bytes(3, "big") + bytes(7)
        if rng.random() < 0.01:
            data += bytes(payload) + (payload + 11).to_bytes(4, "big")
    return bytes(data[:size])


def _first_whole(data: bytes, begin: int) -> int | None:
    """By looking at each place."""
    for at in range(begin, len(data) - 14):
        size = int.from_bytes(data[at + 1 : at + 4], "big")
        trailer = data[at + 11 + size : at + 15 + size]
        looks_right = data[at] in (8, 9, 18) and not any(data[at + 8 : at + 11])
        if looks_right and trailer == (size + 11).to_bytes(4, "big"):
            return at
    return None


@pytest.mark.parametrize("seed", range(40))
def test_the_first_tag_is_found_among_many_that_look_like_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most of what has to be looked at is behind what is at hand."""
    rng = Random(seed)
    monkeypatch.setattr(scan, "_FIRST_STEP", 200)
    monkeypatch.setattr(scan, "_LARGEST_STEP", 400)
    monkeypatch.setattr(scan, "_FEW", rng.choice((0, 3, 16)))
    monkeypatch.setattr(scan, "_TRAILER_STEP", rng.choice((4, 50, 1 << 20)))
    data = _bait(rng, 3000)
    for begin in range(0, 3000, 100):
        source = BlockFile(MemoryFile(data), len(data), "memory", 16)
        assert scan.find_start(source, begin, len(data)) == _first_whole(data, begin)
    check(data, cuts=12, seed=seed)


@pytest.mark.parametrize("step", [4, 50, 1 << 20])
@pytest.mark.parametrize("first", [0, 7, 39, 40])
@pytest.mark.parametrize("direction", [1, -1])
def test_the_first_of_many_tags_across_each_other(
    direction: int, first: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They end far behind, the first one first or last."""
    monkeypatch.setattr(scan, "_FIRST_STEP", 500)
    monkeypatch.setattr(scan, "_TRAILER_STEP", step)
    count = 40
    data = bytearray(5000)
    for number in range(count):
        begin, end = 11 * number, 4700 + direction * 4 * number
        size = end - begin - 11
        data[begin : begin + 4] = b"\x09" + size.to_bytes(3, "big")
        if number >= first:
            data[end : end + 4] = (size + 11).to_bytes(4, "big")
    source = BlockFile(MemoryFile(bytes(data)), len(data), "memory", 16)
    assert scan.find_start(source, 0, len(data)) == (11 * first if first < count else None)
