"""A thread pool whose threads finish when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure


@attrs.define(eq=False)
class Job:
    """A function to run in a thread."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    done: Deferred[Any]

    def run(self) -> None:
        """Let the thread finish."""
        try:
            result = self.function(*self.arguments)
        except Exception:
            self.done.errback(Failure())
        else:
            self.done.callback(result)


class Threads:
    """Stands in for a thread pool."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        #: How many functions were started.
        self.begun = 0

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        self.begun += 1
        self.jobs.append(Job(function, arguments, Deferred()))
        return self.jobs[-1].done

    def run_one(self) -> None:
        """Let the oldest thread finish."""
        self.jobs.pop(0).run()

    def run_all(self) -> None:
        """Let all threads finish, and those that are started because of it."""
        while self.jobs:
            self.run_one()
