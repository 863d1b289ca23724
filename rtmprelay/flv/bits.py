"""Reads numbers of any number of bits, as the headers of codecs have them."""

from __future__ import annotations


class Bits:
    """Reading past the end raises IndexError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, count: int) -> int:
        """An unsigned number of `count` bits."""
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
                raise IndexError
        return (1 << zeros) - 1 + self.read(zeros)

    def read_signed(self) -> int:
        """A signed Exp-Golomb number."""
        number = self.read_exponential()
        return (number + 1) // 2 if number & 1 else -(number // 2)
