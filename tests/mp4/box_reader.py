"""A small reader of MP4, written for the tests and from the standard, not from what is under test."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import attrs

#: Boxes that hold nothing but boxes.
_CONTAINERS = frozenset((b"moov", b"trak", b"mdia", b"minf", b"dinf", b"stbl", b"mvex", b"moof", b"traf"))


@attrs.frozen
class Box:
    """One box: its type, where it is, its content, and the boxes in it."""

    kind: str
    offset: int
    content: bytes
    children: tuple[Box, ...] = ()

    def all(self, kind: str) -> list[Box]:
        """The boxes of this type that are in it, at any depth."""
        found = [child for child in self.children if child.kind == kind]
        return found + [box for child in self.children for box in child.all(kind)]

    def one(self, kind: str) -> Box:
        """The only box of this type."""
        (found,) = self.all(kind)
        return found


def boxes(data: bytes, begin: int = 0, end: int | None = None) -> list[Box]:
    """All boxes, which must fill the data exactly."""
    end = len(data) if end is None else end
    found = []
    at = begin
    while at < end:
        size, kind = struct.unpack_from(">I4s", data, at)
        assert 8 <= size <= end - at, f"{kind!r} at {at} says that it has {size} bytes of {end - at}"
        children = tuple(boxes(data, at + 8, at + size)) if kind in _CONTAINERS else ()
        found.append(Box(kind.decode(), at, data[at + 8 : at + size], children))
        at += size
    return found


def entry_of(stsd: Box) -> tuple[str, bytes, list[Box]]:
    """The one sample entry of a track: its type, its fixed part, and the boxes in it."""
    assert stsd.content[:8] == bytes(4) + (1).to_bytes(4)
    (entry,) = boxes(stsd.content, 8)
    fixed = 78 if entry.kind in ("avc1", "hvc1", "av01") else 28
    return entry.kind, entry.content[:fixed], boxes(entry.content, fixed)


@attrs.frozen
class Sample:
    """One sample of a track, its times in ticks."""

    track: int
    decoded: int
    shown: int
    duration: int
    flags: int | None
    data: bytes


@attrs.frozen
class Fragment:
    """One `moof` with its `mdat`."""

    number: int
    samples: list[Sample]

    def of(self, track: int) -> list[Sample]:
        return [sample for sample in self.samples if sample.track == track]


def fragments(data: bytes) -> list[Fragment]:
    """The fragments of a file without its beginning; each is checked to say the truth about its data."""
    found = []
    parts = boxes(data)
    for moof, mdat in zip(parts[::2], parts[1::2], strict=True):
        assert (moof.kind, mdat.kind) == ("moof", "mdat")
        samples: list[Sample] = []
        covered = 0
        for traf in moof.all("traf"):
            run = list(_samples(traf, moof.offset, data))
            assert run
            samples += run
            covered += sum(len(sample.data) for sample in run)
        assert covered == len(mdat.content), "there is data that belongs to no sample"
        assert {len(moof.all("mfhd")), len(moof.one("mfhd").content)} == {1, 8}
        found.append(Fragment(int.from_bytes(moof.one("mfhd").content[4:], "big"), samples))
    return found


def _samples(traf: Box, moof_at: int, data: bytes) -> Iterator[Sample]:
    header = traf.one("tfhd").content
    flags, track = struct.unpack(">II", header)
    assert flags == 0x020000, "offsets count from the moof, and there are no other fields"
    version_and_flags, time = struct.unpack(">IQ", traf.one("tfdt").content)
    assert version_and_flags == 1 << 24
    trun = traf.one("trun").content
    version_and_flags, count, offset = struct.unpack_from(">IIi", trun)
    version, flags = version_and_flags >> 24, version_and_flags & 0xFFFFFF
    assert flags & 0x301 == 0x301, "offset, durations and sizes are there"
    at = 12
    position = moof_at + offset

    def field(present: int, code: str = ">I") -> int | None:
        nonlocal at
        if not flags & present:
            return None
        (value,) = struct.unpack_from(code, trun, at)
        at += 4
        return int(value)

    for _ in range(count):
        duration, size = field(0x100), field(0x200)
        sample_flags, composition = field(0x400), field(0x800, ">i" if version else ">I")
        assert duration is not None
        assert size is not None
        payload = data[position : position + size]
        assert len(payload) == size
        yield Sample(track, time, time + (composition or 0), duration, sample_flags, payload)
        time += duration
        position += size
    assert at == len(trun)
