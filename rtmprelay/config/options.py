"""The options of the command: what an operator wrote, checked, as one configuration."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import attrs
from twisted.internet.endpoints import serverFromString
from twisted.python.usage import Options as UsageOptions
from twisted.python.usage import UsageError
from typing_extensions import override

from rtmprelay import __version__, logs
from rtmprelay.config import relay as config
from rtmprelay.config.limits import limits_help, with_limits
from rtmprelay.config.plugins import make_authorizer, make_event_sink, plugins_help
from rtmprelay.destinations.config_file import destination_from_url, read_relay_config
from rtmprelay.destinations.manager import refuse_duplicates
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.errors import ConfigError
from rtmprelay.event_log.settings import SMALLEST_FILE, EventLogSettings
from rtmprelay.quantities import read_duration, read_size
from rtmprelay.recording.settings import SHORTEST_SEGMENT, SMALLEST_SEGMENT, RecordingSettings, check_folder
from rtmprelay.web.settings import HttpSettings, read_origin, read_token, token_from
from rtmprelay.wire.limits import LARGEST_OUTGOING_CHUNK_SIZE

#: Files are deleted after this many seconds at the earliest: `30ms` is a slip of the pen for `30m`.
SHORTEST_KEPT = 1.0


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
            segment_duration=self._optional(
                "segment-duration", lambda text: read_duration(text, SHORTEST_SEGMENT)
            ),
            segment_size=self._optional("segment-size", lambda text: read_size(text, SMALLEST_SEGMENT)),
            keep=self._optional("keep-recordings", lambda text: read_duration(text, SHORTEST_KEPT)),
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
            keep=self._optional("keep-event-log", lambda text: read_duration(text, SHORTEST_KEPT)),
        )
        size = self._optional("event-log-size", lambda text: read_size(text, SMALLEST_FILE))
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
