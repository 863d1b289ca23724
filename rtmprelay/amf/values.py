"""What AMF0 and AMF3 have in common: the Python values, the limits of one message, the byte reader."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NoReturn, TypeAlias

import attrs

from rtmprelay.errors import LimitExceededError, RemoteProtocolError

# Real commands and metadata nest three or four levels; 32 keeps the recursion far from Python's own limit.
MAX_DEPTH: Final = 32
# Keyframe indexes of long recordings hold tens of thousands of numbers; more than this is an attack.
MAX_VALUES: Final = 100_000

_DOUBLE: Final = struct.Struct(">d")
_U16: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")


class AmfSingleton(enum.Enum):
    """The two AMF values without content for which Python has no equivalent; both are false."""

    UNDEFINED = "undefined"
    UNSUPPORTED = "unsupported"

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return self.name


UNDEFINED: Final = AmfSingleton.UNDEFINED
UNSUPPORTED: Final = AmfSingleton.UNSUPPORTED


@attrs.frozen
class AmfDate:
    """A point in time: milliseconds since 1970 in UTC. The time zone is carried, never applied."""

    milliseconds: float
    timezone_minutes: int = 0


class XmlDocument(str):
    """A string that travels as an XML document; its text is not checked."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"XmlDocument({super().__repr__()})"


class EcmaArray(dict[str, "AmfValue"]):
    """A dict that travels as an ECMA (associative) array, as stream metadata does."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"EcmaArray({super().__repr__()})"


class TypedObject(dict[str, "AmfValue"]):
    """A dict that travels as an object of a named class."""

    __slots__ = ("class_name",)

    def __init__(
        self, class_name: str, properties: Mapping[str, AmfValue] | Iterable[tuple[str, AmfValue]] = ()
    ) -> None:
        super().__init__(properties)
        self.class_name = class_name

    def __repr__(self) -> str:
        return f"TypedObject({self.class_name!r}, {super().__repr__()})"


AmfValue: TypeAlias = (
    "bool | int | float | str | bytes | AmfDate | AmfSingleton | dict[str, AmfValue] | list[AmfValue] | None"
)


@attrs.define
class Budget:
    """What one message has cost so far, against what it may cost.

    `reach` is the deepest level seen inside the innermost open container, which becomes its height.
    """

    max_depth: int = MAX_DEPTH
    max_values: int = MAX_VALUES
    used: int = 0
    depth: int = 0
    reach: int = 0

    def spend(self, count: int = 1) -> None:
        self.used += count
        if self.used > self.max_values:
            raise LimitExceededError("amf_values", f"An AMF message holds more than {self.max_values} values")

    def deepen(self, depth: int) -> None:
        if depth > self.max_depth:
            raise LimitExceededError(
                "amf_depth", f"AMF values are nested deeper than {self.max_depth} levels"
            )
        self.reach = max(self.reach, depth)


@attrs.define
class Referable:
    """A value that later bytes can refer to; size and height stay 1 and 0 while it is still being read."""

    value: AmfValue
    size: int = 1
    height: int = 0
    start: int = 0
    outer_reach: int = 0


@attrs.define
class References:
    """The reference table of one message.

    A reference costs as many values and levels as what it refers to. Without that, a few bytes such as
    "[x, x]" thirty times over would decode to a value that nobody can walk or print in a lifetime.
    """

    budget: Budget
    entries: list[Referable] = attrs.field(factory=list)

    def open(self, value: AmfValue) -> Referable:
        """Enter a container that starts here and can be referred to even before it ends."""
        budget = self.budget
        entry = Referable(value, start=budget.used, outer_reach=budget.reach)
        self.entries.append(entry)
        budget.depth += 1
        budget.reach = 0
        budget.deepen(budget.depth)
        return entry

    def close(self, entry: Referable) -> None:
        budget = self.budget
        entry.size = 1 + budget.used - entry.start
        entry.height = budget.reach - budget.depth + 1
        budget.depth -= 1
        budget.reach = max(budget.reach, entry.outer_reach)

    def add(self, value: AmfValue) -> None:
        """Note a value without other values in it."""
        self.entries.append(Referable(value))

    def resolve(self, index: int, offset: int) -> AmfValue:
        if index >= len(self.entries):
            raise RemoteProtocolError(
                f"The AMF reference at offset {offset} points to value {index}, "
                f"but only {len(self.entries)} came before it."
            )
        entry = self.entries[index]
        # The reference itself is paid for already, as every value is.
        self.budget.spend(entry.size - 1)
        self.budget.deepen(self.budget.depth + entry.height)
        return entry.value


class ByteReader:
    """Reads primitive types at `offset`, which moves on; too few bytes is a RemoteProtocolError."""

    __slots__ = ("data", "offset", "size")

    def __init__(self, data: bytes, offset: int) -> None:
        self.data = data
        self.offset = offset
        self.size = len(data)

    def skip(self, count: int, what: str) -> int:
        """Move over `count` bytes, of which all are there, and return where they start."""
        start = self.offset
        if count > self.size - start:
            self.fail_truncated(count, what)
        self.offset = start + count
        return start

    def fail_truncated(self, count: int, what: str) -> NoReturn:
        raise RemoteProtocolError(
            f"The AMF data is cut short: {what} at offset {self.offset} needs {count} bytes, "
            f"and {max(0, self.size - self.offset)} are left."
        )

    def read_u8(self, what: str) -> int:
        return self.data[self.skip(1, what)]

    def read_u16(self, what: str) -> int:
        value: int = _U16.unpack_from(self.data, self.skip(2, what))[0]
        return value

    def read_u32(self, what: str) -> int:
        value: int = _U32.unpack_from(self.data, self.skip(4, what))[0]
        return value

    def read_double(self, what: str) -> float:
        value: float = _DOUBLE.unpack_from(self.data, self.skip(8, what))[0]
        return value

    def read_text(self, count: int, what: str) -> str:
        start = self.skip(count, what)
        # Broken UTF-8 must not cost the connection, and two broken names must not become the same one.
        return self.data[start : self.offset].decode("utf-8", "backslashreplace")
