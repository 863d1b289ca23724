"""Long inputs that are as expensive as one can make them: many small things, deep ones, and claims of large ones."""

from __future__ import annotations

from rtmprelay.flv.container import file_header

#: Bytes of one input, more or less.
_SIZE = 150_000


def _fill(start: bytes, piece: bytes) -> bytes:
    """As many of these as fit."""
    return start + piece * (_SIZE // len(piece))


def costly_amf() -> list[bytes]:
    """AMF0: the smallest containers side by side and inside each other, references, and long texts."""
    objects = b"\x03\x00\x00\x09"
    return [
        _fill(b"", b"\x05"),
        _fill(b"", objects),
        _fill(b"", b"\x0a\x00\x00\x00\x00"),
        _fill(b"\x0a\xff\xff\xff\xff", b"\x05"),
        _fill(b"\x08\xff\xff\xff\xff", b"\x00\x01a\x05"),
        # Down to the deepest, and up again, many times.
        _fill(b"", b"\x03" + b"\x00\x01a\x03" * 30 + b"\x00\x00\x09" * 31),
        _fill(b"\x0a\x00\x00\xff\xff", b"\x07\x00\x00"),
        # Each list refers to the one before it, twice.
        b"\x0a\x00\x00\x00\x02\x05\x05"
        + b"".join(b"\x0a\x00\x00\x00\x02" + (b"\x07" + n.to_bytes(2)) * 2 for n in range(20_000)),
        b"\x0c" + _SIZE.to_bytes(4) + b"\xff" * _SIZE,
        _fill(b"", b"\x02\x00\x01\xff"),
    ]


def costly_amf3() -> list[bytes]:
    """AMF3: the same."""
    return [
        _fill(b"\x09\x8f\xff\x7f\x01", b"\x01"),
        _fill(b"\x09\x8f\xff\x7f\x01", b"\x0a\x0b\x01\x01"),
        _fill(b"\x09\x8f\xff\x7f\x01", b"\x09\x01\x01"),
        _fill(b"\x09\x8f\xff\x7f\x01", b"\x09\x00"),
        # Classes with many names, which each object of them has again.
        b"\x09\x8f\xff\x7f\x01\x0a" + b"\xff\xff\x03" + b"\x01" + b"\x03a" * 60_000 + b"\x0a\x01" * 80_000,
        _fill(b"", b"\x09\x03\x01"),
    ]


def costly_chunks() -> list[bytes]:
    """Chunks: as small as can be, on as many chunk streams as there are, and messages that claim to be large."""
    one_byte = b"\x02\x00\x00\x00\x00\x00\x04\x01\x00\x00\x00\x00\x00\x00\x00\x01"
    empty = b"\x04" + bytes(3) + b"\x00\x00\x00\x08" + b"\x01\x00\x00\x00"
    large = b"".join(
        bytes([number]) + bytes(3) + b"\xff\xff\xff\x09\x01\x00\x00\x00" + bytes(128)
        for number in range(4, 60)
    )
    parts = b"\x08\x00\x00\x00" + bytes(7) + b"\x00\x00\x00\x0b"
    aggregate = _fill(b"", parts)
    size = b"\x02\x00\x00\x00\x00\x00\x04\x01\x00\x00\x00\x00\x00\xff\xff\xff"
    whole = b"\x05" + bytes(3) + len(aggregate).to_bytes(3) + b"\x16\x01\x00\x00\x00" + aggregate
    return [
        _fill(one_byte + b"\x04" + bytes(3) + b"\xff\xff\xff\x09\x01\x00\x00\x00x", b"\xc4x"),
        _fill(empty, b"\xc4"),
        _fill(b"", empty),
        large,
        size + whole,
        # A new chunk size before each message.
        _fill(b"", one_byte + size + empty),
    ]


def costly_json() -> list[bytes]:
    """JSON: deep, wide, with long names, and with numbers that take long to read."""
    return [
        b"[" * _SIZE,
        b'{"a":' * (_SIZE // 5),
        _fill(b'{"destinations": [', b"{},") + b"{}]}",
        _fill(b'{"streams": [', b"{},") + b"{}]}",
        b'{"destinations": ' + b"9" * _SIZE + b"}",
        b'{"destinations": [{"name": "' + b"${KEY}" * (_SIZE // 6) + b'"}]}',
        b"{" + b",".join(b'"%d":0' % number for number in range(_SIZE // 9)) + b"}",
    ]


def costly_recordings() -> list[bytes]:
    """FLV: the smallest tags, tags that claim to be large, and a script that is a bomb."""
    empty = b"\x08" + bytes(10) + (11).to_bytes(4)
    video = b"\x09\x00\x00\x01" + bytes(7) + b"\x17" + (12).to_bytes(4)
    script = b"\x02\x00\x0aonMetaData" + b"\x03" + b"\x00\x01a\x03" * 60_000
    bomb = b"\x12" + len(script).to_bytes(3) + bytes(7) + script + (11 + len(script)).to_bytes(4)
    return [
        _fill(file_header(), empty),
        _fill(file_header(), video),
        _fill(file_header(), b"\x09\xff\xff\xff" + bytes(7)),
        file_header() + bomb,
        _fill(file_header(), bytes(15)),
    ]
