"""AMF3, decoding only: players written in ActionScript 3 send such values after AMF0's marker 0x11.

A byte array is decoded as `bytes`, an integer as `int`, a vector as a list; everything else as in AMF0. Dictionaries and
externalizable objects are refused: a dictionary can have objects as keys, and only its class knows the layout of an
externalizable object.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import attrs

from rtmprelay.amf.values import (
    UNDEFINED,
    AmfDate,
    AmfValue,
    Budget,
    ByteReader,
    EcmaArray,
    References,
    TypedObject,
    XmlDocument,
)
from rtmprelay.errors import RemoteProtocolError

_INTEGER_SIGN: Final = 1 << 28
_INTEGER_RANGE: Final = 1 << 29


@attrs.frozen
class _Traits:
    """The class name and the property names that objects of one class share."""

    class_name: str
    names: tuple[str, ...]
    is_dynamic: bool


class Amf3Decoder(ByteReader):
    """Decodes the values of one message, which share three reference tables."""

    __slots__ = ("_budget", "_objects", "_strings", "_traits")

    def __init__(self, data: bytes, offset: int, budget: Budget) -> None:
        super().__init__(data, offset)
        self._budget = budget
        self._objects = References(budget)
        self._strings: list[str] = []
        self._traits: list[_Traits] = []

    def read_value(self) -> AmfValue:
        marker = self.read_u8("an AMF3 marker")
        reader = _READERS.get(marker)
        if reader is None:
            raise RemoteProtocolError(
                f"The AMF3 marker 0x{marker:02x} at offset {self.offset - 1} is unknown."
            )
        self._budget.spend()
        return reader(self)

    def _read_u29(self, what: str) -> int:
        value = 0
        for _ in range(3):
            byte = self.read_u8(what)
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                return value
        # The fourth byte has no continuation bit: all its bits belong to the value.
        return value << 8 | self.read_u8(what)

    def _read_integer(self) -> int:
        value = self._read_u29("an integer")
        return value - _INTEGER_RANGE if value & _INTEGER_SIGN else value

    def _read_double_value(self) -> float:
        return self.read_double("a number")

    def _read_string(self) -> str:
        start = self.offset
        header = self._read_u29("a string")
        if not header & 1:
            return self._resolve_string(header >> 1, start)
        text = self.read_text(header >> 1, "a string")
        # The empty string is never sent by reference, so it has no place in the table.
        if text:
            self._strings.append(text)
        return text

    def _resolve_string(self, index: int, offset: int) -> str:
        if index >= len(self._strings):
            raise RemoteProtocolError(
                f"The AMF3 string reference at offset {offset} points to string {index}, "
                f"but only {len(self._strings)} came before it."
            )
        return self._strings[index]

    def _read_xml(self) -> AmfValue:
        start = self.offset
        header = self._read_u29("an XML document")
        if not header & 1:
            return self._objects.resolve(header >> 1, start)
        document = XmlDocument(self.read_text(header >> 1, "an XML document"))
        self._objects.add(document)
        return document

    def _read_date(self) -> AmfValue:
        start = self.offset
        header = self._read_u29("a date")
        if not header & 1:
            return self._objects.resolve(header >> 1, start)
        date = AmfDate(self.read_double("a date"))
        self._objects.add(date)
        return date

    def _read_byte_array(self) -> AmfValue:
        start = self.offset
        header = self._read_u29("a byte array")
        if not header & 1:
            return self._objects.resolve(header >> 1, start)
        first = self.skip(header >> 1, "a byte array")
        content = bytes(self.data[first : self.offset])
        self._objects.add(content)
        return content

    def _read_array(self) -> AmfValue:
        start = self.offset
        header = self._read_u29("an array")
        if not header & 1:
            return self._objects.resolve(header >> 1, start)
        # The string after the header tells the kind, which must be known before an item can refer to the array.
        key = self._read_string()
        if key:
            return self._read_mixed_array(key, header >> 1)
        items: list[AmfValue] = []
        entry = self._objects.open(items)
        self._read_items(items, header >> 1)
        self._objects.close(entry)
        return items

    def _read_mixed_array(self, key: str, dense_count: int) -> EcmaArray:
        array = EcmaArray()
        entry = self._objects.open(array)
        while key:
            array[key] = self.read_value()
            key = self._read_string()
        for index in range(dense_count):
            array[str(index)] = self.read_value()
        self._objects.close(entry)
        return array

    def _read_items(self, items: list[AmfValue], count: int) -> None:
        # Every item takes at least one byte, so a count larger than the rest of the data is wrong.
        if count > self.size - self.offset:
            self.fail_truncated(count, f"a list of {count} items")
        for _ in range(count):
            items.append(self.read_value())

    def _read_object(self) -> AmfValue:
        start = self.offset
        header = self._read_u29("an object")
        if not header & 1:
            return self._objects.resolve(header >> 1, start)
        traits = self._read_traits(header >> 1, start)
        result: dict[str, AmfValue] = TypedObject(traits.class_name) if traits.class_name else {}
        entry = self._objects.open(result)
        for name in traits.names:
            result[name] = self.read_value()
        if traits.is_dynamic:
            while name := self._read_string():
                result[name] = self.read_value()
        self._objects.close(entry)
        return result

    def _read_traits(self, header: int, start: int) -> _Traits:
        if not header & 1:
            index = header >> 1
            if index >= len(self._traits):
                raise RemoteProtocolError(
                    f"The AMF3 traits reference at offset {start} points to class {index}, "
                    f"but only {len(self._traits)} came before it."
                )
            return self._traits[index]
        class_name = self._read_string()
        if header & 2:
            raise RemoteProtocolError(
                f"The AMF3 object at offset {start} is externalizable (class {class_name!r}), "
                "so only its own class could read it."
            )
        names = self._read_trait_names(header >> 3)
        traits = _Traits(class_name, names, bool(header & 4))
        self._traits.append(traits)
        return traits

    def _read_trait_names(self, count: int) -> tuple[str, ...]:
        # Names take memory as values do, even if no object uses them.
        self._budget.spend(count)
        return tuple(self._read_string() for _ in range(count))

    def _read_int_vector(self) -> AmfValue:
        return self._read_number_vector("i", 4)

    def _read_uint_vector(self) -> AmfValue:
        return self._read_number_vector("I", 4)

    def _read_double_vector(self) -> AmfValue:
        return self._read_number_vector("d", 8)

    def _read_number_vector(self, code: str, width: int) -> AmfValue:
        start = self.offset
        header = self._read_u29("a vector")
        if not header & 1:
            return self._objects.resolve(header >> 1, start)
        count = header >> 1
        # Whether the vector has a fixed length; a Python list has no such property.
        self.read_u8("a vector")
        first = self.skip(count * width, "a vector")
        items: list[AmfValue] = []
        entry = self._objects.open(items)
        self._budget.spend(count)
        items.extend(struct.unpack_from(f">{count}{code}", self.data, first))
        self._objects.close(entry)
        return items

    def _read_object_vector(self) -> AmfValue:
        start = self.offset
        header = self._read_u29("a vector")
        if not header & 1:
            return self._objects.resolve(header >> 1, start)
        self.read_u8("a vector")
        # The class of the items, which each item repeats.
        self._read_string()
        items: list[AmfValue] = []
        entry = self._objects.open(items)
        self._read_items(items, header >> 1)
        self._objects.close(entry)
        return items

    def _refuse_dictionary(self) -> AmfValue:
        raise RemoteProtocolError(f"The AMF3 dictionary at offset {self.offset - 1} is not supported.")


_READERS: Final[dict[int, Callable[[Amf3Decoder], AmfValue]]] = {
    0x00: lambda _: UNDEFINED,
    0x01: lambda _: None,
    0x02: lambda _: False,
    0x03: lambda _: True,
    0x04: Amf3Decoder._read_integer,
    0x05: Amf3Decoder._read_double_value,
    0x06: Amf3Decoder._read_string,
    0x07: Amf3Decoder._read_xml,
    0x08: Amf3Decoder._read_date,
    0x09: Amf3Decoder._read_array,
    0x0A: Amf3Decoder._read_object,
    0x0B: Amf3Decoder._read_xml,
    0x0C: Amf3Decoder._read_byte_array,
    0x0D: Amf3Decoder._read_int_vector,
    0x0E: Amf3Decoder._read_uint_vector,
    0x0F: Amf3Decoder._read_double_vector,
    0x10: Amf3Decoder._read_object_vector,
    0x11: Amf3Decoder._refuse_dictionary,
}
