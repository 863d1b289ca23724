"""What players tell of themselves along with their requests (CTA-5004, Common Media Client Data)."""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs

#: Bytes that are looked at; real ones have some 200.
_LONGEST = 2048

_PAIR = re.compile(r'(?P<key>[a-z]{1,8})(?:=(?P<value>"[^"]{0,64}"|[^,"]{0,32}))?(?:,|$)', re.ASCII)

#: Kilobits a second that are believed.
_MOST_KBPS = 10_000_000


@attrs.frozen
class Cmcd:
    """The keys that are read; everything else is forgotten.

    Attributes:
        starved: The buffer ran empty since the last request (`bs`).
        starting: The player has no picture yet, and waits for this (`su`).
        throughput_kbps: What the player measured (`mtp`).
    """

    starved: bool = False
    starting: bool = False
    throughput_kbps: int | None = None


def read_cmcd(texts: Iterable[str]) -> Cmcd | None:
    """What the parameter or the headers say; None if there is nothing. What cannot be read is left out."""
    found: dict[str, str | None] = {}
    for text in texts:
        for match in _PAIR.finditer(text[:_LONGEST].replace(" ", "")):
            found.setdefault(match["key"], match["value"])
    if not found:
        return None
    return Cmcd(_flag(found, "bs"), _flag(found, "su"), _throughput(found.get("mtp")))


def _flag(found: dict[str, str | None], key: str) -> bool:
    return key in found and found[key] in (None, "true", "?1")


def _throughput(value: str | None) -> int | None:
    if value is None or not value.isdecimal() or len(value) > 8:
        return None
    return min(int(value), _MOST_KBPS)
