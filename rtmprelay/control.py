"""What the HTTP part reads and changes in a relay. Changes may be kept in the configuration file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from twisted.internet.defer import Deferred, DeferredLock, succeed

from rtmprelay.access.refused_addresses import RefusedAddress
from rtmprelay.cluster.status import NO_CLUSTER, cluster_status
from rtmprelay.destinations.config_file import RelayFile, destination_from_entry
from rtmprelay.destinations.editing import edited_settings, shown_settings
from rtmprelay.destinations.manager import Changes, DestinationManager
from rtmprelay.destinations.preflight import CheckReport, DestinationChecks, TooManyChecksError
from rtmprelay.destinations.settings import DestinationSettings, refuse_duplicates
from rtmprelay.destinations.status import DestinationState, DestinationStatus
from rtmprelay.errors import BusyError, ConfigError, ConflictError, NotThereError
from rtmprelay.event_bus import EventBus
from rtmprelay.pulls.config_file import pull_from_entry
from rtmprelay.pulls.manager import PullManager
from rtmprelay.pulls.settings import PullSettings, refuse_duplicate_names
from rtmprelay.pulls.status import PullStatus
from rtmprelay.recording.manager import RecordingManager
from rtmprelay.recording.status import RecordingStatus, RecordingTotals
from rtmprelay.rtmp.server_factory import RtmpServerFactory
from rtmprelay.streams.memory_budget import MemoryBudget
from rtmprelay.streams.registry import StreamRegistry

if TYPE_CHECKING:
    from rtmprelay.cluster.cluster import Cluster

#: Runs something that waits for a disk, outside the reactor's thread.
InThread = Callable[..., Deferred[Any]]


@attrs.define(eq=False)
class RelayControl:
    """Implements `rtmprelay.web.http_service.Relay`.

    Args:
        file: The configuration file, if there is one; destinations in it are `lasting`.
        in_thread: Calls a function in a thread.
        rtmp_ports: Returns the RTMP ports.
    """

    registry: StreamRegistry
    events: EventBus
    _destinations: DestinationManager
    _pulls: PullManager
    _recordings: RecordingManager
    _factory: RtmpServerFactory
    _file: RelayFile | None
    _in_thread: InThread
    memory: MemoryBudget
    _rtmp_ports: Callable[[], Sequence[tuple[str, int]]] = tuple
    _cluster: Cluster | None = None
    _drain: Callable[[], Deferred[None]] = lambda: succeed(None)
    warnings: Sequence[str] = ()
    #: Tries destinations out; None where nothing can be connected to.
    _checks: DestinationChecks | None = None
    #: Each ends the player with a connection's name, for a reason, if it has one.
    player_enders: list[Callable[[str, str], bool]] = attrs.field(factory=list)
    #: Destinations that were added while the server runs and are in no file: `reload` keeps them.
    _added: dict[str, DestinationSettings] = attrs.field(factory=dict)
    #: Destinations that were enabled or disabled while the server runs: what they are now, and what the configuration
    #: said then.
    _switched: dict[str, tuple[bool, bool]] = attrs.field(factory=dict)
    #: Pulls that were added while the server runs: `reload_pulls` keeps them.
    _added_pulls: dict[str, PullSettings] = attrs.field(factory=dict)
    _lock: DeferredLock = attrs.field(factory=DeferredLock)

    # -- status ----------------------------------------------------------------------------------------------

    @property
    def connections(self) -> int:
        return self._factory.connection_count

    @property
    def connections_refused(self) -> int:
        return self._factory.connections_refused

    def refusals_by_limit(self) -> Mapping[str, int]:
        """How many connections and players were refused so far, by the limit that they would have exceeded."""
        return {**self._factory.refused_by_limit, "max_players": self.registry.players_refused}

    def refused_addresses(self) -> Sequence[RefusedAddress]:
        """Addresses that were over a limit for one address in the last minutes."""
        return self._factory.refused_addresses.recent()

    def rtmp_ports(self) -> Sequence[tuple[str, int]]:
        """The RTMP listeners: `rtmp` or `rtmps`, and the port."""
        return self._rtmp_ports()

    @property
    def destination_count(self) -> int:
        return len(self._destinations)

    def destination_statuses(self) -> Iterable[DestinationStatus]:
        """The status of each destination, computed one at a time."""
        return (destination.status() for destination in self._destinations)

    def destination_status(self, name: str) -> DestinationStatus | None:
        return next((one.status() for one in self._destinations if one.name == name), None)

    def destination_bytes(self) -> Mapping[str, int]:
        return {destination.name: destination.bytes_sent for destination in self._destinations}

    def destination_streams(self) -> Mapping[str, Sequence[str]]:
        return {destination.name: destination.streams for destination in self._destinations}

    def is_lasting(self, destination: str) -> bool:
        """Whether a destination is in the configuration file."""
        return self._file is not None and destination in self._file.names

    def cluster_status(self) -> Mapping[str, object]:
        return NO_CLUSTER if self._cluster is None else cluster_status(self._cluster)

    def not_ready_because(self) -> str | None:
        """Why new clients should go elsewhere; None if they are welcome."""
        if self._factory.gate.closed_because is not None:
            return "draining"
        if self._cluster is not None and self._cluster.membership.is_lost:
            error = self._cluster.membership.error or "no answer yet"
            return f"the directory of the cluster is away: {error}"
        return None

    @property
    def pull_count(self) -> int:
        return len(self._pulls)

    def pull_statuses(self) -> Iterable[PullStatus]:
        return self._pulls.statuses()

    def pull_status(self, name: str) -> PullStatus | None:
        return self._pulls.status(name)

    def recording_statuses(self) -> Sequence[RecordingStatus]:
        return self._recordings.statuses()

    def recording_totals(self) -> RecordingTotals:
        return self._recordings.totals()

    # -- changes ---------------------------------------------------------------------------------------------

    def add_destination(self, entry: Mapping[str, object], lasting: bool) -> Deferred[str]:
        """Add a destination, described as in the configuration file; fires with its name."""
        return self._one_at_a_time(self._add, entry, lasting)

    async def _add(self, entry: Mapping[str, object], lasting: bool) -> str:
        settings = destination_from_entry(entry)
        self._refuse_taken(settings)
        if lasting:
            await self._in_thread(self._file_for_changes().add, entry)
            if settings.name in self._destinations:
                # In the meantime a reload found it in the file.
                return settings.name
        self._destinations.add(settings)
        if not lasting:
            self._added[settings.name] = settings
        return settings.name

    def _refuse_taken(self, settings: DestinationSettings) -> None:
        try:
            refuse_duplicates([*(other.settings for other in self._destinations), settings])
        except ConfigError as error:
            raise ConflictError(str(error)) from None

    def _file_for_changes(self) -> RelayFile:
        if self._file is None:
            raise ConfigError(
                "lasting is not possible: the server was started without --relay-config, so there is no file"
                " to write to"
            )
        return self._file

    def remove_destination(self, name: str, lasting: bool) -> Deferred[None]:
        """Remove a destination; its goodbye to the server may take longer than this."""
        return self._one_at_a_time(self._remove, name, lasting)

    async def _remove(self, name: str, lasting: bool) -> None:
        self._refuse_missing(name)
        if lasting:
            await self._in_thread(self._file_for_changes().remove, name)
        if name in self._destinations:
            self._destinations.remove(name)
        self._added.pop(name, None)
        self._switched.pop(name, None)

    def enable_destination(self, name: str, enabled: bool, lasting: bool) -> Deferred[None]:
        return self._one_at_a_time(self._enable, name, enabled, lasting)

    async def _enable(self, name: str, enabled: bool, lasting: bool) -> None:
        self._refuse_missing(name)
        if lasting:
            await self._in_thread(self._file_for_changes().enable, name, enabled)
            self._refuse_missing(name)
        before = self._settings_of(name).enabled
        if name in self._added:
            self._added[name] = attrs.evolve(self._added[name], enabled=enabled)
        elif lasting:
            self._switched.pop(name, None)
        else:
            configured = self._switched.get(name, (before, before))[1]
            self._switched[name] = enabled, configured
        if enabled:
            self._destinations.enable(name)
        else:
            self._destinations.disable(name)

    def destination_settings(self, name: str) -> Mapping[str, object]:
        """The settings of a destination, without its key."""
        self._refuse_missing(name)
        return shown_settings(self._settings_of(name))

    def change_destination(self, name: str, fields: Mapping[str, object], lasting: bool) -> Deferred[None]:
        """Replace some settings of a destination. Its connections stay if they can."""
        return self._one_at_a_time(self._change, name, fields, lasting)

    async def _change(self, name: str, fields: Mapping[str, object], lasting: bool) -> None:
        self._refuse_missing(name)
        settings = edited_settings(self._settings_of(name), fields)
        others = [other.settings for other in self._destinations if other.name != name]
        try:
            refuse_duplicates([*others, settings])
        except ConfigError as error:
            raise ConflictError(str(error)) from None
        if lasting:
            await self._in_thread(self._file_for_changes().update, name, fields)
            self._refuse_missing(name)
        if name in self._added:
            self._added[name] = settings
        self._destinations.change(settings)

    def check_destination(self, name: str) -> Deferred[Sequence[CheckReport]]:
        """Try a destination out: connect, ask to publish, send nothing."""
        self._refuse_missing(name)
        return self._run_check(self._settings_of(name))

    def check_entry(self, entry: Mapping[str, object]) -> Deferred[Sequence[CheckReport]]:
        """Try a destination out that is not there yet, described as in the configuration file."""
        return self._run_check(destination_from_entry(entry))

    def _run_check(self, settings: DestinationSettings) -> Deferred[Sequence[CheckReport]]:
        checks = self._checks
        if checks is None:
            raise ConfigError("nothing can be tried here")
        self._refuse_connected(settings)

        async def run() -> Sequence[CheckReport]:
            try:
                return await checks.run(settings)
            except TooManyChecksError as error:
                raise BusyError(str(error)) from None

        return Deferred.fromCoroutine(run())

    def _refuse_connected(self, settings: DestinationSettings) -> None:
        """A second publish with the same key would end the broadcast on most servers."""
        if not settings.url.key or "{" in settings.url.key.reveal():
            return
        connected = (DestinationState.CONNECTING, DestinationState.CONNECTED)
        for other in self._destinations:
            used = {url.identity for url in other.settings.addresses}
            same = any(url.identity in used for url in settings.addresses)
            if same and any(outlet.state in connected for outlet in other.status().outlets):
                raise ConflictError(
                    f"{other.name!r} is sending with this key now: trying it out could end the broadcast"
                )

    def reconnect_destination(self, name: str) -> None:
        """End the connections of a destination, or its waiting for the next attempt, and connect now."""
        self._refuse_missing(name)
        self._destinations.reconnect(name)

    def drain(self) -> None:
        """Accept no new clients, and disconnect the others little by little."""
        self._drain()

    def add_pull(self, entry: Mapping[str, object]) -> str:
        """Add a pull, described as in the configuration file; returns its name. It is forgotten when the server stops."""
        settings = pull_from_entry(entry)
        if settings.name in self._pulls:
            raise ConflictError(f"there is a pull called {settings.name!r} already")
        self._pulls.add(settings)
        self._added_pulls[settings.name] = settings
        return settings.name

    def remove_pull(self, name: str) -> None:
        """Remove a pull, and end what it fetches."""
        if name not in self._pulls:
            raise NotThereError("there is no pull of this name: /pulls lists them all")
        self._pulls.remove(name)
        self._added_pulls.pop(name, None)

    def end_publish(self, key: str) -> None:
        """Disconnect the publisher of a stream."""
        stream = self.registry.get(key)
        if stream is None or stream.publisher is None:
            raise NotThereError("nobody publishes this stream now: /streams lists them all")
        stream.publisher.publish_ended("ended by the operator of this server")

    def end_play(self, connection: str) -> None:
        """Disconnect a player, over RTMP or HTTP."""
        if not any(end(connection, "ended by the operator of this server") for end in self.player_enders):
            raise NotThereError(
                "there is no player with this connection now: events name them in 'connection'"
            )

    def start_recording(self, key: str) -> None:
        """Record a live stream from now on, and each time it is published."""
        stream = self.registry.get(key)
        if stream is None or stream.publisher is None:
            raise NotThereError("nobody publishes this stream now: /streams lists them all")
        self._recordings.record(key)

    def stop_recording(self, key: str) -> None:
        """Complete the recording of a stream now, and begin no other one by yourself."""
        if not any(status.stream == key for status in self._recordings.statuses()):
            raise NotThereError("this stream is not being recorded: /recordings lists what is")
        self._recordings.stop_recording(key)

    def _refuse_missing(self, name: str) -> None:
        if name not in self._destinations:
            raise NotThereError("there is no destination of this name: /destinations lists them all")

    def _settings_of(self, name: str) -> DestinationSettings:
        return next(one.settings for one in self._destinations if one.name == name)

    def _one_at_a_time(self, change: Callable[..., Any], *arguments: object) -> Deferred[Any]:
        """Make changes one after the other: two at once could both write the file, or both find the same name free."""
        return self._lock.run(lambda: Deferred.fromCoroutine(change(*arguments)))

    # -- reload ----------------------------------------------------------------------------------------------

    def reload(self, configured: Iterable[DestinationSettings]) -> Changes:
        """Apply a new configuration. Destinations that were added, enabled or disabled over HTTP stay so."""
        configured = list(configured)
        # Until the configuration itself changes `enabled`.
        switched = {
            settings.name: self._switched[settings.name]
            for settings in configured
            if settings.name in self._switched and self._switched[settings.name][1] == settings.enabled
        }
        wanted = [
            attrs.evolve(settings, enabled=switched[settings.name][0])
            if settings.name in switched
            else settings
            for settings in configured
        ]
        added = [settings for settings in self._added.values() if _goes_with(settings, wanted)]
        changes = self._destinations.apply([*wanted, *added])
        self._added = {settings.name: settings for settings in added}
        self._switched = switched
        if self._file is not None:
            self._file.reread_names()
        return changes

    def reload_pulls(self, configured: Iterable[PullSettings]) -> None:
        """Apply the pulls of a new configuration. Those that were added over HTTP stay."""
        configured = refuse_duplicate_names(configured)
        names = {one.name for one in configured}
        self._added_pulls = {name: one for name, one in self._added_pulls.items() if name not in names}
        self._pulls.apply([*configured, *self._added_pulls.values()])


def _goes_with(settings: DestinationSettings, others: list[DestinationSettings]) -> bool:
    try:
        refuse_duplicates([*others, settings])
    except ConfigError:
        return False
    return True


def at_once(function: Callable[..., Any], *arguments: object) -> Deferred[Any]:
    """An `InThread` for a reactor without threads, such as a test's clock."""
    return succeed(function(*arguments))
