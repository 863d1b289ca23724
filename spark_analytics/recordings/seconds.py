"""Sums for each second of a file, in arrays."""

from __future__ import annotations

import attrs
import numpy as np

from spark_analytics.flv.tags import Integers

#: What is added up, and what is the largest of its kind. The steps end in that second. `audio_early` counts audio frames
#: whose step rounds to no frame, and `audio_phase_ms` adds up when in the second the audio frames are.
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
    "audio_early",
    "audio_phase_ms",
)
LARGEST = ("max_step_ms", "last_video_ms", "last_audio_ms")

#: The rows of `SecondSums.values`, in this order.
COLUMNS = (*SUMS, *LARGEST)

_NUMBERS = {name: number for number, name in enumerate(COLUMNS)}

#: Stands for "none", below everything.
NOTHING = -(1 << 62)

#: More different seconds than this are not counted in place.
_MOST_DENSE = 1 << 17


@attrs.frozen(eq=False)
class SecondSums:
    """Seconds, and what belongs to each.

    Attributes:
        values: A row for each of `COLUMNS`, a column for each second.
    """

    seconds: Integers
    values: Integers

    def __len__(self) -> int:
        return len(self.seconds)

    @classmethod
    def joined(cls, parts: list[SecondSums]) -> SecondSums:
        """All of them one after the other; a second may be there several times."""
        if not parts:
            return cls(np.empty(0, np.int64), np.empty((len(COLUMNS), 0), np.int64))
        return cls(
            np.concatenate([one.seconds for one in parts]),
            np.concatenate([one.values for one in parts], axis=1),
        )


def add_equal(keys: Integers, values: Integers) -> tuple[Integers, Integers]:
    """Make one of those that have the same keys, in the order of their keys.

    Args:
        keys: A row for each key, the most important one first.
        values: As those of `SecondSums`.
    """
    if not keys.shape[1]:
        return keys, values
    if not _is_ascending(keys):
        # Parts of files come in any order.
        order = np.lexsort(keys[::-1])
        keys, values = keys[:, order], values[:, order]
    first = np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))
    if first.all():
        return keys, values
    starts = np.flatnonzero(first)
    sums = np.add.reduceat(values[: len(SUMS)], starts, axis=1)
    largest = np.maximum.reduceat(values[len(SUMS) :], starts, axis=1)
    return keys[:, starts], np.concatenate([sums, largest])


def _is_ascending(keys: Integers) -> bool:
    before, after = keys[:, :-1], keys[:, 1:]
    ascends = after[-1] >= before[-1]
    for number in range(len(keys) - 2, -1, -1):
        ascends = (after[number] > before[number]) | ((after[number] == before[number]) & ascends)
    return bool(ascends.all())


class SecondsBuilder:
    """Collects contributions to seconds; each second has one row in the end."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, Integers, Integers | int]] = []
        self._rows: list[SecondSums] = []
        self._waiting = 0

    def add(self, name: str, seconds: Integers, amounts: Integers | int = 1) -> None:
        """Contribute an amount to each of these seconds."""
        if len(seconds):
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
        joined = SecondSums.joined(rows)
        keys, values = add_equal(joined.seconds.reshape(1, -1), joined.values)
        return SecondSums(keys[0], values)


def _grouped(parts: list[tuple[str, Integers, Integers | int]]) -> SecondSums:
    # Those that are added up come first, so that each kind is in one place.
    parts = sorted(parts, key=lambda part: _NUMBERS[part[0]])
    seconds = np.concatenate([one for _, one, _ in parts])
    amounts = np.empty(len(seconds), np.int64)
    lowest, highest = int(seconds.min()), int(seconds.max())
    if highest - lowest < _MOST_DENSE:
        keys = np.arange(lowest, highest + 1)
        places = seconds - lowest
    else:
        keys, places = np.unique(seconds, return_inverse=True)
    present = np.zeros(len(keys), np.bool_)
    present[places] = True
    at = added = 0
    for name, one, amount in parts:
        amounts[at : at + len(one)] = amount
        # All columns are counted at once, as one long row.
        places[at : at + len(one)] += _NUMBERS[name] * len(keys)
        at += len(one)
        if _NUMBERS[name] < len(SUMS):
            added = at
    sums = len(SUMS) * len(keys)
    values = np.full(len(COLUMNS) * len(keys), NOTHING, np.int64)
    # Sums of this size are exact in the floating numbers that this counts with.
    values[:sums] = np.bincount(places[:added], amounts[:added], sums)
    np.maximum.at(values, places[added:], amounts[added:])
    table = values.reshape(len(COLUMNS), len(keys))
    return SecondSums(keys, table) if present.all() else SecondSums(keys[present], table[:, present])
