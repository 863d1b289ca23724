"""Numbers as people say them."""

from __future__ import annotations

from datetime import datetime


def moment(time: datetime) -> str:
    """A time, to the second; midnight is a day."""
    if (time.hour, time.minute, time.second) == (0, 0, 0):
        return f"{time:%Y-%m-%d}"
    return f"{time:%Y-%m-%d %H:%M}" if not time.second else f"{time:%Y-%m-%d %H:%M:%S}"


def duration(seconds: float) -> str:
    """A length of time, in its two largest units."""
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    for size, name, smaller, smaller_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size:,} {name}" + (f" {rest} {smaller_name}" if rest else "")
    return f"{whole} s"


def hours(seconds: float) -> str:
    """A length of time in one unit: hours, if it has that many."""
    if seconds >= 3600:
        return f"{seconds / 3600:,.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 60 else duration(seconds)


def bytes_in_words(size: float) -> str:
    """A number of bytes."""
    for unit, power in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= power:
            value = size / power
            return f"{value:.1f} {unit}" if value < 100 else f"{value:,.0f} {unit}"
    return f"{size:.0f} B"


def quantity(value: float) -> str:
    """A number with as many digits as one wants to read."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def plural(count: int, noun: str) -> str:
    """So many of them."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
