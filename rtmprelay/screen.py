"""Lines on a terminal that are drawn over the ones before."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from typing import TextIO


class Screen:
    """The end of what a terminal shows: a few lines that change in place."""

    def __init__(
        self, out: TextIO, terminal_size: Callable[[], os.terminal_size] = shutil.get_terminal_size
    ) -> None:
        self._out = out
        self._terminal_size = terminal_size
        self._drawn = 0
        self._size: os.terminal_size | None = None

    def keep(self) -> None:
        """What was drawn stays; the next lines appear below it."""
        self._drawn = 0

    def draw(self, lines: Callable[[int], Sequence[str]]) -> None:
        """Draw lines over the ones before.

        Args:
            lines: Makes them, for the number of characters that one may have, apart from colours.
        """
        size = self._terminal_size()
        # Some terminals wrap when the last column is written.
        drawn = lines(max(1, size.columns - 1))
        # Lines that scrolled off the top cannot be drawn over.
        shown = drawn[: max(1, size.lines - 1)]
        # A new width wraps the old lines differently, so where they begin is not known.
        up = f"\x1b[{self._drawn}A" if self._drawn and size == self._size else ""
        self._out.write(up + "".join(f"\r{line}\x1b[K\n" for line in shown) + "\x1b[J")
        self._out.flush()
        self._drawn, self._size = len(shown), size
