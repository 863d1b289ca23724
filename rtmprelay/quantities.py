"""Sizes, durations and counts as an operator writes them: `64M`, `1.5h`, `40ms`. All options share this grammar.

Times are written in one form, too: `utc_time`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from rtmprelay.errors import ConfigError

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE

_FACTORS = {"k": KIBIBYTE, "m": MEBIBYTE, "g": 1024 * MEBIBYTE, "t": MEBIBYTE * MEBIBYTE}
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}

# The digits are bounded: no number overflows a float.
_NUMBER = r"(?P<number>\d{1,15}(?:\.\d{1,6})?)"
_SIZE = re.compile(_NUMBER + r"(?:(?P<unit>[kmgt])(?:i?b)?)?", re.ASCII | re.IGNORECASE)
_DURATION = re.compile(_NUMBER + r"(?P<unit>ms|[smhdw])?", re.ASCII | re.IGNORECASE)

#: How much of a wrong value an error message quotes.
_LONGEST_QUOTE = 60


def read_size(text: str, least: int = 1) -> int:
    """Bytes from `500M`, `100G` or `1.5T`, in powers of 1024. A number without a unit is refused.

    Raises:
        ConfigError: The text is no size, or the size is less than `least`.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or match["unit"] is None:
        raise ConfigError(f"{quoted(text)} is not a size such as 500M, 100G or 1.5T")
    size = _scaled(match)
    if size < least:
        raise ConfigError(f"{quoted(text)} is too small: the least is {format_size(least)}")
    return int(size)


def read_duration(text: str, least: float = 0.001) -> float:
    """Seconds from `40ms`, `90s`, `30m`, `12h`, `7d` or `2w`.

    A number without a unit is refused: an operator who writes 7 and means days must not lose recordings after 7 seconds.

    Raises:
        ConfigError: The text is no duration, or the duration is less than `least`.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or match["unit"] is None:
        raise ConfigError(f"{quoted(text)} is not a duration such as 90s, 30m, 12h or 7d")
    seconds = _seconds(match)
    if seconds < least:
        raise ConfigError(f"{quoted(text)} is too short: the least is {least:g}s")
    return seconds


def read_seconds(text: str) -> float | None:
    """Seconds from a duration or a plain number, where seconds are the documented unit; None for anything else."""
    match = _DURATION.fullmatch(text)
    return None if match is None else _seconds(match)


def read_count(text: str) -> int | None:
    """A whole number from `8`, `10K` or `64M`, in powers of 1024; None for anything else."""
    match = _SIZE.fullmatch(text)
    return None if match is None or "." in match["number"] else int(_scaled(match))


def format_size(size: int) -> str:
    """The shortest exact text for a size, such as `128K` or `64M`."""
    for unit in ("t", "g", "m", "k"):
        if size and size % _FACTORS[unit] == 0:
            return f"{size // _FACTORS[unit]}{unit.upper()}"
    return "1 byte" if size == 1 else f"{size} bytes"


def rounded_size(size: int) -> str:
    """A size for people, in the units of disks, such as `1.2 GB`."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} B"


def utc_time(seconds: float, digits: str = "milliseconds") -> str:
    """Seconds since 1970 as ISO 8601 in UTC, such as `2026-11-16T12:34:56.789Z`.

    Args:
        digits: `milliseconds` or `microseconds`. All times of a kind have the same length, so that they sort as text.
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec=digits).replace("+00:00", "Z")


def quoted(text: str) -> str:
    """What the operator wrote, for an error message that stays one short line."""
    return repr(text[:_LONGEST_QUOTE] + ("..." if len(text) > _LONGEST_QUOTE else ""))


def _scaled(match: re.Match[str]) -> float:
    return float(match["number"]) * _FACTORS.get((match["unit"] or "").lower(), 1)


def _seconds(match: re.Match[str]) -> float:
    unit = (match["unit"] or "s").lower()
    # Divided, not multiplied by 0.001: 40ms is to be the float 0.04.
    return float(match["number"]) / 1000 if unit == "ms" else float(match["number"]) * _SECONDS[unit]
