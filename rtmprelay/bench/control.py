"""The line between a load generator process and the benchmark: one JSON object a line in each direction."""

from __future__ import annotations

import json
import os
import time
from typing import Any, TypeAlias

import attrs

Order: TypeAlias = dict[str, Any]


class WorkerControl:
    """The worker's end: orders on standard input, answers on standard output."""

    def __init__(self, orders: int = 0, answers: int = 1) -> None:
        self.orders = orders
        self._answers = answers
        self._partial = b""
        self._cpu_began = 0.0
        self._began = 0.0

    def first(self) -> Order:
        """Wait for the first order, the task. Reads exactly one line: later orders belong to `read`."""
        line = b""
        while not line.endswith(b"\n"):
            byte = os.read(self.orders, 1)
            if not byte:
                raise EOFError("there was no task")
            line += byte
        order: Order = json.loads(line)
        return order

    def read(self) -> list[Order]:
        """The orders that have arrived; `stop` when the benchmark has ended."""
        data = os.read(self.orders, 65536)
        if not data:
            return [{"do": "stop"}]
        *lines, self._partial = (self._partial + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def say(self, what: str, value: object = None) -> None:
        """Answer, with an attrs value or a plain one."""
        plain = attrs.asdict(value) if attrs.has(type(value)) else value  # type: ignore[arg-type]
        line = json.dumps({"is": what, "value": plain}) + "\n"
        os.write(self._answers, line.encode())

    def begin_counting(self) -> None:
        self._cpu_began, self._began = time.process_time(), time.monotonic()

    def used(self) -> dict[str, float]:
        """CPU and wall seconds since `begin_counting`."""
        return {
            "cpu": time.process_time() - self._cpu_began,
            "seconds": time.monotonic() - self._began,
        }
