"""Boxes, of which every MP4 is made (ISO/IEC 14496-12, section 4.2)."""

from __future__ import annotations

import struct

_BOX_HEADER = struct.Struct(">I4s")

#: Size and type.
BOX_HEADER_SIZE = _BOX_HEADER.size


def box_header(kind: bytes, content_size: int) -> bytes:
    return _BOX_HEADER.pack(BOX_HEADER_SIZE + content_size, kind)


def box(kind: bytes, *content: bytes) -> bytes:
    return box_header(kind, sum(map(len, content))) + b"".join(content)


def full_box(kind: bytes, version: int, flags: int, *content: bytes) -> bytes:
    """A box that has a version and flags."""
    return box(kind, (version << 24 | flags).to_bytes(4), *content)
