"""One run of a program in a thread: without a shell, and with few variables in its environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress

from rtmprelay.events import Event
from rtmprelay.events.lines import format_time

#: The variables of the relay's own environment that programs get. Others may hold keys.
_INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")

#: Characters of one value.
_LONGEST_VALUE = 8192


def environment(time: float, event: Event, inherited: Mapping[str, str] | None = None) -> dict[str, str]:
    """An event as variables: `RTMPRELAY_EVENT`, `RTMPRELAY_TIME`, and one for each field, such as `RTMPRELAY_STREAM`."""
    inherited = os.environ if inherited is None else inherited
    variables = {name: inherited[name] for name in _INHERITED if name in inherited}
    variables["RTMPRELAY_EVENT"] = event.name
    variables["RTMPRELAY_TIME"] = format_time(time)
    for name, value in event.fields().items():
        variables[f"RTMPRELAY_{name.upper()}"] = _as_text(value)
    return variables


def _as_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    text = json.dumps(value, default=str) if isinstance(value, dict | list | tuple) else str(value)
    # Peers choose some values: control characters could imitate other output, and NUL ends a variable.
    printable = "".join(character if character.isprintable() else "?" for character in text[:_LONGEST_VALUE])
    return printable.encode("utf-8", "replace").decode()


class Program:
    """Runs once, in a session of its own: signals reach every process that it has started.

    It is started by a thread and not by the reactor: with 10,000 connections, `spawnProcess` would stop every stream
    for 30 ms.
    """

    def __init__(self, path: str, environment: Mapping[str, str]) -> None:
        self._path = path
        self._environment = environment
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._signalled = False

    def run(self) -> str | None:
        """Run to the end, in a thread. Returns what went wrong, or None."""
        with self._lock:
            if self._signalled:
                return "it was not started"
            try:
                # Its output would fill the relay's log.
                process = self._process = subprocess.Popen(  # noqa: S603 - the operator names the program; no shell
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

    def terminate(self) -> None:
        """Ask it to end, with every process that it has started."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, with every process that it has started."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with self._lock:
            self._signalled = True
            process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
