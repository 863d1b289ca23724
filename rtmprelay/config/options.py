"""The options of `twistd rtmprelay`, checked and turned into one `RelayConfig`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import attrs
from twisted.python.usage import UsageError
from typing_extensions import override

from rtmprelay import __version__, logs
from rtmprelay.access.guessing import read_ban
from rtmprelay.addresses import read_proxies
from rtmprelay.config import hls as hls_options
from rtmprelay.config import relay as config
from rtmprelay.config.effects import options_without_effect, read_stream_glob
from rtmprelay.config.first_start import command_line_warnings
from rtmprelay.config.limits import limits_help, with_limits
from rtmprelay.config.nodes import cluster_settings, node_name, read_all_pulls
from rtmprelay.config.option_table import FLAGS, PARAMETERS
from rtmprelay.config.parsing import OptionsOrFile
from rtmprelay.config.plugins import make_authorizer, make_event_sink, plugins_help
from rtmprelay.destinations.config_file import read_relay_config
from rtmprelay.destinations.settings import DestinationSettings, destination_from_url, refuse_duplicates
from rtmprelay.drain import QUIET
from rtmprelay.errors import ConfigError
from rtmprelay.event_log.settings import SMALLEST_FILE, EventLogSettings
from rtmprelay.files.disk import check_folder
from rtmprelay.files.free_space import DEFAULT_KEEP_FREE, read_keep_free
from rtmprelay.hls.variant_groups import VariantGroup
from rtmprelay.outputs.hls.settings import (
    SHORTEST_WINDOW,
    HlsSettings,
    check_memory,
    read_part,
    read_segment,
)
from rtmprelay.pulls.settings import PullSettings
from rtmprelay.quantities import quoted, read_duration, read_size
from rtmprelay.recording.settings import SHORTEST_SEGMENT, SMALLEST_SEGMENT, RecordingSettings
from rtmprelay.secret import Secret
from rtmprelay.web.settings import HttpSettings, read_origin, read_token, token_from

#: Seconds of media: a recording with less is somebody's attempt.
SHORTEST_RECORDING = 1.0

_T = TypeVar("_T")

#: Files are kept for at least this many seconds: `30ms` is a typing error for `30m`.
SHORTEST_KEPT = 1.0


class Options(OptionsOrFile):
    repeatable = (
        "listen",
        "relay-to",
        "pull",
        "record",
        "app-quota",
        "auth",
        "hook",
        "limit",
        "http-cors",
        "trusted-proxy",
        "hls",
        "hls-variants",
    )

    changeable = ("relay-to", "relay-config", "pull", "http-token", "http-read-token", "log-level")

    synopsis = "[--listen ENDPOINT ...] [--relay-to URL ...] [options]"

    longdesc = (
        "An RTMP server and relay. Encoders publish to rtmp://HOST/APP/NAME, players play from there, and every"
        " destination gets the stream too. URL is rtmp[s]://HOST/APP/KEY, or rtmp[s]://HOST/APP to publish there"
        " under the stream's own name. ENDPOINT is a Twisted endpoint description (tcp:1935,"
        " ssl:443:privateKey=KEY:certKey=CERT, unix:PATH, systemd:domain=INET:index=0, haproxy:tcp:1935) or a short"
        " form: 1935, :1935, HOST:1935. TIME is 90s, 30m, 12h or 7d; SIZE is 64M or 100G; GLOB matches"
        " APP/NAME, such as 'live/*'. The log options apply to rtmprelay serve and twistd; twist has its own."
    )

    optParameters = PARAMETERS
    optFlags = FLAGS

    def opt_listen(self, endpoint: str) -> None:
        """An endpoint to listen on; may be given several times. Default: tcp:1935"""
        self["listen"].append(endpoint)

    def opt_relay_to(self, url: str) -> None:
        """A destination for all streams; may be given several times."""
        self["relay-to"].append(url)

    def opt_pull(self, rule: str) -> None:
        """Fetch the streams whose APP/NAME matches from another server while somebody watches them here, as GLOB=URL; may be given several times."""
        self["pull"].append(rule)

    def opt_record(self, glob: str) -> None:
        """Record the streams whose APP/NAME matches, such as live/*; may be given several times."""
        self["record"].append(glob)

    def opt_app_quota(self, quota: str) -> None:
        """Delete the oldest recordings of an app when its own are larger than this, as APP=SIZE; may be given several times."""
        self["app-quota"].append(quota)

    def opt_hls(self, glob: str) -> None:
        """Let the streams whose APP/NAME matches, such as '*' or live/*, be watched as HLS; may be given several times."""
        self["hls"].append(glob)

    def opt_hls_variants(self, pattern: str) -> None:
        """Streams under several names that are variants of one, such as 'live/*_{low,mid,high}': live/NAME/index.m3u8 has them all; may be given several times."""
        self["hls-variants"].append(pattern)

    def opt_http_cors(self, origin: str) -> None:
        """A web origin whose pages may read status and media, such as https://example.org, or *; may be given several times."""
        self["http-cors"].append(origin)

    def opt_trusted_proxy(self, network: str) -> None:
        """A network of proxies, such as 10.0.0.0/8, whose X-Forwarded-For says who an HTTP client is; may be given several times."""
        self["trusted-proxy"].append(network)

    def opt_auth(self, specification: str) -> None:
        """A plugin that decides who may publish and play, as PLUGIN:ARGUMENT; may be given several times, and all must allow it."""
        self["auth"].append(specification)

    def opt_hook(self, specification: str) -> None:
        """A plugin that gets every event, as PLUGIN:ARGUMENT; may be given several times."""
        self["hook"].append(specification)

    def opt_limit(self, limit: str) -> None:
        """Change a limit, as NAME=VALUE; may be given several times. --help-limits lists the limits."""
        self["limit"].append(limit)

    def opt_help_limits(self) -> None:
        """Print the limits and their values, and exit."""
        sys.stdout.write(limits_help())
        raise SystemExit(0)

    def opt_help_plugins(self) -> None:
        """Print the plugins for --auth and --hook, and exit."""
        sys.stdout.write(plugins_help())
        raise SystemExit(0)

    def opt_version(self) -> None:
        """Print the version and exit."""
        sys.stdout.write(f"rtmprelay {__version__}\n")
        raise SystemExit(0)

    @override
    def postOptions(self) -> None:
        self._one_of("log-level", logs.LEVELS)
        self._one_of("log-format", logs.FORMATS)
        endpoints = self["listen"] or [config.DEFAULT_LISTEN]
        relay = config.RelayConfig(
            listen=tuple(self._checked("listen", one, config.usable_listener) for one in endpoints),
            chunk_size=self._checked("chunk-size", str(self["chunk-size"]), config.chunk_size),
            merge_window=self._checked("merge-window", self["merge-window"], config.merge_window),
            destinations=self._initial_destinations(),
            pulls=self._initial(self.pulls),
            node_name=node_name(self),
            cluster=cluster_settings(self),
            drain_for=self._checked(
                "drain-for", self["drain-for"], lambda text: read_duration(text, least=QUIET)
            ),
            recording=self.recording(),
            http=self.http(),
            hls=self.hls(),
            relay_config=self["relay-config"],
            ban=self._optional("ban", read_ban),
            recheck=self._optional("recheck", lambda text: read_duration(text, 1.0)),
            open=bool(self["open"]),
            warnings=command_line_warnings(self, self.given(self._arguments)),
            event_log=self.event_log(),
            authorizers=self._plugins("auth", make_authorizer),
            hooks=self._plugins("hook", make_event_sink),
        )
        try:
            self["config"] = with_limits(relay, self["limit"])
        except ConfigError as error:
            raise UsageError(f"--limit: {error}") from error
        try:
            check_memory(self["config"].hls, self["config"].hls_limits)
        except ConfigError as error:
            raise UsageError(f"--hls-window: {error}") from error
        # Last: what is wrong with a value is said first.
        for mistake in options_without_effect(self, self.all_given()):
            raise UsageError(mistake)

    @staticmethod
    def _initial(read: Callable[[], _T]) -> _T:
        try:
            return read()
        except ConfigError as error:
            raise UsageError(str(error)) from error

    def _initial_destinations(self) -> tuple[DestinationSettings, ...]:
        destinations = self._initial(self.destinations)
        if self["check-destinations"] and not any(one.enabled for one in destinations):
            raise UsageError(
                "--check-destinations: there are no enabled destinations; give --relay-to or --relay-config"
            )
        return tuple(destinations)

    def pulls(self) -> tuple[PullSettings, ...]:
        """The pulls of the configuration file and of the command line. Each call reads the file again.

        Raises:
            ConfigError: Its message does not contain keys.
        """
        return read_all_pulls(self["relay-config"], self["pull"])

    def destinations(self) -> list[DestinationSettings]:
        """The destinations of the configuration file and of the command line. Each call reads the file again.

        Raises:
            ConfigError: Its message does not contain stream keys.
        """
        destinations: list[DestinationSettings] = []
        if self.settings_file is not None:
            destinations += self.settings_file.destinations
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

    def http(self) -> HttpSettings:
        """What is served over HTTP, and who may ask for it."""
        listen = self._optional("http-status", config.usable_http_listener)
        media_listen = self._optional("http-media", config.usable_listener)
        try:
            token, read_token_ = self.http_tokens()
        except ConfigError as error:
            raise UsageError(str(error)) from error
        for option in ("http-token", "http-read-token"):
            if listen is None and self[option] is not None:
                raise UsageError(f"--{option} needs --http-status, which says where to listen")
        if listen is None and media_listen is None and self["http-cors"]:
            raise UsageError("--http-cors needs --http-status or --http-media, which say where to listen")
        cors = tuple(self._checked("http-cors", origin, read_origin) for origin in self["http-cors"])
        try:
            proxies = read_proxies(self["trusted-proxy"])
        except ConfigError as error:
            raise UsageError(f"--trusted-proxy: {error}") from error
        recordings = bool(self["http-recordings"])
        if recordings and listen is None and media_listen is None:
            raise UsageError(
                "--http-recordings needs --http-status or --http-media, which say where to listen"
            )
        return HttpSettings(
            listen=listen,
            media_listen=media_listen,
            token=token if listen is not None else None,
            read_token=read_token_,
            cors=cors,
            trusted_proxies=proxies,
            recordings=recordings,
        )

    def http_tokens(self) -> tuple[Secret | None, Secret | None]:
        """The tokens for changes and for reading. Each call reads their files again.

        Raises:
            ConfigError: One of them cannot be used; the message does not contain it.
        """
        tokens: list[Secret | None] = []
        for option in ("http-token", "http-read-token"):
            try:
                tokens.append(None if self[option] is None else read_token(self[option]))
            except ConfigError as error:
                raise ConfigError(f"--{option}: {error}") from None
        control, reading = tokens
        return (control or token_from() if self["http-status"] else control), reading

    def hls(self) -> HlsSettings:
        """Which streams can be watched as HLS, and how."""
        if self["hls"] and not (self["http-status"] or self["http-media"]):
            raise UsageError("--hls needs --http-media or --http-status, which say where viewers are served")
        return HlsSettings(
            match=tuple(self._checked("hls", one, read_stream_glob) for one in self["hls"]),
            part=self._checked("hls-part", self["hls-part"], read_part),
            segment=self._checked("hls-segment", self["hls-segment"], read_segment),
            window=self._checked(
                "hls-window", self["hls-window"], lambda text: read_duration(text, SHORTEST_WINDOW)
            ),
            folder=self._optional("hls-dir", check_folder),
            anonymous=bool(self["hls-anonymous"]),
            sign_key=self._optional("hls-sign-key", hls_options.read_sign_key),
            variants=tuple(
                self._checked("hls-variants", one, VariantGroup.read) for one in self["hls-variants"]
            ),
        )

    def recording(self) -> RecordingSettings:
        """Which streams are recorded, where to, and how long recordings are kept."""
        recording = RecordingSettings(
            record_all=bool(self["record-all"]),
            match=tuple(self._checked("record", one, read_stream_glob) for one in self["record"]),
            folder=Path(self["record-dir"]),
            segment_duration=self._optional(
                "segment-duration", lambda text: read_duration(text, SHORTEST_SEGMENT)
            ),
            segment_size=self._optional("segment-size", lambda text: read_size(text, SMALLEST_SEGMENT)),
            keep=self._optional("keep-recordings", lambda text: read_duration(text, SHORTEST_KEPT)),
            max_total_size=self._optional("max-recordings-size", read_size),
            app_quotas=dict(self._checked("app-quota", text, _app_quota) for text in self["app-quota"]),
            keep_free=self._optional("keep-free", read_keep_free) or DEFAULT_KEEP_FREE,
            shortest=SHORTEST_RECORDING,
        )
        if recording.record_all or recording.match:
            self._checked("record-dir", self["record-dir"], check_folder)
        return recording

    def event_log(self) -> EventLogSettings:
        """Where events are written to, and how long they are kept."""
        settings = EventLogSettings(
            folder=self._optional("event-log", check_folder),
            gzip=bool(self["event-log-gzip"]),
            keep=self._optional("keep-event-log", lambda text: read_duration(text, SHORTEST_KEPT)),
        )
        size = self._optional("event-log-size", lambda text: read_size(text, SMALLEST_FILE))
        for option in ("event-log-gzip", "keep-event-log", "event-log-size", "max-event-log-size"):
            if self[option] and settings.folder is None:
                raise UsageError(f"--{option}: there is no event log; give --event-log")
        if size is not None:
            settings = attrs.evolve(settings, max_file_size=size)
        if self["max-event-log-size"] is not None:
            most = self._optional(
                "max-event-log-size", lambda text: None if text == "none" else read_size(text)
            )
            settings = attrs.evolve(settings, max_total_size=most)
        return settings

    def _plugins(self, option: str, make: Callable[[str, object], Any]) -> tuple[Any, ...]:
        from twisted.internet import reactor

        if not self.makes_plugins:
            return ()
        return tuple(
            self._checked(option, specification, lambda text: make(text, reactor))
            for specification in self[option]
        )

    def _optional(self, option: str, read: Callable[[str], Any]) -> Any:
        return None if self[option] is None else self._checked(option, self[option], read)

    @staticmethod
    def _checked(option: str, text: str, read: Callable[[str], Any]) -> Any:
        try:
            return read(text)
        except ConfigError as error:
            raise UsageError(f"--{option}: {error}") from error

    def _one_of(self, option: str, choices: Collection[str]) -> None:
        if self[option] not in choices:
            raise UsageError(f"--{option}: {self[option]!r} is not one of {', '.join(choices)}")


def _app_quota(text: str) -> tuple[str, int]:
    app, equals, size = text.rpartition("=")
    if not equals:
        raise ConfigError(f"{quoted(text)} is not an app and a size such as live=50G")
    return app, read_size(size)
