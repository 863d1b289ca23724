"""AMF0: the encoding of RTMP commands and of stream metadata.

Numbers are floats (an int is encoded as a number too), strings and long strings are str, objects are dicts, strict
arrays are lists, null is None; EcmaArray, TypedObject, AmfDate, XmlDocument, UNDEFINED and UNSUPPORTED stand for the
types of their name. A reference is decoded as the very object that it refers to, and an AMF3 value as described in
rtmprelay.amf.amf3.

A decoded value can contain itself: code that walks through one must be prepared for that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from rtmprelay.amf.amf3 import Amf3Decoder
from rtmprelay.amf.values import (
    MAX_DEPTH,
    MAX_VALUES,
    UNDEFINED,
    UNSUPPORTED,
    AmfDate,
    AmfSingleton,
    AmfValue,
    Budget,
    ByteReader,
    EcmaArray,
    References,
    TypedObject,
    XmlDocument,
)
from rtmprelay.errors import LocalProtocolError, RemoteProtocolError

__all__ = [
    "MAX_DEPTH",
    "MAX_ENCODED_BYTES",
    "MAX_VALUES",
    "UNDEFINED",
    "UNSUPPORTED",
    "AmfDate",
    "AmfValue",
    "Budget",
    "EcmaArray",
    "TypedObject",
    "XmlDocument",
    "decode_all",
    "decode_first",
    "encode",
]

# The length field of an RTMP message and of an FLV tag has 24 bits: a longer message could not be sent.
MAX_ENCODED_BYTES: Final = 0xFFFFFF

_MAX_SHORT_STRING: Final = 0xFFFF

_NUMBER: Final = 0x00
_BOOLEAN: Final = 0x01
_STRING: Final = 0x02
_OBJECT: Final = 0x03
_NULL: Final = 0x05
_UNDEFINED: Final = 0x06
_REFERENCE: Final = 0x07
_ECMA_ARRAY: Final = 0x08
_OBJECT_END: Final = 0x09
_STRICT_ARRAY: Final = 0x0A
_DATE: Final = 0x0B
_LONG_STRING: Final = 0x0C
_UNSUPPORTED: Final = 0x0D
_XML_DOCUMENT: Final = 0x0F
_TYPED_OBJECT: Final = 0x10
_AMF3: Final = 0x11

_UNREADABLE: Final = {
    0x04: "is reserved (movie clip)",
    0x0E: "is reserved (record set)",
    _OBJECT_END: "ends an object where no object can end",
}

_DATE_BODY: Final = struct.Struct(">dh")
_MARKER_AND_U16: Final = struct.Struct(">BH")
_MARKER_AND_U32: Final = struct.Struct(">BI")
_MARKER_AND_DOUBLE: Final = struct.Struct(">Bd")
_MARKER_AND_DATE: Final = struct.Struct(">Bdh")
_U16: Final = struct.Struct(">H")
_PROPERTIES_END: Final = bytes((0, 0, _OBJECT_END))


class _Decoder(ByteReader):
    """Decodes the values of one message, which share the reference tables and the budget."""

    __slots__ = ("_amf3", "_budget", "_references")

    def __init__(self, data: bytes, offset: int, budget: Budget) -> None:
        super().__init__(data, offset)
        self._budget = budget
        self._references = References(budget)
        self._amf3: Amf3Decoder | None = None

    def read_value(self) -> AmfValue:
        marker = self.read_u8("an AMF0 marker")
        reader = _READERS.get(marker)
        if reader is None:
            reason = _UNREADABLE.get(marker, "is unknown")
            raise RemoteProtocolError(f"The AMF0 marker 0x{marker:02x} at offset {self.offset - 1} {reason}.")
        self._budget.spend()
        return reader(self)

    def _read_string(self) -> str:
        return self.read_text(self.read_u16("the length of a string"), "a string")

    def _read_long_string(self) -> str:
        return self.read_text(self.read_u32("the length of a long string"), "a long string")

    def _read_xml_document(self) -> XmlDocument:
        return XmlDocument(self.read_text(self.read_u32("the length of an XML document"), "an XML document"))

    def _read_date(self) -> AmfDate:
        return AmfDate(*_DATE_BODY.unpack_from(self.data, self.skip(_DATE_BODY.size, "a date")))

    def _read_reference(self) -> AmfValue:
        index = self.read_u16("a reference")
        return self._references.resolve(index, self.offset - 3)

    def _read_object(self) -> dict[str, AmfValue]:
        result: dict[str, AmfValue] = {}
        self._read_properties(result, may_lack_end=True)
        return result

    def _read_ecma_array(self) -> EcmaArray:
        # Encoders write any number as the count, even zero; only the end marker is reliable.
        self.read_u32("the count of an ECMA array")
        result = EcmaArray()
        self._read_properties(result, may_lack_end=True)
        return result

    def _read_typed_object(self) -> TypedObject:
        result = TypedObject(self.read_text(self.read_u16("the length of a class name"), "a class name"))
        self._read_properties(result, may_lack_end=False)
        return result

    def _read_properties(self, target: dict[str, AmfValue], *, may_lack_end: bool) -> None:
        entry = self._references.open(target)
        # Some encoders omit the last end marker of a message. Inside other values that would be ambiguous, so there it
        # is an error.
        end_is_optional = may_lack_end and self._budget.depth == 1
        while not (end_is_optional and self.offset == self.size):
            # An empty name without the marker is a name like any other.
            if self.data.startswith(_PROPERTIES_END, self.offset):
                self.offset += len(_PROPERTIES_END)
                break
            key = self.read_text(self.read_u16("the length of a property name"), "a property name")
            target[key] = self.read_value()
        self._references.close(entry)

    def _read_strict_array(self) -> list[AmfValue]:
        count = self.read_u32("the count of a strict array")
        # Every item takes at least one byte, so a count larger than the rest of the data is wrong.
        if count > self.size - self.offset:
            self.fail_truncated(count, f"a strict array of {count} items")
        items: list[AmfValue] = []
        entry = self._references.open(items)
        for _ in range(count):
            items.append(self.read_value())
        self._references.close(entry)
        return items

    def _read_amf3(self) -> AmfValue:
        # The reference tables of AMF3 are shared by the whole message, even if AMF0 values come in between.
        if self._amf3 is None:
            self._amf3 = Amf3Decoder(self.data, self.offset, self._budget)
        self._amf3.offset = self.offset
        value = self._amf3.read_value()
        self.offset = self._amf3.offset
        return value


_READERS: Final[dict[int, Callable[[_Decoder], AmfValue]]] = {
    _NUMBER: lambda decoder: decoder.read_double("a number"),
    _BOOLEAN: lambda decoder: decoder.read_u8("a boolean") != 0,
    _STRING: _Decoder._read_string,
    _OBJECT: _Decoder._read_object,
    _NULL: lambda _: None,
    _UNDEFINED: lambda _: UNDEFINED,
    _REFERENCE: _Decoder._read_reference,
    _ECMA_ARRAY: _Decoder._read_ecma_array,
    _STRICT_ARRAY: _Decoder._read_strict_array,
    _DATE: _Decoder._read_date,
    _LONG_STRING: _Decoder._read_long_string,
    _UNSUPPORTED: lambda _: UNSUPPORTED,
    _XML_DOCUMENT: _Decoder._read_xml_document,
    _TYPED_OBJECT: _Decoder._read_typed_object,
    _AMF3: _Decoder._read_amf3,
}


class _Encoder:
    """Appends values to `out`. It writes no references, so a value that contains itself exceeds the depth limit."""

    __slots__ = ("_count", "_depth", "out")

    def __init__(self) -> None:
        self.out = bytearray()
        self._count = 0
        self._depth = 0

    def write_value(self, value: AmfValue) -> None:
        self._count += 1
        if self._count > MAX_VALUES:
            raise LocalProtocolError(f"More than {MAX_VALUES} values cannot be encoded as one AMF0 message.")
        self._writer_for(type(value))(self, value)
        if len(self.out) > MAX_ENCODED_BYTES:
            raise LocalProtocolError(f"The AMF0 message would be longer than {MAX_ENCODED_BYTES} bytes.")

    def _writer_for(self, kind: type) -> Callable[[_Encoder, Any], None]:
        # In order of inheritance: a bool is not a number here, and an enum of strings is a string.
        for base in kind.__mro__:
            if writer := _WRITERS.get(base):
                return writer
        raise LocalProtocolError(f"A value of type {kind.__qualname__} cannot be encoded as AMF0.")

    def _write_number(self, value: float) -> None:
        try:
            self.out += _MARKER_AND_DOUBLE.pack(_NUMBER, value)
        except (OverflowError, struct.error):
            raise LocalProtocolError(
                "An int beyond the range of a double cannot be encoded as AMF0."
            ) from None

    def _write_boolean(self, value: bool) -> None:
        self.out += bytes((_BOOLEAN, value))

    def _write_string(self, value: str) -> None:
        encoded = _to_utf8(value)
        if len(encoded) > _MAX_SHORT_STRING:
            self._write_long_text(_LONG_STRING, encoded)
        else:
            self.out += _MARKER_AND_U16.pack(_STRING, len(encoded)) + encoded

    def _write_xml_document(self, value: XmlDocument) -> None:
        self._write_long_text(_XML_DOCUMENT, _to_utf8(value))

    def _write_long_text(self, marker: int, encoded: bytes) -> None:
        if len(encoded) > MAX_ENCODED_BYTES:
            raise LocalProtocolError(f"A string of {len(encoded)} bytes does not fit into an AMF0 message.")
        self.out += _MARKER_AND_U32.pack(marker, len(encoded)) + encoded

    def _write_singleton(self, value: AmfSingleton) -> None:
        self.out.append(_UNDEFINED if value is UNDEFINED else _UNSUPPORTED)

    def _write_date(self, value: AmfDate) -> None:
        try:
            self.out += _MARKER_AND_DATE.pack(_DATE, value.milliseconds, value.timezone_minutes)
        except (OverflowError, struct.error) as error:
            raise LocalProtocolError(f"An AmfDate cannot be encoded as AMF0: {error}.") from None

    def _write_object(self, value: dict[str, AmfValue]) -> None:
        self.out.append(_OBJECT)
        self._write_properties(value)

    def _write_ecma_array(self, value: EcmaArray) -> None:
        self.out += _MARKER_AND_U32.pack(_ECMA_ARRAY, len(value))
        self._write_properties(value)

    def _write_typed_object(self, value: TypedObject) -> None:
        self.out.append(_TYPED_OBJECT)
        self._write_name(value.class_name)
        self._write_properties(value)

    def _write_properties(self, properties: dict[str, AmfValue]) -> None:
        self._enter()
        for key, value in properties.items():
            self._write_name(key)
            self.write_value(value)
        self.out += _PROPERTIES_END
        self._depth -= 1

    def _write_name(self, name: object) -> None:
        if not isinstance(name, str):
            raise LocalProtocolError(f"A name in AMF0 must be a str, not {type(name).__qualname__}.")
        encoded = _to_utf8(name)
        if len(encoded) > _MAX_SHORT_STRING:
            raise LocalProtocolError(
                f"A name in AMF0 may have {_MAX_SHORT_STRING} bytes at most, not {len(encoded)}."
            )
        self.out += _U16.pack(len(encoded)) + encoded

    def _write_strict_array(self, value: list[AmfValue]) -> None:
        self.out += _MARKER_AND_U32.pack(_STRICT_ARRAY, len(value))
        self._enter()
        for item in value:
            self.write_value(item)
        self._depth -= 1

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise LocalProtocolError(
                f"A value nested deeper than {MAX_DEPTH} levels, or in itself, cannot be encoded as AMF0."
            )


_WRITERS: Final[dict[type, Callable[[_Encoder, Any], None]]] = {
    bool: _Encoder._write_boolean,
    int: _Encoder._write_number,
    float: _Encoder._write_number,
    str: _Encoder._write_string,
    XmlDocument: _Encoder._write_xml_document,
    dict: _Encoder._write_object,
    EcmaArray: _Encoder._write_ecma_array,
    TypedObject: _Encoder._write_typed_object,
    list: _Encoder._write_strict_array,
    type(None): lambda encoder, _: encoder.out.append(_NULL),
    AmfSingleton: _Encoder._write_singleton,
    AmfDate: _Encoder._write_date,
}


def _to_utf8(text: str) -> bytes:
    # A lone surrogate has no UTF-8 form, so it is escaped.
    return text.encode("utf-8", "backslashreplace")


def decode_all(
    data: bytes, *, max_depth: int = MAX_DEPTH, max_values: int = MAX_VALUES, budget: Budget | None = None
) -> list[AmfValue]:
    """All values of a message.

    Args:
        budget: In place of the two limits; afterwards it says how many values were read.
    """
    decoder = _Decoder(data, 0, budget or Budget(max_depth, max_values))
    values: list[AmfValue] = []
    while decoder.offset < decoder.size:
        values.append(decoder.read_value())
    return values


def decode_first(data: bytes, offset: int = 0, budget: Budget | None = None) -> tuple[AmfValue, int]:
    """The value that starts at `offset`, and the offset after it."""
    if offset < 0:
        raise LocalProtocolError(f"The offset of an AMF0 value cannot be negative: {offset}.")
    decoder = _Decoder(data, offset, budget or Budget())
    value = decoder.read_value()
    return value, decoder.offset


def encode(*values: AmfValue) -> bytes:
    """The values one after the other, as in a message."""
    encoder = _Encoder()
    for value in values:
        encoder.write_value(value)
    return bytes(encoder.out)
