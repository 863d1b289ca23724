"""Where recordings can be cut: with an index and without, growing, damaged, and with sound alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.errors import BadRecordingError
from rtmprelay.flv import cut_points
from rtmprelay.flv.container import encode_tag, file_header
from rtmprelay.flv.cut_points import SPACING_MS, CutPoints, FilePart, TooLongError, read_tags_at
from rtmprelay.flv.file_metadata import KeyframeIndex, whole_payload
from rtmprelay.media import MediaFrame, MediaKind
from tests.flv.media import AAC_HEADER, AVC_HEADER, groups, plain_file, sound, tags_in, write_file

STARTUP = [AVC_HEADER, AAC_HEADER]


class CountedFile:
    """A file in memory that counts what is read of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.bytes_read = 0

    def read(self, offset: int, size: int) -> bytes:
        found = self.data[offset : offset + size]
        self.bytes_read += len(found)
        return found


def parts_of(data: bytes, use_index: bool = True) -> tuple[list[FilePart], CutPoints, CountedFile]:
    file = CountedFile(data)
    points = CutPoints(file.read)
    if use_index:
        points.use_index(file.read, len(data))
    while not points.look(file.read, len(data), 50):
        pass
    return list(points.parts()), points, file


def first_payloads(data: bytes, parts: Sequence[FilePart]) -> list[bytes]:
    return [
        read_tags_at(lambda at, size: data[at : at + size], one.begin, 1, one.end)[0][0].payload
        for one in parts
    ]


FILM = groups(30, begin_ms=1000, pictures=25)


def test_index_and_headers_of_tags_say_the_same() -> None:
    """30 groups of a second: every fourth keyframe begins a part."""
    data = write_file(FILM, STARTUP)
    with_index, points, _ = parts_of(data)
    without, _, _ = parts_of(data, use_index=False)
    assert with_index == without
    assert [part.time_ms for part in with_index] == [0, 4000, 8000, 12000, 16000, 20000, 24000, 28000]
    assert sum(part.duration_ms for part in with_index) == points.end_ms == 29960
    assert points.begin_ms == 1000


def test_parts_cover_the_file_without_a_gap() -> None:
    data = write_file(FILM, STARTUP)
    parts, points, _ = parts_of(data)
    assert (parts[0].begin, parts[-1].end) == (points.first_tag, len(data))
    assert all(one.end == other.begin for one, other in pairwise(parts))
    assert all(payload[:2] == b"\x17\1" for payload in first_payloads(data, parts)[1:])


def test_index_saves_reading_the_file() -> None:
    big = [
        MediaFrame(frame.kind, frame.timestamp_ms, frame.payload.ljust(5000, b"x"))
        for frame in groups(60, pictures=25)
    ]
    data = write_file(big, STARTUP, space=8000)
    _, _, file = parts_of(data)
    assert file.bytes_read < len(data) / 100
    _, _, file = parts_of(data, use_index=False)
    assert file.bytes_read < len(data) / 50


def test_keyframes_without_an_index_may_be_far_apart() -> None:
    parts, _, _ = parts_of(plain_file([*STARTUP, *groups(2, pictures=250)]))
    assert [part.time_ms for part in parts] == [0, 10000]


def test_sound_alone_is_cut_anywhere() -> None:
    parts, _, _ = parts_of(plain_file([AAC_HEADER, *(sound(23 * number) for number in range(600))]))
    assert len(parts) == 4
    assert all(part.duration_ms >= SPACING_MS for part in parts[:-1])


def test_pictures_that_come_late_are_no_file_of_sound() -> None:
    frames = [*(sound(23 * number) for number in range(400)), *groups(2, begin_ms=9200, pictures=125)]
    parts, _, _ = parts_of(plain_file(frames))
    assert [part.time_ms for part in parts] == [0, 14200]


def test_file_that_grows_is_looked_at_from_where_it_ended() -> None:
    data = plain_file([*STARTUP, *FILM])
    whole, _, _ = parts_of(data)
    points = CutPoints(CountedFile(data).read)
    for size in range(20, len(data) + 1, 997):
        growing = CountedFile(data[:size])
        assert points.look(growing.read, size, 10_000)
    file = CountedFile(data)
    assert points.look(file.read, len(data), 10_000)
    assert list(points.parts()) == whole
    assert file.bytes_read < 6000


def test_damage_ends_the_file() -> None:
    data = bytearray(plain_file([*STARTUP, *FILM]))
    tag = tags_in(bytes(data))[900]
    data[tag.end - 1] ^= 1
    parts, points, _ = parts_of(bytes(data))
    assert parts[-1].end == points.end == tag.offset


def test_index_that_is_not_true_is_not_used() -> None:
    data = write_file(FILM, STARTUP)
    # The same metadata, made longer: now all positions are wrong.
    tags = tags_in(data)
    other = file_header() + encode_tag(MediaFrame(MediaKind.DATA, 0, tags[0].payload + b"\5" * 40))
    other += b"".join(data[tag.offset : tag.end] for tag in tags[1:])
    assert [part.time_ms for part in parts_of(other)[0]] == [part.time_ms for part in parts_of(data)[0]]


def index_payload(entries: Sequence[tuple[int, int]]) -> bytes:
    index = KeyframeIndex()
    for time_ms, position in entries:
        index.add(time_ms, position)
    return whole_payload({}, index)


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**12)), max_size=20))
def test_any_index_gives_parts_in_the_file(entries: list[tuple[int, int]]) -> None:
    metadata = MediaFrame(MediaKind.DATA, 0, index_payload(entries))
    data = plain_file([metadata, *STARTUP, *groups(6, pictures=50)])
    parts, _, _ = parts_of(data)
    assert parts
    assert all(one.end == other.begin for one, other in pairwise(parts))
    assert parts[-1].end <= len(data)


@given(st.binary(max_size=400))
def test_any_bytes_after_the_header_end_somewhere(data: bytes) -> None:
    parts, points, _ = parts_of(file_header() + data)
    assert points.end <= len(data) + 13
    assert all(part.duration_ms > 0 for part in parts)


@pytest.mark.parametrize("data", [b"", b"FLV", b"FLV\1\5\0\0\0\x0a\0\0\0\0", b"ftypisom" * 4])
def test_file_that_is_not_flv_is_a_bad_recording(data: bytes) -> None:
    with pytest.raises(BadRecordingError):
        CutPoints(CountedFile(data).read)


def test_file_with_too_many_tags_and_no_index_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut_points, "MAX_TAGS", 1000)
    data = plain_file(FILM)
    points = CutPoints(CountedFile(data).read)
    assert not points.look(CountedFile(data).read, len(data), 900)
    with pytest.raises(TooLongError):
        points.look(CountedFile(data).read, len(data), 900)


def test_tags_are_read_in_pieces_that_end_with_a_tag() -> None:
    data = plain_file([*STARTUP, *FILM])
    file = CountedFile(data)
    at, found = 13, []
    while at < len(data):
        tags, at = read_tags_at(file.read, at, 100, len(data))
        found += tags
    assert found == tags_in(data)
    # Each piece is read up to a tag that is not whole, and once more from there.
    assert file.bytes_read < 2 * len(data)


def test_tag_that_is_larger_than_a_piece_is_read_as_a_whole() -> None:
    large = MediaFrame(MediaKind.VIDEO, 0, b"\x17\1\0\0\0" + bytes(5000))
    data = plain_file([large])
    tags, end = read_tags_at(CountedFile(data).read, 13, 100, len(data))
    assert ([tag.payload for tag in tags], end) == ([large.payload], len(data))


@pytest.mark.parametrize("begin", [0, 14, 10**9])
def test_no_tag_is_read_where_none_begins(begin: int) -> None:
    data = plain_file(FILM)
    assert read_tags_at(CountedFile(data).read, begin, 1000, len(data)) == ([], begin)
