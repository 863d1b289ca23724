"""The `twistd rtmprelay` command. This module alone knows twistd."""

from __future__ import annotations

import gc
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

import attrs
from twisted.application.service import IServiceCollection
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IReactorCore, IReactorFromThreads
from twisted.internet.task import react
from twisted.logger import ILogObserver, Logger
from twisted.python.components import Componentized
from twisted.python.logfile import LogFile
from twisted.python.usage import Options as UsageOptions
from twisted.python.usage import UsageError
from typing_extensions import override

from rtmprelay import __version__, config, logs
from rtmprelay.destinations.config_file import destination_from_url, read_relay_config
from rtmprelay.destinations.manager import refuse_duplicates
from rtmprelay.destinations.preflight import check_destinations
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.errors import ConfigError
from rtmprelay.event_log.settings import SMALLEST_FILE, EventLogSettings
from rtmprelay.interfaces import IReloadable
from rtmprelay.limit_options import limits_help, with_limits
from rtmprelay.plugin_loading import make_authorizer, make_event_sink, plugins_help
from rtmprelay.recording.settings import (
    RecordingSettings,
    check_folder,
    read_duration,
    read_segment_duration,
    read_segment_size,
    read_size,
)
from rtmprelay.service import RelayService
from rtmprelay.web.settings import HttpSettings, read_origin, read_token, token_from
from rtmprelay.wire.limits import LARGEST_OUTGOING_CHUNK_SIZE


def read_event_log_size(text: str) -> int:
    """The size of event logs from what an operator wrote."""
    size = read_size(text)
    if size < SMALLEST_FILE:
        raise ConfigError(f"{text!r} is too small for an event log: {SMALLEST_FILE // 1024}K is the least")
    return size


class Options(UsageOptions):
    """The options of `twistd rtmprelay`."""

    synopsis = "[--listen ENDPOINT ...] [--relay-to URL ...] [options]"

    longdesc = (
        "An RTMP server and relay. Encoders publish to rtmp://HOST/APP/NAME, players play from there, and every"
        " destination gets the stream too. URL is rtmp[s]://HOST/APP/KEY, or rtmp[s]://HOST/APP to publish there"
        " under the stream's own name. ENDPOINT is a Twisted"
        " endpoint description (tcp:1935, ssl:443:privateKey=KEY:certKey=CERT, unix:PATH, systemd:domain=INET:index=0,"
        " haproxy:tcp:1935) or short: 1935, :1935, HOST:1935. The log options hold for twistd; twist has its own."
    )

    optParameters = [
        [
            "chunk-size",
            None,
            LARGEST_OUTGOING_CHUNK_SIZE,
            "Size of outgoing chunks in bytes, 128 to 65536.",
        ],
        [
            "merge-window",
            None,
            "40ms",
            "The longest that a frame waits to be joined with others under load; 0 switches it off.",
        ],
        ["relay-config", None, None, "A JSON file with destinations; SIGHUP reads it again."],
        [
            "http-status",
            None,
            None,
            "Where to show status, metrics and a page for people over HTTP; :8080 is for this machine only.",
        ],
        [
            "http-token",
            None,
            None,
            "What a request must bring to change things: TOKEN, file:PATH, or RTMPRELAY_HTTP_TOKEN in the environment.",
        ],
        ["record-dir", None, "recordings", "The folder for recordings."],
        [
            "segment-duration",
            None,
            None,
            "Begin a new file at the first keyframe after this time, such as 30m.",
        ],
        [
            "segment-size",
            None,
            None,
            "Begin a new file at the first keyframe after so many bytes, such as 2G.",
        ],
        ["keep-recordings", None, None, "Delete finished recordings that are older than this, such as 7d."],
        [
            "max-recordings-size",
            None,
            None,
            "Delete the oldest finished recordings when all have more bytes than this, such as 100G.",
        ],
        ["event-log", None, None, "A folder for all events, as lines of JSON for machines."],
        [
            "event-log-size",
            None,
            None,
            "Begin a new event log when one would have more bytes than this. Default: 64M",
        ],
        ["keep-event-log", None, None, "Delete event logs that are older than this, such as 90d."],
        ["log-level", None, "info", "The least that is logged: debug, info, warn or error."],
        ["log-format", None, "text", "How it is logged: text or json."],
    ]

    optFlags = [
        ["record-all", None, "Record every stream."],
        ["event-log-gzip", None, "Compress event logs that are finished."],
        [
            "check-destinations",
            None,
            "Try all destinations out, say how far each was reached, and exit: 0 if all are fine.",
        ],
    ]

    def __init__(self) -> None:
        super().__init__()
        self["listen"] = []
        self["relay-to"] = []
        self["record"] = []
        self["auth"] = []
        self["hook"] = []
        self["limit"] = []
        self["http-cors"] = []

    def opt_listen(self, endpoint: str) -> None:
        """Where to listen; may be given several times. Default: tcp:1935"""
        self["listen"].append(endpoint)

    def opt_relay_to(self, url: str) -> None:
        """A destination for all streams; may be given several times."""
        self["relay-to"].append(url)

    def opt_record(self, glob: str) -> None:
        """Record the streams whose APP/NAME matches, such as live/*; may be given several times."""
        self["record"].append(glob)

    def opt_http_cors(self, origin: str) -> None:
        """An origin whose pages may read status and media, such as https://example.org, or *; may be given several times."""
        self["http-cors"].append(origin)

    def opt_auth(self, specification: str) -> None:
        """Who may publish and play, as PLUGIN:ARGUMENT; may be given several times, and all must allow it."""
        self["auth"].append(specification)

    def opt_hook(self, specification: str) -> None:
        """Who else is told what happens, as PLUGIN:ARGUMENT; may be given several times."""
        self["hook"].append(specification)

    def opt_limit(self, limit: str) -> None:
        """Another value for a limit, as NAME=VALUE; may be given several times. --help-limits shows them."""
        self["limit"].append(limit)

    def opt_help_limits(self) -> None:
        """Show the limits and their values, and exit."""
        sys.stdout.write(limits_help())
        raise SystemExit(0)

    def opt_help_plugins(self) -> None:
        """Show the plugins for --auth and --hook, and exit."""
        sys.stdout.write(plugins_help())
        raise SystemExit(0)

    def opt_version(self) -> None:
        """Show the version and exit."""
        sys.stdout.write(f"rtmprelay {__version__}\n")
        raise SystemExit(0)

    @override
    def parseOptions(self, options: list[str] | None = None) -> None:
        """Read the options. What cannot be used is told in one line, without the whole help behind it."""
        try:
            super().parseOptions(options)
        except UsageError as error:
            raise SystemExit(f"rtmprelay: {error} (see twistd rtmprelay --help)") from error

    @override
    def postOptions(self) -> None:
        listen = [
            self._checked("listen", endpoint, _listen_description)
            for endpoint in self["listen"] or [config.DEFAULT_LISTEN]
        ]
        chunk_size = self._checked("chunk-size", str(self["chunk-size"]), config.chunk_size)
        self._one_of("log-level", logs.LEVELS)
        self._one_of("log-format", logs.FORMATS)
        try:
            destinations = self.destinations()
        except ConfigError as error:
            raise UsageError(str(error)) from error
        if self["check-destinations"] and not any(one.enabled for one in destinations):
            raise UsageError(
                "--check-destinations: there are none, or none is enabled; give --relay-to or --relay-config"
            )
        relay = config.RelayConfig(
            listen=tuple(listen),
            chunk_size=chunk_size,
            merge_window=self._checked("merge-window", self["merge-window"], config.merge_window),
            destinations=tuple(destinations),
            recording=self.recording(),
            http=self.http(),
            relay_config=self["relay-config"],
            event_log=self.event_log(),
            authorizers=self._plugins("auth", make_authorizer),
            hooks=self._plugins("hook", make_event_sink),
        )
        try:
            self["config"] = with_limits(relay, self["limit"])
        except ConfigError as error:
            raise UsageError(f"--limit: {error}") from error

    def http(self) -> HttpSettings:
        """What is shown over HTTP, and to whom."""
        listen = self._optional(
            "http-status", lambda text: _listen_description(text, config.http_description)
        )
        token = self._optional("http-token", read_token)
        if listen is not None and token is None:
            try:
                token = token_from()
            except ConfigError as error:
                raise UsageError(str(error)) from error
        if listen is None and (token is not None or self["http-cors"]):
            raise UsageError("--http-token and --http-cors need --http-status, which says where to listen")
        cors = tuple(self._checked("http-cors", origin, read_origin) for origin in self["http-cors"])
        return HttpSettings(listen=listen, token=token, cors=cors)

    def recording(self) -> RecordingSettings:
        """What is recorded, and for how long it is kept."""
        recording = RecordingSettings(
            record_all=bool(self["record-all"]),
            match=tuple(self["record"]),
            folder=Path(self["record-dir"]),
            segment_duration=self._optional("segment-duration", read_segment_duration),
            segment_size=self._optional("segment-size", read_segment_size),
            keep=self._optional("keep-recordings", read_duration),
            max_total_size=self._optional("max-recordings-size", read_size),
        )
        if recording.record_all or recording.match:
            self._checked("record-dir", self["record-dir"], check_folder)
        return recording

    def event_log(self) -> EventLogSettings:
        """Where events are written to, and for how long they are kept."""
        settings = EventLogSettings(
            folder=self._optional("event-log", check_folder),
            gzip=bool(self["event-log-gzip"]),
            keep=self._optional("keep-event-log", read_duration),
        )
        size = self._optional("event-log-size", read_event_log_size)
        for option in ("event-log-gzip", "keep-event-log", "event-log-size"):
            if self[option] and settings.folder is None:
                raise UsageError(f"--{option}: there is no event log; give --event-log")
        return settings if size is None else attrs.evolve(settings, max_file_size=size)

    def _plugins(self, option: str, make: Callable[[str, object], Any]) -> tuple[Any, ...]:
        from twisted.internet import reactor

        return tuple(
            self._checked(option, specification, lambda text: make(text, reactor))
            for specification in self[option]
        )

    def _optional(self, option: str, read: Callable[[str], Any]) -> Any:
        return None if self[option] is None else self._checked(option, self[option], read)

    def destinations(self) -> list[DestinationSettings]:
        """The destinations of the file, read anew, and of the command line. No message has a key in it."""
        destinations: list[DestinationSettings] = []
        if self["relay-config"]:
            try:
                destinations += read_relay_config(self["relay-config"])
            except ConfigError as error:
                raise ConfigError(f"--relay-config: {error}") from None
        for number, url in enumerate(self["relay-to"], 1):
            try:
                taken = {destination.name for destination in destinations}
                destinations.append(destination_from_url(url, taken))
                refuse_duplicates(destinations)
            except ConfigError as error:
                raise ConfigError(f"--relay-to (number {number}): {error}") from None
        return destinations

    @staticmethod
    def _checked(option: str, text: str, read: Callable[[str], Any]) -> Any:
        try:
            return read(text)
        except ConfigError as error:
            raise UsageError(f"--{option}: {error}") from error

    def _one_of(self, option: str, known: object) -> None:
        names = list(cast("list[str]", known))
        if self[option] not in names:
            raise UsageError(f"--{option}: {self[option]!r} is not one of {', '.join(names)}")


def _listen_description(text: str, describe: Callable[[str], str] = config.listen_description) -> str:
    """What to listen on, tried out as far as that goes without opening the port."""
    from twisted.internet import reactor

    description = describe(text)
    try:
        serverFromString(reactor, description)
    except (IndexError, KeyError) as error:
        if not description.startswith("systemd:"):
            raise ConfigError(f"{text!r} is no endpoint to listen on: {error}") from error
        raise ConfigError(f"{text!r}: systemd has opened no socket with this index or name") from error
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise ConfigError(f"{text!r} is no endpoint to listen on: {reason}") from error
    return description


def _on_signal(number: signal.Signals, action: Callable[[], object]) -> None:
    """Do something in the reactor when a signal comes."""
    from twisted.internet import reactor

    signal.signal(number, lambda *_: IReactorFromThreads(reactor).callFromThread(action))


def _forget_the_start() -> None:
    """Let collections pass over what was made at the start: it stays until the end, and looking at all of it stops every
    stream for some 30 ms. In an application that embeds the service this is the application's to decide.
    """
    gc.collect()
    gc.freeze()


class _LoggingRelayService(RelayService):
    """A relay service that sets twistd's log up; one that is embedded leaves its host's log alone."""

    _log = Logger()

    #: None if twistd was told to log in another way.
    observer: ILogObserver | None = None
    in_foreground = True
    #: The file that the observer writes to, if it is one.
    log_file: LogFile | None = None
    #: Reads the destinations anew.
    reread: Callable[[], list[DestinationSettings]] | None = None

    @override
    def setServiceParent(self, parent: IServiceCollection) -> None:
        if self.observer is not None and isinstance(parent, Componentized):
            parent.setComponent(ILogObserver, self.observer)
        super().setServiceParent(parent)

    @override
    def privilegedStartService(self) -> None:
        # First of all, and always: what a signal does by default is to end the process.
        _on_signal(signal.SIGHUP, self.reload)
        _on_signal(signal.SIGUSR1, self.rotate_log)
        try:
            super().privilegedStartService()
        except (CannotListenError, OSError) as error:
            # In the background twistd's parent process says it, and needs the error for that.
            if not self.in_foreground:
                raise
            self._log.critical("{reason}", reason=str(error))
            # The log has taken sys.stderr over; an operator looks at the real one too.
            (sys.__stderr__ or sys.stderr).write(f"rtmprelay: {error}\n")
            raise SystemExit(1) from error

    @override
    def startService(self) -> None:
        super().startService()
        from twisted.internet import reactor

        IReactorCore(reactor).callWhenRunning(_forget_the_start)

    def rotate_log(self) -> None:
        """Begin a new log file, if there is one."""
        if self.log_file is not None:
            self.log_file.rotate()

    def reload(self) -> None:
        """Read all files again; one that cannot be used changes nothing."""
        self.reload_destinations()
        for plugin in (*self.config.authorizers, *self.config.hooks):
            if IReloadable.providedBy(plugin):
                try:
                    plugin.reload()
                except ConfigError as error:
                    self._log.error("What was read before stays: {reason}", reason=str(error))

    def reload_destinations(self) -> None:
        """Apply what has changed in the configuration file; a bad file changes nothing."""
        if self.reread is None:
            self._log.info("There is no --relay-config to read again")
            return
        try:
            changes = self.steering.reload(self.reread())
        except ConfigError as error:
            self._log.error("The destinations stay as they are: {reason}", reason=str(error))
        else:
            self._log.info(
                "Destinations reloaded: added {added}, removed {removed}, changed {changed}",
                added=list(changes.added),
                removed=list(changes.removed),
                changed=list(changes.changed),
            )


def _check_destinations(destinations: tuple[DestinationSettings, ...]) -> NoReturn:
    """Try all destinations out, print the report, and exit."""

    async def check(reactor: object) -> None:
        reports = await check_destinations(reactor, destinations)
        for report in reports:
            sys.stdout.write("\n".join(report.lines()) + "\n")
        if not all(report.fine for report in reports):
            raise SystemExit(1)

    react(lambda reactor: Deferred.fromCoroutine(check(reactor)))


def _log_file(options: Options) -> TextIO | LogFile:
    """Where twistd would log to. Asked now, because later stdout is the log's own."""
    name = _of_twistd(options, "logfile")
    if name == "-" and not _in_foreground(options):
        raise SystemExit("rtmprelay: --logfile: a daemon cannot log to its standard output")
    if not name and not _in_foreground(options):
        name = "twistd.log"
    if not name or name == "-":
        return sys.stdout
    try:
        return cast(LogFile, LogFile.fromFullPath(name))
    except OSError as error:
        raise SystemExit(f"rtmprelay: --logfile: {name!r} cannot be written: {error.strerror}") from error


def _of_twistd(options: Options, name: str, default: Any = None) -> Any:
    return default if options.parent is None else options.parent.get(name, default)


def _in_foreground(options: Options) -> bool:
    return bool(_of_twistd(options, "nodaemon", True))


def _raise_file_limit() -> None:
    """Each connection is a file; the usual soft limit of 1024 would be the first bound that an audience meets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Some systems name a hard limit and then refuse it.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def makeService(options: Options) -> RelayService:
    """The service that `twistd rtmprelay` runs."""
    if options["check-destinations"]:
        _check_destinations(options["config"].destinations)
    _raise_file_limit()
    service = _LoggingRelayService(options["config"])
    service.in_foreground = _in_foreground(options)
    if options["relay-config"]:
        service.reread = options.destinations
    if not _of_twistd(options, "syslog") and not _of_twistd(options, "logger"):
        out = _log_file(options)
        service.log_file = out if isinstance(out, LogFile) else None
        service.observer = logs.make_observer(cast(TextIO, out), options["log-level"], options["log-format"])
    return service
