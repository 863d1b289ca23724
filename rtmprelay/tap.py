"""The `twistd rtmprelay` command. This module alone knows twistd."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

from twisted.application.service import IServiceCollection
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IAddress, IReactorCore, IReactorFromThreads
from twisted.internet.task import react
from twisted.logger import ILogObserver, Logger
from twisted.python.components import Componentized
from twisted.python.logfile import LogFile
from typing_extensions import override

from rtmprelay import logs
from rtmprelay.banner import banner, own_address
from rtmprelay.before_start import check_pid_file, check_start, why_not_listening
from rtmprelay.config.options import Options
from rtmprelay.config.relay import is_tls
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.errors import ConfigError
from rtmprelay.interfaces import IReloadable
from rtmprelay.pulls.settings import PullSettings
from rtmprelay.rtmp.addresses import host_of
from rtmprelay.secret import Secret
from rtmprelay.service import RelayService

#: What twistd looks for.
__all__ = ["Options", "makeService"]

_log = Logger("rtmprelay")


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
    observer: logs.LevelObserver | None = None
    in_foreground = True
    _ends_when_drained = False
    #: The file that the observer writes to, if it is one.
    log_file: LogFile | None = None
    #: Reads the HTTP tokens anew: for changes, and for reading.
    reread_tokens: Callable[[], tuple[Secret | None, Secret | None]] | None = None
    #: Reads the destinations anew.
    reread: Callable[[], list[DestinationSettings]] | None = None
    #: Reads the pulls anew.
    reread_pulls: Callable[[], Sequence[PullSettings]] | None = None

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
        _on_signal(signal.SIGUSR2, self.control.drain)
        # Once it runs, the reactor has a handler of its own for this one: until then the signal waits for it.
        _on_signal(signal.SIGTERM, lambda: signal.raise_signal(signal.SIGTERM))
        try:
            super().privilegedStartService()
        except (CannotListenError, OSError) as error:
            # In the background twistd's parent process says it, and needs the error for that.
            if not self.in_foreground:
                raise
            # The log has taken sys.stderr over; an operator looks at the real one.
            (sys.__stderr__ or sys.stderr).write(f"rtmprelay: {_listen_error(error)}\n")
            raise SystemExit(1) from error

    @override
    def startService(self) -> None:
        super().startService()
        from twisted.internet import reactor

        IReactorCore(reactor).callWhenRunning(self._show_banner)
        IReactorCore(reactor).callWhenRunning(_forget_the_start)

    @override
    def drain(self) -> Deferred[None]:
        """The process ends when nobody is left."""
        from twisted.internet import reactor

        drained = super().drain()
        if not self._ends_when_drained:
            self._ends_when_drained = True
            drained.addCallback(lambda _: IReactorCore(reactor).stop())
        return drained

    def _show_banner(self) -> None:
        http = self.config.http
        page = _place(http.listen, self.http_address)
        media = _place(http.media_listen, self.media_address)
        for line in banner(self.config, self.rtmp_listeners, page, media, own_address()):
            _log.info("{banner}", banner=line)

    def set_log_level(self, level: str) -> None:
        """Log from another level on."""
        if self.observer is not None:
            self.observer.set_level(level)

    def rotate_log(self) -> None:
        """Begin a new log file, if there is one."""
        if self.log_file is not None:
            self.log_file.rotate()

    def reload(self) -> None:
        """Read all files again; one that cannot be used changes nothing."""
        self.reload_destinations()
        self.reload_tokens()
        for warning in self.reload_certificates():
            self._log.error("The certificate stays as it is: {reason}", reason=warning)
        for plugin in (*self.config.authorizers, *self.config.hooks):
            if IReloadable.providedBy(plugin):
                try:
                    plugin.reload()
                except ConfigError as error:
                    self._log.error("What was read before stays: {reason}", reason=str(error))

    def reload_tokens(self) -> None:
        """Read the files of the HTTP tokens again; one that cannot be used changes nothing."""
        if self.http is None or self.reread_tokens is None:
            return
        try:
            self.http.access.set_tokens(*self.reread_tokens())
        except ConfigError as error:
            self._log.error("The tokens stay as they are: {reason}", reason=str(error))

    def reload_destinations(self) -> None:
        """Apply what has changed in the configuration files; a bad file changes nothing."""
        if self.reread is None or self.reread_pulls is None:
            self._log.info("There is no --config and no --relay-config to read again")
            return
        try:
            destinations, pulls = self.reread(), self.reread_pulls()
            changes = self.control.reload(destinations)
            self.control.reload_pulls(pulls)
        except ConfigError as error:
            self._log.error("The destinations stay as they are: {reason}", reason=str(error))
        else:
            self._log.info(
                "Destinations reloaded: added {added}, removed {removed}, changed {changed}",
                added=list(changes.added),
                removed=list(changes.removed),
                changed=list(changes.changed),
            )


def try_destinations(destinations: tuple[DestinationSettings, ...]) -> NoReturn:
    """Try all destinations out, print the report, and exit: with 0 if all of them work."""

    from rtmprelay.destinations.preflight import check_destinations

    async def check(reactor: object) -> None:
        reports = await check_destinations(reactor, destinations)
        for report in reports:
            sys.stdout.write("\n".join(report.lines()) + "\n")
        if not all(report.succeeded for report in reports):
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


def _place(description: str | None, address: IAddress | None) -> tuple[str, str, int] | None:
    """Scheme, host and port of a listener for HTTP; None without one, and for a unix socket."""
    port = getattr(address, "port", None)
    if description is None or port is None:
        return None
    return ("https" if is_tls(description) else "http"), host_of(address), port


def _reread(options: Options, set_level: Callable[[str], None]) -> list[DestinationSettings]:
    """The destinations as the files have them now."""
    applied, waiting = options.reread_settings_file()
    if applied:
        _log.info("Changed in the settings file, and in force now: {options}", options=", ".join(applied))
        set_level(options["log-level"])
    if waiting:
        _log.warn(
            "Changed in the settings file, and in force after a restart: {options}",
            options=", ".join(waiting),
        )
    return options.destinations()


def _listen_error(error: Exception) -> str:
    port = getattr(error, "port", None)
    if isinstance(port, int):
        return why_not_listening(getattr(error, "interface", ""), port, getattr(error, "socketError", None))
    return str(error)


def _check_start(options: Options) -> None:
    """Refuse what cannot be started, while a line about it can still be read."""
    # In the foreground twistd writes it, too.
    pid_file = _of_twistd(options, "pidfile")
    if pid_file:
        check_pid_file(Path(_of_twistd(options, "rundir") or ".") / pid_file)
    check_start(options["config"])


def _tell_background(options: Options) -> None:
    """A start in the background says nothing else, and looks as if nothing had happened."""
    log, pid_file = _of_twistd(options, "logfile") or "twistd.log", _of_twistd(options, "pidfile")
    stop = f" It stops with: kill $(cat {os.path.relpath(pid_file)})" if pid_file else ""
    sys.stderr.write(
        f"rtmprelay starts in the background; its log is {log}.{stop}\n"
        "To have it here: rtmprelay serve, or twistd -n rtmprelay\n"
    )


def makeService(options: Options) -> RelayService:
    """The service that `twistd rtmprelay` runs."""
    if options["check-destinations"]:
        try_destinations(options["config"].destinations)
    try:
        _check_start(options)
    except ConfigError as problems:
        raise SystemExit("\n".join(f"rtmprelay: {line}" for line in str(problems).splitlines())) from None
    _raise_file_limit()
    cluster = options["config"].cluster
    if cluster is not None:
        from rtmprelay.cluster.preflight import check_directory

        try:
            check_directory(cluster.directory, options["config"].node_name)
        except ConfigError as error:
            raise SystemExit(f"rtmprelay: --cluster: {error}") from error
    service = _LoggingRelayService(options["config"])
    service.in_foreground = _in_foreground(options)
    service.reread_tokens = options.http_tokens
    if options["relay-config"] or options.settings_file is not None:
        service.reread = partial(_reread, options, service.set_log_level)
        service.reread_pulls = options.pulls
    if not _of_twistd(options, "syslog") and not _of_twistd(options, "logger"):
        out = _log_file(options)
        service.log_file = out if isinstance(out, LogFile) else None
        service.observer = logs.make_observer(cast(TextIO, out), options["log-level"], options["log-format"])
    if not _in_foreground(options):
        _tell_background(options)
    return service
