"""Script data: the stream metadata, and the envelope that publishers put around it.

A publisher sends "@setDataFrame", "onMetaData", values; players and files get it without "@setDataFrame".
Only bytes are compared, except where values are read or written: data messages arrive at the rate of the
stream, and most of them mean nothing to a relay.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

from rtmprelay.amf.amf0 import AmfValue, Budget, EcmaArray, decode_first, encode
from rtmprelay.errors import ProtocolError

_ON_METADATA = encode("onMetaData")
_SET_DATA_FRAME = encode("@setDataFrame")
_CLEAR_DATA_FRAME = encode("@clearDataFrame")
_NUMBER_MARKER = b"\x00"
_SET_METADATA = _SET_DATA_FRAME + _ON_METADATA


def encode_metadata(values: Mapping[str, AmfValue]) -> bytes:
    """The payload of an onMetaData script tag, without "@setDataFrame"."""
    return encode("onMetaData", EcmaArray(values))


def decode_metadata(payload: bytes, budget: Budget | None = None) -> dict[str, AmfValue] | None:
    """The values of an onMetaData payload; None if it is another message or cannot be read.

    Args:
        budget: How many values it may have; afterwards it says how many were read.
    """
    message = without_set_data_frame(payload)
    if not message.startswith(_ON_METADATA):
        return None
    try:
        # Only this one value: what some encoders append to it has no use.
        values, _ = decode_first(message, len(_ON_METADATA), budget)
    except ProtocolError:
        return None
    return dict(values) if isinstance(values, dict) else None


def find_number(head: bytes, name: str) -> float | None:
    """A number in the beginning of a file with metadata, without reading all of the metadata; None if it is not there.

    An index of keyframes may be many times as long as everything else.
    """
    marked = len(name).to_bytes(2) + name.encode() + _NUMBER_MARKER
    at = head.find(marked) + len(marked)
    if at < len(marked) or at + 8 > len(head):
        return None
    (value,) = struct.unpack_from(">d", head, at)
    return float(value) if math.isfinite(value) and value >= 0 else None


def is_metadata(payload: bytes) -> bool:
    """Whether this is onMetaData, with "@setDataFrame" or without."""
    return payload.startswith((_ON_METADATA, _SET_METADATA))


def is_clear_data_frame(payload: bytes) -> bool:
    """Whether the publisher withdraws its metadata."""
    return payload.startswith(_CLEAR_DATA_FRAME)


def without_set_data_frame(payload: bytes) -> bytes:
    """The form for players and files."""
    return payload.removeprefix(_SET_DATA_FRAME)


def with_set_data_frame(payload: bytes) -> bytes:
    """The form that a publisher sends to a server; a payload that has it already is returned unchanged."""
    return payload if payload.startswith(_SET_DATA_FRAME) else _SET_DATA_FRAME + payload
