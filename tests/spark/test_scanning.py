"""Reading in parts gives exactly what reading from the start gives, whatever the file is."""

from __future__ import annotations

import mmap
import os
import random
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtmprelay.errors import BadRecordingError
from rtmprelay.flv.container import FlvTag
from rtmprelay.flv.scan import Damage, TagScanner, WindowedFile
from rtmprelay.media import MediaFrame, MediaKind
from tests.flv.media import FRAMES, groups, plain_file, write_file
from tests.spark.media import DAMAGES, KINDS, hostile_endless_chain, hostile_flv_inside, make_recording

np = pytest.importorskip("numpy", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.flv import scan, sources  # noqa: E402
from spark_analytics.flv.scan import RangeScanner, first_tag, start_of_part  # noqa: E402
from spark_analytics.flv.sources import LOCAL_BLOCK, BlockFile, ByteSource, aligned_memory, open_source  # noqa: E402
from spark_analytics.flv.tags import TagArrays  # noqa: E402

#: What a scan finds: tags as (offset, type, size, timestamp, first bytes), damages as (kind, begin, end).
Found = list[tuple[object, ...]]

#: Random places at which a file is cut into parts. The long version is for a quiet hour.
CUTS = int(os.environ.get("SPARK_TEST_CUTS", "400"))

#: Files that are made up and damaged at random. The same.
EXAMPLES = int(os.environ.get("SPARK_TEST_EXAMPLES", "100"))


class MemoryFile:
    """A file in memory, as a file system of pyarrow gives it."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def size(self) -> int:
        return len(self._data)

    def read_at(self, size: int, begin: int) -> bytes:
        return self._data[begin : begin + size]

    def close(self) -> None:
        pass


def source_of(data: bytes, block_size: int = 1 << 23) -> ByteSource:
    return BlockFile(MemoryFile(data), len(data), "memory", block_size)


def plain(data: bytes) -> Found:
    """What the scanner of the server says."""
    descriptor = os.memfd_create("scanned")
    try:
        os.write(descriptor, data)
        found = list(TagScanner(WindowedFile(descriptor)))
    except BadRecordingError:
        return [("no tags",)]
    finally:
        os.close(descriptor)
    rows: Found = []
    for one in found:
        if isinstance(one, Damage):
            rows.append((one.kind.name, one.begin, one.end))
        tag = one if isinstance(one, FlvTag) else one.tag
        if tag is not None:
            rows.append((tag.offset, tag.type_byte, len(tag.payload), tag.timestamp_ms, tag.payload[:9]))
    return rows


def fast(source: ByteSource, begin: int, stop: int, block_tags: int = scan.BLOCK_TAGS) -> tuple[Found, int]:
    """What the fast scanner says, and where it ends."""
    rows: Found = []
    found = RangeScanner(source, begin, stop, block_tags)
    for one in found:
        if isinstance(one, scan.DamagedPart):
            rows.append((one.kind.name, one.begin, one.end))
        tags = one.tag if isinstance(one, scan.DamagedPart) else one
        if tags is not None:
            for at, kind, size, time, head in zip(
                tags.offsets, tags.types, tags.sizes, tags.timestamps, tags.heads, strict=True
            ):
                rows.append((int(at), int(kind), int(size), int(time), head.tobytes()[: int(size)]))
    return rows, found.position


def in_parts(source: ByteSource, cuts: list[int]) -> Found:
    """The same, each part on its own; each must end where the next one begins."""
    edges = [0, *sorted(cuts), source.size]
    rows: Found = []
    before = first_tag(source)
    for lo, hi in pairwise(edges):
        start = start_of_part(source, lo, hi)
        if start == hi:
            continue
        assert start == before, "a part begins where the one before it ends"
        found, before = fast(source, start, hi)
        rows += found
    assert before >= source.size
    return rows


def check(data: bytes, cuts: int = 40, seed: int = 0) -> None:
    """All ways give the same."""
    expected = plain(data)
    source = source_of(data)
    rng = random.Random(seed)
    if expected == [("no tags",)]:
        assert all(len(row) == 3 for row in fast(source, first_tag(source), source.size)[0])
        return
    assert fast(source, first_tag(source), source.size)[0] == expected
    for parts in (2, 3, 7, cuts):
        places = [rng.randrange(1, max(2, len(data))) for _ in range(parts - 1)]
        assert in_parts(source, places) == expected
    for block_tags in (1, 5):
        assert fast(source, first_tag(source), source.size, block_tags)[0] == expected


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scanning")


@pytest.fixture(scope="module")
def whole(folder: Path) -> bytes:
    return make_recording(folder / "whole.flv", "h264_aac", 6).read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_ffmpeg(folder: Path, kind: str) -> None:
    data = make_recording(folder / f"{kind}.flv", kind, 3).read_bytes()
    check(data, cuts=CUTS)


def test_files_of_the_recorder() -> None:
    check(write_file(groups(30)), cuts=CUTS)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files(whole: bytes, damage: str) -> None:
    check(DAMAGES[damage](whole), cuts=CUTS // 4)


@pytest.mark.parametrize("first", DAMAGES)
def test_files_with_two_damages(whole: bytes, first: str) -> None:
    for second in ("garbage", "cut in a tag", "huge size", "zero tail"):
        check(DAMAGES[second](DAMAGES[first](whole)), cuts=12)


def test_a_file_whose_payloads_are_files(whole: bytes) -> None:
    """Wherever the search begins, it finds a chain of tags that looks perfect and is none."""
    data = hostile_flv_inside(whole[:60_000])
    false = [
        place
        for place in range(20_000, 50_000, 1000)
        if scan.find_start(source_of(data), place, len(data)) != 60_033
    ]
    assert len(false) == 30, "the file must be hostile"
    check(data, cuts=60)


def test_a_chain_of_false_tags_across_the_true_headers() -> None:
    data = hostile_endless_chain()
    true = {row[0] for row in plain(data)}
    source = source_of(data)
    starts = [scan.find_start(source, place, len(data)) for place in range(100, len(data) - 1000, 500)]
    assert sum(start not in true for start in starts) > len(starts) // 5, "the file must be hostile"
    check(data, cuts=100)
    check(data[:30_000] + b"damage" * 10 + data[30_000:], cuts=100)


@pytest.mark.parametrize(
    "data", [b"", b"F", b"FLV\x01\x05\0\0\0\x09", b"FLV\x01\x05\0\0\0\x09\0\0\0\0", b"<html></html>" * 100]
)
def test_files_without_tags(data: bytes) -> None:
    check(data)


def test_tags_of_unknown_types_and_streams(whole: bytes) -> None:
    frames = plain_file(groups(4))
    for type_byte in (0, 15, 0x28, 0x29, 0xFF):
        data = frames + bytes([type_byte]) + b"\0\0\x03\0\0\x10\0\0\0\1abc\0\0\0\x0e" + frames[13:]
        check(data, cuts=100)


@settings(max_examples=EXAMPLES, deadline=None)
@given(FRAMES, st.data())
def test_any_damage_anywhere(frames: list[MediaFrame], data: st.DataObject) -> None:
    file = bytearray(plain_file(frames))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(file)))
        file[at : at + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=20))
    check(bytes(file), cuts=data.draw(st.integers(2, 12)), seed=data.draw(st.integers(0, 99)))


@pytest.mark.parametrize("block", [64, 1000, 70_000])
def test_blocks_of_any_size_give_the_same(
    whole: bytes, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory, and of a file that is read into the same memory again and again, which has to grow."""
    monkeypatch.setattr(sources, "LOCAL_BLOCK", block)
    monkeypatch.setattr(sources, "_spare_memory", [])
    for name in ("garbage", "huge size", "zero tail", "many places"):
        data = DAMAGES[name](whole[:100_000])
        path = tmp_path / name
        path.write_bytes(data)
        for source in (source_of(data, block), open_source(str(path), len(data))):
            assert fast(source, first_tag(source), len(data))[0] == plain(data)
            assert in_parts(source, [1_000, 33_333, 70_001]) == plain(data)
            source.close()


def test_tags_stay_what_they_are_when_their_file_is_closed(whole: bytes, tmp_path: Path) -> None:
    """The next file is read into the same memory."""
    path, other = tmp_path / "file.flv", tmp_path / "other.flv"
    path.write_bytes(whole)
    other.write_bytes(b"\xee" * len(whole))
    source = open_source(str(path), len(whole))
    kept = [tags for tags in RangeScanner(source, 13, len(whole)) if isinstance(tags, TagArrays)]
    heads = [tags.heads.copy() for tags in kept]
    source.close()
    again = open_source(str(other), len(whole))
    again.window(0, len(whole))
    assert all((tags.heads == before).all() for tags, before in zip(kept, heads, strict=True))
    assert [int(offset) for tags in kept for offset in tags.offsets] == [row[0] for row in plain(whole)]
    again.close()


def test_a_file_that_is_not_what_it_was(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.flv"
    path.write_bytes(DAMAGES["garbage"](whole))
    size = path.stat().st_size
    source = open_source(str(path), size)
    assert fast(source, 13, source.size)[0] == plain(path.read_bytes())
    source.close()
    with pytest.raises(OSError, match="became shorter"):
        open_source(str(path), size + 1)
    # What is written meanwhile is not looked at, and what is lost meanwhile is told.
    source = open_source(str(path), size - 1000)
    assert fast(source, 13, source.size)[0] == plain(path.read_bytes()[:-1000])
    source.close()
    source = open_source(str(path), size)
    os.truncate(path, 2000)
    with pytest.raises(OSError, match="became shorter"):
        fast(source, 13, source.size)
    source.close()


def test_a_tag_that_is_larger_than_a_block_is_read_at_once() -> None:
    """And not in ever larger steps, nor more often than it must be."""
    frame = MediaFrame(MediaKind.VIDEO, 0, b"\x17\x01" + bytes(range(256)) * 4000)
    data = plain_file([frame, *groups(2), frame])
    file = CountingFile(data)
    source = BlockFile(file, len(data), "memory", 4096)
    assert fast(source, 13, len(data))[0] == plain(data)
    assert file.read_bytes < 1.2 * len(data)


def test_tags_that_lie_about_their_size_are_not_read_for_long() -> None:
    """Each of them says that it has 16 MiB, and behind it is a whole one."""
    lie = b"\x09\xff\xff\xf0" + bytes(7)
    small = plain_file(groups(1))[13:48]
    data = plain_file(groups(1)) + (lie + small) * 300 + bytes(range(256)) * 70_000
    file = CountingFile(data)
    source = BlockFile(file, len(data), "memory", 1 << 22)
    rows, _ = fast(source, 13, len(data))
    assert rows == plain(data)
    assert len(rows) >= 300
    assert file.read_bytes < 8 * len(data)


class CountingFile(MemoryFile):
    """Counts what is read of it."""

    read_bytes = 0

    def read_at(self, size: int, begin: int) -> bytes:
        data = super().read_at(size, begin)
        self.read_bytes += len(data)
        return data


@pytest.mark.parametrize("size", [1, 4096, 5000, LOCAL_BLOCK])
def test_blocks_begin_with_a_page(size: int) -> None:
    """Where large arrays usually begin, some processors copy at half of their speed."""
    memory = aligned_memory(size)
    assert len(memory) == size
    assert memory.ctypes.data % mmap.PAGESIZE == 0
