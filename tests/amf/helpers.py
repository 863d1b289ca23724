"""Helpers for the tests of AMF0 and AMF3."""

from __future__ import annotations

from rtmprelay.amf.amf3 import Amf3Decoder
from rtmprelay.amf.values import AmfValue, Budget, TypedObject


def shape(value: AmfValue) -> object:
    """The value with its types: dicts of different kinds are equal in Python, and so are True and 1.0."""
    kind = type(value)
    if isinstance(value, TypedObject):
        return kind, value.class_name, [(key, shape(item)) for key, item in value.items()]
    if isinstance(value, dict):
        return kind, [(key, shape(item)) for key, item in value.items()]
    if isinstance(value, list):
        return kind, [shape(item) for item in value]
    return kind, value


def decode_amf3(data: bytes, offset: int = 0, budget: Budget | None = None) -> tuple[AmfValue, int]:
    """One AMF3 value, whose marker is at `offset`, and the offset after it."""
    decoder = Amf3Decoder(data, offset, budget or Budget())
    value = decoder.read_value()
    return value, decoder.offset
