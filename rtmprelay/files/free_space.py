"""Stops writing before a disk is full: other programs need it, and on a full disk the log stops too."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import attrs

from rtmprelay.errors import ConfigError
from rtmprelay.quantities import format_size, quoted, read_size

#: Seconds for which an answer holds: at 1 Gbit/s a disk takes 125 MB meanwhile.
_HOLDS_FOR = 1.0

_PERCENT = re.compile(r"(\d{1,2}(?:\.\d{1,3})?)%", re.ASCII)


@attrs.frozen
class KeepFree:
    """How much of a disk stays free: the smaller of the two, if both are given."""

    percent: float | None = None
    bytes: int | None = None

    def of(self, size: int) -> int:
        """Bytes that stay free on a disk of this size."""
        wanted = [] if self.bytes is None else [self.bytes]
        if self.percent is not None:
            wanted.append(int(size * self.percent / 100))
        return min(wanted, default=0)

    def __str__(self) -> str:
        parts = [] if self.percent is None else [f"{self.percent:g}%"]
        return " or ".join([*parts, *([] if self.bytes is None else [format_size(self.bytes)])])


#: A twentieth of a small disk, and no more of a large one than a recording may need to be completed.
DEFAULT_KEEP_FREE = KeepFree(5.0, 1024**3)


def read_keep_free(text: str) -> KeepFree:
    """The value of `--keep-free`: `5%`, `10G`, or `0` for nothing.

    Raises:
        ConfigError: The text has another form.
    """
    if text == "0":
        return KeepFree(bytes=0)
    percent = _PERCENT.fullmatch(text)
    if percent is not None:
        return KeepFree(percent=float(percent[1]))
    try:
        return KeepFree(bytes=read_size(text))
    except ConfigError:
        raise ConfigError(f"{quoted(text)} is not a share or a size such as 5% or 10G") from None


class FreeSpace:
    """Whether the disk of a folder has enough room; looked at once a second.

    Args:
        usage: Returns the size of the disk of a folder and what is free of it for this user, in bytes.
    """

    def __init__(
        self,
        folder: Path,
        keep_free: KeepFree | None,
        monotonic: Callable[[], float],
        usage: Callable[[Path], tuple[int, int]] | None = None,
    ) -> None:
        self._folder = folder
        self._keep_free = keep_free
        self._monotonic = monotonic
        self._usage = usage or _usage
        self._looked_at: float | None = None
        self._is_enough = True

    def check(self) -> None:
        """Raise `OSError` (ENOSPC) if less is free than has to stay."""
        if self._keep_free is None:
            return
        now = self._monotonic()
        if self._looked_at is None or now - self._looked_at >= _HOLDS_FOR:
            self._looked_at = now
            self._is_enough = self._look(self._keep_free)
        if not self._is_enough:
            raise OSError(
                errno.ENOSPC,
                f"less than {self._keep_free} of the disk is free (--keep-free)",
                str(self._folder),
            )

    def _look(self, keep_free: KeepFree) -> bool:
        try:
            size, free = self._usage(self._folder)
        except OSError:
            # What is wrong with the folder is found out when something is written to it.
            return True
        return free > keep_free.of(size)


def _usage(folder: Path) -> tuple[int, int]:
    found = os.statvfs(folder)
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
