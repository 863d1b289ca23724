"""Writing numbers that are not made of whole bytes. Bits are kept as text, such as "0101": simple, and fast enough."""

from __future__ import annotations

from collections.abc import Iterable


def fixed(value: int, count: int) -> str:
    """An unsigned number in so many bits."""
    if not 0 <= value < 1 << count:
        raise ValueError(f"{value} does not fit into {count} bits")
    return f"{value:0{count}b}" if count else ""


def exponential(value: int) -> str:
    """An unsigned Exp-Golomb number."""
    digits = f"{value + 1:b}"
    return "0" * (len(digits) - 1) + digits


def signed(value: int) -> str:
    """A signed Exp-Golomb number."""
    return exponential(2 * value - 1 if value > 0 else -2 * value)


def to_bytes(parts: Iterable[str]) -> bytes:
    """All bits, with zeros behind them up to a whole byte."""
    text = "".join(parts)
    text += "0" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8) if text else b""
