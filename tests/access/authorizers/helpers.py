"""Threads that tests let go on when they want."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure


@attrs.define(eq=False)
class Job:
    """Something that is to be done in a thread."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    done: Deferred[Any]

    def run(self) -> None:
        """The thread does its work."""
        try:
            result = self.function(*self.arguments)
        except Exception:
            self.done.errback(Failure())
        else:
            self.done.callback(result)


class Threads:
    """What stands for a pool of threads."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        #: How many were ever begun.
        self.begun = 0

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        """Begin something."""
        self.begun += 1
        self.jobs.append(Job(function, arguments, Deferred()))
        return self.jobs[-1].done

    def run_one(self) -> None:
        """The oldest ends."""
        self.jobs.pop(0).run()

    def run_all(self) -> None:
        """All end, and those that begin because of it."""
        while self.jobs:
            self.run_one()
