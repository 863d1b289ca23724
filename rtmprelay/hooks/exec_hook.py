"""`exec`: a program is run for each event. The event is in its environment."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import attrs
from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from typing_extensions import override
from zope.interface import implementer

from rtmprelay.clock import steady
from rtmprelay.errors import ConfigError
from rtmprelay.events import Event
from rtmprelay.hooks.event_queue import EventQueue, QueuedEvent, chosen_events
from rtmprelay.hooks.program import Program, environment
from rtmprelay.interfaces import IEventSink
from rtmprelay.plugin_factories import split_options
from rtmprelay.throttle import Throttle

#: Defaults of the options: seconds for one run, programs at the same time, events that wait.
DEFAULT_TIMEOUT = 30.0
DEFAULT_AT_ONCE = 4
DEFAULT_QUEUE = 1000

#: Seconds between SIGTERM and SIGKILL.
GRACE = 1.0

#: Seconds that programs have for the events that wait when the relay stops.
STOP_TIMEOUT = 1.5

#: Seconds between two log lines about programs that failed.
_REPORT_INTERVAL = 10.0


class Runnable(Protocol):
    """A program that can be run once, in a thread."""

    def run(self) -> str | None:
        """Run to the end. Returns what went wrong, or None."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it at once."""


#: Runs a function in a thread.
InThread = Callable[[Callable[[], "str | None"]], "Deferred[str | None]"]


@attrs.frozen
class ExecSettings:
    """Which program is run for which events, and how many at the same time."""

    events: frozenset[str]
    program: str
    timeout: float = DEFAULT_TIMEOUT
    at_once: int = DEFAULT_AT_ONCE
    queue: int = DEFAULT_QUEUE


@implementer(IEventSink)
class ExecHook(Service):
    """Runs a program for each event, a few at the same time. Events that find no room in the queue are lost and counted."""

    _log = Logger()

    def __init__(
        self,
        settings: ExecSettings,
        clock: IReactorTime,
        in_thread: InThread,
        make: Callable[[str, Mapping[str, str]], Runnable] = Program,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._in_thread = in_thread
        self._make = make
        self._queue = EventQueue(settings.queue, clock, settings.program)
        self._programs: set[Runnable] = set()
        self._stopping: Deferred[None] | None = None
        self._failures = Throttle(clock, _REPORT_INTERVAL)

    def event_happened(self, time: float, event: Event) -> None:
        if event.name in self._settings.events:
            self._queue.put(time, event)
            if self.running:
                self._start_programs()

    @override
    def startService(self) -> None:
        super().startService()
        self._start_programs()

    # -- programs --------------------------------------------------------------------------------------------

    def _start_programs(self) -> None:
        while len(self._queue) and len(self._programs) < self._settings.at_once:
            self._start(self._queue.take())
        if not self._programs and self._stopping is not None:
            stopping, self._stopping = self._stopping, None
            stopping.callback(None)

    def _start(self, queued: QueuedEvent) -> None:
        program = self._make(self._settings.program, environment(queued.time, queued.event))
        self._programs.add(program)
        timeout = self._settings.timeout
        timers = [
            self._clock.callLater(timeout, program.terminate),
            self._clock.callLater(timeout + GRACE, program.kill),
        ]

        def ended(problem: str | None) -> None:
            for timer in timers:
                if timer.active():
                    timer.cancel()
            self._programs.discard(program)
            if problem is not None:
                self._report_failure(queued.event.name, problem)
            self._start_programs()

        self._in_thread(program.run).addErrback(lambda failure: failure.getErrorMessage()).addCallback(ended)

    def _report_failure(self, event: str, problem: str) -> None:
        count = self._failures.count()
        if count:
            self._log.warn(
                "{program} failed for {event}: {problem} ({others} more since the last report)",
                program=self._settings.program,
                event=event,
                problem=problem,
                others=count - 1,
            )

    # -- the end ---------------------------------------------------------------------------------------------

    @override
    def stopService(self) -> Deferred[None]:
        """Run programs for the events that wait, but not for long; afterwards no program is running."""
        super().stopService()
        if not self._programs and not len(self._queue):
            return succeed(None)
        stopping = self._stopping = Deferred()
        timers = [
            self._clock.callLater(STOP_TIMEOUT, self._terminate_all),
            self._clock.callLater(STOP_TIMEOUT + GRACE / 2, self._kill_all),
            self._clock.callLater(STOP_TIMEOUT + GRACE, self._abandon_all),
        ]

        def stopped(_: None) -> None:
            for timer in timers:
                if timer.active():
                    timer.cancel()

        return stopping.addCallback(stopped)

    def _terminate_all(self) -> None:
        self._queue.clear("the relay stops")
        for program in list(self._programs):
            program.terminate()

    def _kill_all(self) -> None:
        for program in list(self._programs):
            program.kill()

    def _abandon_all(self) -> None:
        # A killed program that waits for a disk does not end before the disk answers.
        self._programs.clear()
        self._start_programs()


def _in_daemon_thread(reactor: Any) -> InThread:
    """A thread for each program: one that never ends blocks neither the others nor the end of the process."""

    def run(function: Callable[[], str | None]) -> Deferred[str | None]:
        done: Deferred[str | None] = Deferred()

        def work() -> None:
            try:
                problem = function()
            except Exception as error:
                problem = type(error).__name__
            reactor.callFromThread(done.callback, problem)

        threading.Thread(target=work, name="rtmprelay-exec", daemon=True).start()
        return done

    return run


def make_exec_hook(argument: str, reactor: Any) -> ExecHook:
    """The sink for `EVENT[,EVENT...]=PROGRAM[#timeout=30&at-once=4&queue=1000]`."""
    text, options = split_options(argument, {"timeout", "at-once", "queue"})
    events, equals, program = text.partition("=")
    if not equals or not events or not program:
        raise ConfigError("EVENT=PROGRAM is expected, such as publish_started=/usr/local/bin/on-publish")
    settings = ExecSettings(
        events=chosen_events([part for part in events.split(",") if part]),
        program=_program_path(program),
        timeout=options.number("timeout", DEFAULT_TIMEOUT, 0.1, 86_400),
        at_once=options.count("at-once", DEFAULT_AT_ONCE, 1, 64),
        queue=options.count("queue", DEFAULT_QUEUE, 1, 100_000),
    )
    return ExecHook(settings, steady(reactor), _in_daemon_thread(reactor))


def _program_path(text: str) -> str:
    if "/" not in text:
        found = shutil.which(text)
        if found is None:
            raise ConfigError(f"there is no program {text!r} in PATH")
        return found
    path = Path(text).absolute()
    if not path.is_file():
        raise ConfigError(f"there is no program {str(path)!r}")
    if not os.access(path, os.X_OK):
        raise ConfigError(f"{str(path)!r} may not be executed: chmod +x would help")
    return str(path)
