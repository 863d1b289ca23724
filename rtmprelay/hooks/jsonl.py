"""`jsonl`: every event as a line of JSON, in one file. The event log's own thread and queue do the work."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from typing_extensions import override
from zope.interface import implementer

from rtmprelay.errors import ConfigError
from rtmprelay.event_bus import EventBus
from rtmprelay.event_log.disk import EventFile
from rtmprelay.event_log.instance import new_instance
from rtmprelay.event_log.log import CallInReactor, EventLog
from rtmprelay.event_log.settings import EventLogSettings
from rtmprelay.events import Event, EventLogFailed, EventsLost, ServerStarted
from rtmprelay.hooks.append_file import AppendFile, open_for_appending
from rtmprelay.hooks.event_choice import chosen_events
from rtmprelay.interfaces import IEventSink, IReloadable
from rtmprelay.plugin_factories import split_options

#: One file of any size, whose rotation is somebody else's.
_SETTINGS = EventLogSettings(
    max_file_size=2**62,
    alive_interval=0,
    upkeep_interval=86_400.0,
    # A relay that stops has five seconds in all.
    stop_timeout=2.0,
)


@implementer(IEventSink)
class _Reports:
    """What the writing itself has to tell: it goes to the log, and not to the other hooks."""

    _log = Logger()

    def __init__(self, path: Path) -> None:
        self._path = path

    def event_happened(self, time: float, event: Event) -> None:
        """Log it."""
        path = str(self._path)
        if isinstance(event, EventLogFailed):
            self._log.warn("Events cannot be written to {path}: {reason}", path=path, reason=event.reason)
        elif isinstance(event, EventsLost):
            self._log.warn(
                "{count} events are not in {path}: its disk could not keep up", path=path, count=event.count
            )


@implementer(IEventSink, IReloadable)
class JsonlHook(Service):
    """Appends events to a file. A disk that is slow, full or gone slows nobody down.

    Args:
        call_in_reactor: See `EventLog`.
    """

    def __init__(
        self,
        path: Path,
        events: frozenset[str],
        clock: IReactorTime,
        call_in_reactor: CallInReactor | None,
    ) -> None:
        self._path = path
        self._events = events
        self._current: AppendFile | None = None
        reports = EventBus()
        reports.add_sink(_Reports(path))
        self._log_file = EventLog(path.parent, _SETTINGS, reports, clock, call_in_reactor, self._open)
        self._started = False

    @property
    def event_log(self) -> EventLog:
        """What does the work, for tests."""
        return self._log_file

    def _open(self, folder: Path, time: float) -> tuple[Path, EventFile]:
        """Called in the writer's thread."""
        file = open_for_appending(self._path)
        self._current = file if isinstance(file, AppendFile) else None
        return self._path, file

    def event_happened(self, time: float, event: Event) -> None:
        """Put it in the queue."""
        if not self._started and self.running:
            # The lines have the same name of this run as those of the event log.
            self._started = True
            self._log_file.start(event.instance if isinstance(event, ServerStarted) else new_instance())
        if event.name in self._events:
            self._log_file.event_happened(time, event)

    def reload(self) -> None:
        """Open the file again before the next line."""
        if self._current is not None:
            self._current.is_left = True

    @override
    def stopService(self) -> Deferred[None]:
        super().stopService()
        self._started = False
        return self._log_file.stop()


def make_jsonl(argument: str, reactor: Any) -> JsonlHook:
    """The sink for `PATH[#events=publish_*,...]`."""
    name, options = split_options(argument, {"events"})
    if not name:
        raise ConfigError("the name of the file is missing: jsonl:PATH is expected")
    path = Path(name).absolute()
    if path.is_dir():
        raise ConfigError(f"{str(path)!r} is a folder: the name of a file is expected")
    if not path.parent.is_dir():
        raise ConfigError(f"the folder {str(path.parent)!r} does not exist")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError(f"{str(path)!r} cannot be written")
    return JsonlHook(path, chosen_events(options.texts("events")), reactor, reactor.callFromThread)
