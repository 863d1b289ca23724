"""Sums for each second of a file, in arrays."""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt

from spark_analytics.scanning.tag_arrays import Integers

#: What is added up, and what is the largest of its kind. The steps end in that second.
SUMS = (
    "video_bytes",
    "audio_bytes",
    "video_frames",
    "audio_frames",
    "keyframes",
    "video_step_ms",
    "video_steps",
    "audio_step_ms",
    "audio_slots",
)
LARGEST = ("max_step_ms", "last_video_ms", "last_audio_ms")

#: Stands for "none", below everything.
NOTHING = -(1 << 62)

#: More different seconds than this are not counted in place.
_MOST_DENSE = 1 << 17


@attrs.frozen(eq=False)
class SecondSums:
    """Rows: a second, and what belongs to it."""

    seconds: Integers
    values: dict[str, Integers]

    def __len__(self) -> int:
        return len(self.seconds)

    @classmethod
    def empty(cls) -> SecondSums:
        """No rows."""
        return cls(np.empty(0, np.int64), {name: np.empty(0, np.int64) for name in (*SUMS, *LARGEST)})


class SecondsBuilder:
    """Collects contributions to seconds; each second has one row in the end."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, Integers, Integers]] = []
        self._rows: list[SecondSums] = []
        self._waiting = 0

    def add(self, name: str, seconds: Integers, amounts: Integers | int = 1) -> None:
        """Contribute an amount to each of these seconds."""
        if len(seconds):
            if isinstance(amounts, int):
                amounts = np.full(len(seconds), amounts, np.int64)
            self._parts.append((name, seconds, amounts))

    def fold(self) -> None:
        """Make rows of what was contributed."""
        if self._parts:
            rows = _grouped(self._parts)
            self._parts = []
            self._rows.append(rows)
            self._waiting += len(rows)

    @property
    def waiting(self) -> int:
        """How many rows there are at most."""
        return self._waiting

    def take(self) -> SecondSums:
        """All rows so far; the builder is empty then."""
        self.fold()
        rows, self._rows, self._waiting = self._rows, [], 0
        if len(rows) == 1:
            return rows[0]
        return _grouped(
            [
                (name, one.seconds[kept], one.values[name][kept])
                for one in rows
                for name in (*SUMS, *LARGEST)
                for kept in [one.values[name] != (NOTHING if name in LARGEST else 0)]
            ]
        )


def _grouped(parts: list[tuple[str, Integers, Integers]]) -> SecondSums:
    if not parts:
        return SecondSums.empty()
    lowest = min(int(seconds.min()) for _, seconds, _ in parts if len(seconds)) if _any(parts) else 0
    highest = max(int(seconds.max()) for _, seconds, _ in parts if len(seconds)) if _any(parts) else -1
    if highest - lowest < _MOST_DENSE:
        keys = np.arange(lowest, highest + 1)
        numbers = [seconds - lowest for _, seconds, _ in parts]
    else:
        keys, inverse = np.unique(np.concatenate([seconds for _, seconds, _ in parts]), return_inverse=True)
        cuts = np.cumsum([len(seconds) for _, seconds, _ in parts])[:-1]
        numbers = np.split(inverse, cuts)
    values = {name: np.zeros(len(keys), np.int64) for name in SUMS}
    values |= {name: np.full(len(keys), NOTHING, np.int64) for name in LARGEST}
    present: npt.NDArray[np.bool_] = np.zeros(len(keys), np.bool_)
    for (name, _, amounts), number in zip(parts, numbers, strict=True):
        present[number] = True
        if name in LARGEST:
            np.maximum.at(values[name], number, amounts)
        else:
            # Sums of this size are exact in the floating numbers that this counts with.
            values[name] += np.bincount(number, amounts, len(keys)).astype(np.int64)
    return SecondSums(keys[present], {name: column[present] for name, column in values.items()})


def _any(parts: list[tuple[str, Integers, Integers]]) -> bool:
    return any(len(seconds) for _, seconds, _ in parts)
