"""Numbers that are not made of whole bytes, as the headers of video codecs have them."""

from __future__ import annotations


class Bits:
    """Reads numbers of any number of bits; past the end is an IndexError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, count: int) -> int:
        """An unsigned number of so many bits."""
        value = 0
        for _ in range(count):
            byte = self._data[self._at >> 3]
            value = value << 1 | byte >> (7 - (self._at & 7)) & 1
            self._at += 1
        return value

    def read_exponential(self) -> int:
        """An unsigned Exp-Golomb number."""
        zeros = 0
        while not self.read(1):
            zeros += 1
            if zeros > 31:
                raise IndexError("no such number")
        return (1 << zeros) - 1 + self.read(zeros)

    def read_signed(self) -> int:
        """A signed Exp-Golomb number."""
        number = self.read_exponential()
        return (number + 1) // 2 if number & 1 else -(number // 2)
