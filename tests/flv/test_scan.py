"""The whole tags of a damaged file are found, and the damage is classified."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.errors import BadRecordingError
from rtmprelay.flv import scan
from rtmprelay.flv.container import MAX_PAYLOAD_SIZE, FlvTag, encode_tag, file_header, tag_trailer
from rtmprelay.flv.scan import Damage, DamageKind, TagScanner, WindowedFile, has_file_header, judge_damage
from rtmprelay.media import MediaFrame, MediaKind
from tests.flv.media import FRAMES, WHOLE, plain_file, tags_in

TAG = encode_tag(MediaFrame(MediaKind.AUDIO, 1200, b"\xaf\x01" + b"a" * 50))


@contextmanager
def windowed(data: bytes) -> Iterator[WindowedFile]:
    descriptor = os.memfd_create("scanned")
    try:
        os.write(descriptor, data)
        yield WindowedFile(descriptor)
    finally:
        os.close(descriptor)


def scanned(data: bytes) -> list[FlvTag | Damage]:
    with windowed(data) as file:
        return list(TagScanner(file))


def damage_in(data: bytes) -> list[Damage]:
    return [found for found in scanned(data) if isinstance(found, Damage)]


# -- the window ----------------------------------------------------------------------------------------------


pread = os.pread


@given(st.lists(st.tuples(st.integers(0, 120), st.integers(0, 60)), max_size=12), st.integers(1, 50))
def test_windowed_file_reads_what_is_in_the_file(places: list[tuple[int, int]], window: int) -> None:
    data = bytes(range(100))
    with windowed(data) as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "_WINDOW_SIZE", window)
        assert file.size == len(data)
        for offset, size in places:
            assert file.read(offset, size) == data[offset : offset + size]
            assert file.peek(offset // 2, size) == data[offset // 2 : offset // 2 + size]


def test_windowed_file_completes_short_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    with windowed(bytes(range(100))) as file:
        monkeypatch.setattr(
            os, "pread", lambda descriptor, size, offset: pread(descriptor, min(size, 7), offset)
        )
        assert file.read(3, 90) == bytes(range(3, 93))


def test_windowed_file_reads_less_from_a_file_that_became_shorter() -> None:
    with windowed(bytes(range(100))) as file:
        os.ftruncate(file._descriptor, 50)
        assert file.read(40, 20) == bytes(range(40, 50))


def test_windowed_file_ignores_what_is_appended() -> None:
    with windowed(bytes(10)) as file:
        os.write(file._descriptor, b"more")
        assert file.read(0, 20) == bytes(10)


def test_windowed_file_reads_once_inside_its_window(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[tuple[int, int]] = []

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        reads.append((offset, size))
        return pread(descriptor, size, offset)

    monkeypatch.setattr(scan, "_WINDOW_SIZE", 40)
    monkeypatch.setattr(os, "pread", counted)
    with windowed(bytes(100)) as file:
        for offset, size in ((10, 5), (10, 40), (49, 1)):
            file.read(offset, size)
            file.peek(offset, size)
        assert reads == [(10, 40)]
        file.peek(90, 4)
        file.read(12, 3)
        assert reads == [(10, 40), (90, 4)], "peek leaves the window where it is"


# -- whole tags ----------------------------------------------------------------------------------------------


def test_undamaged_file_has_only_tags() -> None:
    assert scanned(WHOLE) == tags_in(WHOLE)


@pytest.mark.parametrize("garbage", [1, 2, 3, 100])
def test_tag_right_after_garbage_is_found(garbage: int) -> None:
    at = tags_in(WHOLE)[20].offset
    (damage,) = damage_in(WHOLE[:at] + b"x" * garbage + WHOLE[at:])
    assert (damage.kind, damage.begin, damage.end) == (DamageKind.GARBAGE, at, at + garbage)
    assert damage.timestamp_ms is None


def test_file_without_header_begins_with_its_tags() -> None:
    with windowed(TAG) as file:
        scanner = TagScanner(file)
        assert (scanner.has_header, scanner.flags, scanner.first_tag) == (False, 0, 0)
        assert [found.end for found in scanner] == [len(TAG)]


def test_file_header_says_which_media_follow() -> None:
    with windowed(file_header(has_video=False)) as file:
        scanner = TagScanner(file)
        assert (scanner.has_header, scanner.flags, scanner.first_tag) == (True, 4, 13)
        assert list(scanner) == []


@pytest.mark.parametrize("data", [b"FLV", b"FLV\x01\x05\0\0\0\x09\0\0\0\1"])
def test_damaged_file_header_is_damage(data: bytes) -> None:
    with windowed(data) as file:
        scanner = TagScanner(file)
        assert not scanner.has_header
        assert [found.end for found in scanner] == [len(data)]


@pytest.mark.parametrize(
    "data", [b"", b"X", b"<html>", bytes(100_000), b"\x00\x00\x00\x18ftypmp42", TAG[:-1]]
)
def test_file_without_header_and_tags_is_refused(data: bytes) -> None:
    with windowed(data) as file, pytest.raises(BadRecordingError) as refused:
        TagScanner(file)
    assert str(refused.value) == "This is not an FLV file, and no FLV tags are in it."


@pytest.mark.parametrize(
    ("start", "whole"),
    [
        (b"FLV\x01\x05\0\0\0\x09\0\0\0\0", True),
        (b"FLV\x01\x00\0\0\0\x09\0\0\0\0\x09more", True),
        (b"FLV\x02\x05\0\0\0\x09\0\0\0\0", False),
        (b"XXX\x01\x05\0\0\0\x09\0\0\0\0", False),
        (b"FLV\x01\x05\0\0\0\x0a\0\0\0\0", False),
        (b"FLV\x01\x05\0\0\0\x09\0\0\0\1", False),
        (b"FLV\x01\x05\0\0\0\x09\0\0\0", False),
        (b"", False),
    ],
)
def test_file_header_is_recognised(start: bytes, whole: bool) -> None:
    assert has_file_header(start) is whole


def test_progress_grows_to_the_size_of_the_file() -> None:
    shown: list[int] = []
    data = WHOLE[:5000] + b"x" * 100 + WHOLE[5000:]
    with windowed(data) as file:
        tags = list(TagScanner(file, shown.append))
    assert shown == sorted(shown)
    assert shown[0] == 13
    assert shown[-1] == len(data)
    assert len(shown) > len(tags)


# -- damage --------------------------------------------------------------------------------------------------


def part(header: bytes, size: int, trailer: bytes = b"tail") -> Callable[[int, int], bytes]:
    """Reads from a part of `size` bytes of which only both ends are told."""

    def read(offset: int, count: int) -> bytes:
        if offset == size - len(trailer):
            return trailer[:count]
        return (header + b"x" * 40)[offset : offset + count]

    return read


def start(size: int, timestamp_ms: int = 7) -> bytes:
    """The header of a tag that claims this size."""
    return b"\x09" + size.to_bytes(3) + timestamp_ms.to_bytes(3) + bytes(4)


@pytest.mark.parametrize(
    ("header", "payload_size", "trailer", "kind", "timestamp_ms"),
    [
        (start(99), 5, tag_trailer(5), DamageKind.WRONG_SIZE, 7),
        (start(99), 0, tag_trailer(0), DamageKind.WRONG_SIZE, 7),
        (start(5), 5, b"junk", DamageKind.WRONG_TRAILER, 7),
        (start(0), 0, b"junk", DamageKind.WRONG_TRAILER, 7),
        (start(99), 5, b"junk", DamageKind.GARBAGE, 7),
        (start(5), MAX_PAYLOAD_SIZE, tag_trailer(MAX_PAYLOAD_SIZE), DamageKind.WRONG_SIZE, 7),
        (start(5), MAX_PAYLOAD_SIZE + 1, tag_trailer(MAX_PAYLOAD_SIZE + 1), DamageKind.GARBAGE, 7),
        (start(MAX_PAYLOAD_SIZE), -1, b"junk", DamageKind.GARBAGE, 7),
        (b"\x07" + start(5)[1:], 5, tag_trailer(5), DamageKind.GARBAGE, None),
        (start(5)[:8] + b"\1\0\0", 5, tag_trailer(5), DamageKind.GARBAGE, None),
    ],
)
def test_damage_before_a_whole_tag_is_classified(
    header: bytes, payload_size: int, trailer: bytes, kind: DamageKind, timestamp_ms: int | None
) -> None:
    size = 11 + payload_size + 4
    assert judge_damage(part(header, size, trailer), 0, size, at_end=False) == (kind, timestamp_ms)


@pytest.mark.parametrize(
    ("tail", "kind", "timestamp_ms"),
    [
        (start(20) + b"x" * 20, DamageKind.TORN_TAIL, 7),
        (start(20) + b"x" * 23, DamageKind.TORN_TAIL, 7),
        (start(20) + b"x" * 24, DamageKind.GARBAGE, 7),
        (start(20)[:10], DamageKind.TORN_TAIL, None),
        (b"x" * 10, DamageKind.TORN_TAIL, None),
        (b"x" * 11, DamageKind.GARBAGE, None),
        (b"\0", DamageKind.ZERO_TAIL, None),
        (bytes(15), DamageKind.ZERO_TAIL, None),
        (b"x" + bytes(15), DamageKind.GARBAGE, None),
        (b"x" + bytes(16), DamageKind.ZERO_TAIL, None),
        (start(200) + b"x" + bytes(15), DamageKind.TORN_TAIL, 7),
        (start(200) + b"x" + bytes(16), DamageKind.ZERO_TAIL, 7),
    ],
)
def test_damage_at_the_end_of_a_file_is_classified(
    tail: bytes, kind: DamageKind, timestamp_ms: int | None
) -> None:
    data = bytes(100) + tail
    assert judge_damage(lambda at, size: data[at : at + size], 100, len(data), at_end=True) == (
        kind,
        timestamp_ms,
    )


@pytest.mark.parametrize(
    ("tail", "kind"),
    [
        (WHOLE[-40:-5], DamageKind.GARBAGE),
        (encode_tag(MediaFrame(MediaKind.AUDIO, 1200, b"\xaf\x01" + b"a" * 50))[:40], DamageKind.TORN_TAIL),
        (encode_tag(MediaFrame(MediaKind.AUDIO, 1200, b"\xaf\x01" + b"a" * 50))[:40] + bytes(500), DamageKind.ZERO_TAIL),
        (b"1234567", DamageKind.TORN_TAIL),
        (random.Random(3).randbytes(70_000), DamageKind.GARBAGE),
    ],
)  # fmt: skip
def test_damage_at_the_end_is_classified(tail: bytes, kind: DamageKind) -> None:
    (damage,) = [one for one in scanned(WHOLE + tail) if isinstance(one, Damage)]
    assert (damage.kind, damage.size) == (kind, len(tail))


def test_whole_tag_between_two_damaged_ones_is_found() -> None:
    tags = tags_in(WHOLE)
    data = bytearray(WHOLE)
    for number in (20, 22):
        data[tags[number].offset + 1] ^= 0xFF
    assert [found for found in scanned(bytes(data)) if isinstance(found, FlvTag)] == [
        tag for number, tag in enumerate(tags) if number not in (20, 22)
    ]


def test_tags_are_found_across_the_edges_of_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    tags = tags_in(WHOLE)
    garbage = random.Random(2).randbytes(1000)
    at = tags[30].offset
    data = WHOLE[:at] + garbage + WHOLE[at:]
    for size in range(15, 90, 7):
        monkeypatch.setattr(scan, "_WINDOW_SIZE", size)
        found = scanned(data)
        assert [one.payload for one in found if isinstance(one, FlvTag)] == [tag.payload for tag in tags]
        assert [one.size for one in found if isinstance(one, Damage)] == [1000]


@given(FRAMES, st.data())
def test_file_cut_anywhere_has_exactly_the_whole_tags_before(
    frames: list[MediaFrame], data: st.DataObject
) -> None:
    file = plain_file(frames)
    cut = data.draw(st.integers(13, len(file)))
    tags = [found for found in scanned(file[:cut]) if isinstance(found, FlvTag)]
    assert tags == [tag for tag in tags_in(file) if tag.end <= cut]


@given(FRAMES, st.data())
def test_any_damage_is_skipped_and_reported(frames: list[MediaFrame], data: st.DataObject) -> None:
    """Tags outside the damage are all found; the rest is reported, unless only payload was damaged."""
    file = plain_file(frames)
    begin = data.draw(st.integers(13, len(file)))
    damage = data.draw(st.binary(max_size=min(200, len(file) - begin)))
    end = begin + len(damage)
    damaged = file[:begin] + damage + file[end:]
    found = scanned(damaged)
    tags = [one for one in found if isinstance(one, FlvTag)]
    for tag in tags_in(file):
        if tag.end <= begin or tag.offset >= end:
            assert tag in tags
    # Tags and damage together are the file, in order, without holes.
    at = 13
    for one in found:
        place = one.offset if isinstance(one, FlvTag) else one.begin
        assert place == at
        at = one.end
    assert at == len(file)
    reported = [one for one in found if isinstance(one, Damage)]
    assert all(one.begin < end and one.end > begin for one in reported)
