"""Starts the load generator's processes, gives them orders, waits for their answers, and ends them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

import attrs
import cattrs

from rtmprelay.bench.tasks import Task

_T = TypeVar("_T")


class BenchError(Exception):
    """A measurement could not be made; the text says why."""


class Worker:
    """A process of the load generator."""

    def __init__(self, name: str, task: Task) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rtmprelay.bench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._partial = b""
        self._answers: list[dict[str, Any]] = []
        self._send({"task": type(task).__name__, "settings": attrs.asdict(task)})

    @property
    def pid(self) -> int:
        return self._process.pid

    def order(self, do: str, **more: object) -> None:
        self._send({"do": do, **more})

    def _send(self, order: dict[str, object]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise BenchError(f"the {self.name} of the load generator ended early") from error

    def wait_for(self, what: str, within: float) -> Any:
        """Wait for an answer of this kind, and return its value."""
        deadline = time.monotonic() + within
        while True:
            for index, answer in enumerate(self._answers):
                if answer["is"] == "failed":
                    raise BenchError(f"the {self.name} of the load generator: {answer['value']}")
                if answer["is"] == what:
                    return self._answers.pop(index)["value"]
            self._read(what, deadline - time.monotonic(), within)

    def _read(self, what: str, left: float, within: float) -> None:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            raise BenchError(
                f"the {self.name} of the load generator did not say '{what}' within {within:g} s"
            )
        data = os.read(descriptor, 1 << 20)
        if not data:
            raise BenchError(f"the {self.name} of the load generator ended before it said '{what}'")
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._answers += [json.loads(line) for line in lines]

    def result(self, what: str, kind: type[_T], within: float) -> _T:
        """The same for an answer that is an attrs value."""
        return cattrs.structure(self.wait_for(what, within), kind)

    def stop(self) -> None:
        """Close its orders, at which it ends by itself; kill it if it does not."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(2)
        self._process.stdout.close()


class Workers:
    """All workers of one measurement; a `with` block ends them."""

    def __init__(self) -> None:
        self.all: list[Worker] = []

    def start(self, name: str, task: Task) -> Worker:
        worker = Worker(name, task)
        self.all.append(worker)
        return worker

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.all:
            worker.stop()
