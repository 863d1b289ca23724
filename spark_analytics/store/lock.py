"""Keeps other runs on this machine away from a catalogue while one writes.

It only spares work: of two runs that do not see each other's lock, the second one cannot publish.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from spark_analytics.errors import CatalogueBusyError

_LOCK = "_lock"


@contextmanager
def locked(root: Path, wait: float) -> Iterator[None]:
    """Hold the lock of a catalogue. The system lets go of it when this process ends, however it ends.

    Raises:
        CatalogueBusyError: Another run holds it, and has not ended after so many seconds.
    """
    deadline = time.monotonic() + wait
    with (root / _LOCK).open("a+") as file:
        while not _try_lock(file):
            if time.monotonic() >= deadline:
                raise CatalogueBusyError(
                    f"Another run is writing to {root} ({_holder(file)}); try again later."
                )
            time.sleep(0.2)
        file.seek(0)
        file.truncate()
        since = datetime.now(UTC).isoformat(timespec="seconds")
        file.write(json.dumps({"pid": os.getpid(), "host": platform.node(), "since": since}))
        file.flush()
        yield


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # A file system without locks: of two runs, one will find that it cannot publish.
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
    return True


def _holder(file: IO[str]) -> str:
    file.seek(0)
    try:
        values = json.loads(file.read())
        return f"process {values['pid']} on {values['host']}, since {values['since']}"
    except (ValueError, KeyError):
        return "it has just begun"
