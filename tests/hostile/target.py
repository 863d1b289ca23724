"""What one input of a stranger may cost the code that reads it."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import attrs

from rtmprelay.errors import RemoteProtocolError

#: CPU seconds for one input, and for each byte of it. The dearest of what peers can send needs 3 us for a byte, and what
#: needs more for each byte than for the one before soon needs far more than this.
SECONDS, SECONDS_PER_BYTE = 0.25, 20e-6
#: The operator's own file may take longer: all that is wrong with it is told, in a sentence for each.
SECONDS_PER_BYTE_OF_OPERATOR = 100e-6
#: Bytes of memory for one input, and for each byte of it: AMF values are objects, which cost some hundred bytes each, and
#: a file of settings is read into a buffer of 1 MiB.
MEMORY, MEMORY_PER_BYTE = 1_200_000, 300

#: How often something that took too long is tried again: a machine may have been busy with something else once.
_ATTEMPTS = 3


class TooCostlyError(Exception):
    """One input needed more than the bound allows."""


@attrs.frozen
class Target:
    """Something that reads bytes of strangers.

    Attributes:
        read: Reads an input; the folder is for those that need a file.
        samples: What is sound, for a mutator to begin with.
        costly: Long inputs that are as expensive as one can make them.
        errors: What it may raise.
        seconds_per_byte: How long it may take.
    """

    read: Callable[[bytes, Path], object]
    samples: Callable[[], list[bytes]]
    costly: Callable[[], list[bytes]] = list
    errors: tuple[type[Exception], ...] = (RemoteProtocolError,)
    seconds_per_byte: float = SECONDS_PER_BYTE

    def attempt(self, data: bytes, folder: Path, patience: float = 1.0) -> None:
        """Read one input. What comes out of here is a bug, or a `TooCostlyError`.

        Args:
            patience: How many times slower than usual everything is.
        """
        allowed = patience * (SECONDS + self.seconds_per_byte * len(data))
        took = 0.0
        for _ in range(_ATTEMPTS):
            began = time.process_time()
            with suppress(*self.errors):
                self.read(data, folder)
            took = time.process_time() - began
            if took < allowed:
                return
        raise TooCostlyError(f"{len(data)} bytes took {took:.2f} s, and {allowed:.2f} s is the most")

    def weigh(self, data: bytes, folder: Path) -> None:
        """Read one input, and see how much memory that takes. The bound on time does not hold for this."""
        # What is made once and kept, such as modules, is nobody's fault.
        for once in (b"", *self.samples()[:1]):
            with suppress(*self.errors):
                self.read(once, folder)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            with suppress(*self.errors):
                self.read(data, folder)
            used = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
        allowed = MEMORY + MEMORY_PER_BYTE * len(data)
        if used >= allowed:
            raise TooCostlyError(f"{len(data)} bytes took {used} bytes of memory, and {allowed} are the most")
