"""Where the keyframes of a file are, in bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from rtmprelay.amf.amf0 import AmfValue

#: Twice what fits into the space that a recording reserves. A day of keyframes every two seconds is
#: 43,000; an encoder that makes every frame one would fill the memory.
MAX_ENTRIES = 8192

#: What one entry takes in the metadata: two numbers.
ENTRY_SIZE = 18

#: What the index takes without any entry: its name, two names of arrays, two counts, the end.
EMPTY_SIZE = 2 + 9 + 1 + (2 + 5 + 5) + (2 + 13 + 5) + 3


class KeyframeIndex:
    """Times and file positions of keyframes. When there are too many, every other one is forgotten.

    Args:
        max_entries: How many are kept; more than half of it are, once there were that many.
    """

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._times = array("q")
        self._positions = array("q")
        self._every = 1
        self._seen = 0

    def __len__(self) -> int:
        return len(self._times)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._times, self._positions, strict=True)

    def add(self, time_ms: int, position: int) -> None:
        """Take note of a keyframe."""
        if self._seen % self._every == 0:
            self._times.append(time_ms)
            self._positions.append(position)
            if len(self._times) >= self._max_entries:
                self._times, self._positions = self._times[::2], self._positions[::2]
                self._every *= 2
        self._seen += 1

    def as_amf(self, space: int) -> dict[str, AmfValue] | None:
        """The `keyframes` object of the metadata in so many bytes; None if not one entry fits.

        Evenly thinned if there is too little space; the first entry, where players start, always stays.
        """
        fitting = (space - EMPTY_SIZE) // ENTRY_SIZE
        if fitting < 1 or not self._times:
            return None
        step = -(-len(self._times) // fitting)
        times: list[AmfValue] = [time / 1000 for time in self._times[::step]]
        positions: list[AmfValue] = [float(position) for position in self._positions[::step]]
        return {"times": times, "filepositions": positions}
