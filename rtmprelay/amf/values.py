"""What AMF0 and AMF3 share: the Python values, the limits of one message, the byte reader."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NoReturn, TypeAlias

import attrs

from rtmprelay.errors import LimitExceededError, RemoteProtocolError

# Real commands and metadata are nested three or four levels deep; 32 keeps the recursion far from Python's limit.
MAX_DEPTH: Final = 32
# Keyframe indexes of long recordings have tens of thousands of numbers; more values than this are an attack.
MAX_VALUES: Final = 100_000

_DOUBLE: Final = struct.Struct(">d")
_U16: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")


class AmfSingleton(enum.Enum):
    """The two AMF values without content that have no equivalent in Python; both are false."""

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
    """A point in time: milliseconds since 1970 in UTC. The time zone is kept, but never applied."""

    milliseconds: float
    timezone_minutes: int = 0


class XmlDocument(str):
    """A string that is encoded as an XML document; its text is not checked."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"XmlDocument({super().__repr__()})"


class EcmaArray(dict[str, "AmfValue"]):
    """A dict that is encoded as an ECMA (associative) array, as stream metadata is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"EcmaArray({super().__repr__()})"


class TypedObject(dict[str, "AmfValue"]):
    """A dict that is encoded as an object of a named class."""

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
    """How many values and levels one message has used so far, and how many it may use.

    `reach` is the deepest level inside the innermost open container; it becomes the container's height.
    """

    max_depth: int = MAX_DEPTH
    max_values: int = MAX_VALUES
    #: The name of the limit that too many values exceed.
    limit: str = "amf_values"
    used: int = 0
    depth: int = 0
    reach: int = 0

    def spend(self, count: int = 1) -> None:
        self.used += count
        if self.used > self.max_values:
            raise LimitExceededError(
                self.limit, f"An AMF message contains more than {self.max_values} values"
            )

    def deepen(self, depth: int) -> None:
        if depth > self.max_depth:
            raise LimitExceededError(
                "amf_depth", f"AMF values are nested deeper than {self.max_depth} levels"
            )
        self.reach = max(self.reach, depth)


@attrs.define
class Referable:
    """A value that later bytes can refer to; its size and height are 1 and 0 until it is complete."""

    value: AmfValue
    size: int = 1
    height: int = 0
    start: int = 0
    outer_reach: int = 0


@attrs.define
class References:
    """The reference table of one message.

    A reference costs as many values and levels as the value that it refers to. Otherwise a few bytes such as "[x, x]"
    thirty times over would be decoded as a value that takes years to walk through or to print.
    """

    budget: Budget
    entries: list[Referable] = attrs.field(factory=list)

    def open(self, value: AmfValue) -> Referable:
        """Enter a container. Values inside it can refer to it already."""
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
        """Add a value that contains no other values."""
        self.entries.append(Referable(value))

    def resolve(self, index: int, offset: int) -> AmfValue:
        if index >= len(self.entries):
            raise RemoteProtocolError(
                f"The AMF reference at offset {offset} points to value {index}, "
                f"but only {len(self.entries)} came before it."
            )
        entry = self.entries[index]
        # The reference itself is counted already, as every value is.
        self.budget.spend(entry.size - 1)
        self.budget.deepen(self.budget.depth + entry.height)
        return entry.value


class ByteReader:
    """Reads primitive types at `offset` and advances it; too few bytes are a RemoteProtocolError."""

    __slots__ = ("data", "offset", "size")

    def __init__(self, data: bytes, offset: int) -> None:
        self.data = data
        self.offset = offset
        self.size = len(data)

    def skip(self, count: int, what: str) -> int:
        """Advance by `count` bytes, which must all be there, and return where they start."""
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
        # Invalid UTF-8 must not close the connection, and two invalid names must stay different.
        return self.data[start : self.offset].decode("utf-8", "backslashreplace")
