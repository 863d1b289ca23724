"""One run of a program, in a thread: without a shell, and with little around it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress


class Program:
    """Runs once. It gets a session of its own, so that whatever it has started can be ended with it.

    A thread and not the reactor starts it: with 10,000 connections, `spawnProcess` would stop every stream for 30 ms.
    """

    def __init__(self, path: str, environment: Mapping[str, str]) -> None:
        self._path = path
        self._environment = environment
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._unwanted = False

    def run(self) -> str | None:
        """Run to the end, in a thread; what went wrong, if something did."""
        with self._lock:
            if self._unwanted:
                return "it was not started"
            try:
                # What it says goes nowhere: it is not the relay's log.
                process = self._process = subprocess.Popen(
                    [self._path],
                    env=dict(self._environment),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError as error:
                return f"it cannot be started: {error.strerror}"
        status = process.wait()
        if status == 0:
            return None
        return f"it ended with status {status}" if status > 0 else f"it was ended by signal {-status}"

    def end(self) -> None:
        """Ask it to end, and all that it has started."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, and all that it has started."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with self._lock:
            self._unwanted = True
            process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
