"""The documents about the state of the relay."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from rtmprelay import __version__
from rtmprelay.streams.memory_budget import MemoryBudget
from rtmprelay.streams.registry import StreamRegistry
from rtmprelay.web.api.machine_use import MachineUse
from rtmprelay.web.api.players import players_pieces, stream_in_query
from rtmprelay.web.api.sampling import RateSampler
from rtmprelay.web.api.shapes import (
    Json,
    Now,
    destination_json,
    health_json,
    memory_json,
    pull_json,
    pulls_health_json,
    recording_json,
    refused_address_json,
    stream_json,
)
from rtmprelay.web.server.request import RelayRequest
from rtmprelay.web.server.responses import (
    API_VERSION,
    Response,
    entry_pieces,
    iso_time,
    list_pieces,
    object_pieces,
    small_fields,
)
from rtmprelay.web.server.scheduling import CachedDocument, HttpScheduler

if TYPE_CHECKING:
    from rtmprelay.access.refused_addresses import RefusedAddress
    from rtmprelay.destinations.status import DestinationStatus
    from rtmprelay.pulls.status import PullStatus
    from rtmprelay.recording.status import RecordingStatus, RecordingTotals

#: Seconds for which a document may be sent again, unless something happens in the meantime.
_MAX_AGE = 0.25


class RelayView(Protocol):
    """What the HTTP part reads of the relay."""

    @property
    def registry(self) -> StreamRegistry: ...

    @property
    def connections(self) -> int: ...

    @property
    def connections_refused(self) -> int: ...

    def refusals_by_limit(self) -> Mapping[str, int]:
        """How many connections and players were refused so far, by the limit they would have exceeded."""

    def refused_addresses(self) -> Sequence[RefusedAddress]:
        """Addresses that exceeded a limit for one address in the last minutes."""

    @property
    def warnings(self) -> Sequence[str]:
        """What the operator should know about how the server was started."""

    @property
    def memory(self) -> MemoryBudget: ...

    @property
    def destination_count(self) -> int: ...

    def destination_statuses(self) -> Iterable[DestinationStatus]:
        """The status of each destination, computed one by one."""

    def destination_status(self, name: str) -> DestinationStatus | None:
        """The status of one destination; None if there is none of this name."""

    def destination_bytes(self) -> Mapping[str, int]:
        """The bytes sent to each destination. Called once a second, so it computes nothing else."""

    def destination_streams(self) -> Mapping[str, Sequence[str]]: ...

    def cluster_status(self) -> Mapping[str, object]:
        """The nodes of the cluster and where its streams are; nothing without one."""

    def not_ready_because(self) -> str | None:
        """Why new clients should go elsewhere; None if they are welcome."""

    def pull_statuses(self) -> Iterable[PullStatus]: ...

    def pull_status(self, name: str) -> PullStatus | None:
        """The status of one pull; None if there is none of this name."""

    def is_lasting(self, destination: str) -> bool:
        """Whether a destination is in the configuration file."""

    def rtmp_ports(self) -> Sequence[tuple[str, int]]:
        """The RTMP listeners: `rtmp` or `rtmps`, and the port."""

    def recording_statuses(self) -> Sequence[RecordingStatus]: ...

    def recording_totals(self) -> RecordingTotals: ...


class StatusDocuments:
    """Generates the documents, each at most four times a second.

    Args:
        is_hls: Whether the stream with this key can be watched as HLS.
        machine: What the process uses, and how full its disks are.
    """

    def __init__(
        self,
        relay: RelayView,
        sampler: RateSampler,
        scheduler: HttpScheduler,
        clock: IReactorTime,
        wall_clock: Callable[[], float] = time.time,
        is_hls: Callable[[str], bool] = lambda _: False,
        machine: MachineUse | None = None,
    ) -> None:
        self._relay = relay
        self._is_hls = is_hls
        self._machine = machine or MachineUse(clock)
        self._sampler = sampler
        self._scheduler = scheduler
        self._clock = clock
        self._wall_clock = wall_clock
        self._began = clock.seconds()
        self._changes = 0

        def document(generate: Callable[[], Iterator[bytes]]) -> CachedDocument:
            return CachedDocument(generate, scheduler, clock, _MAX_AGE, lambda: self._changes)

        self._health = document(self._health_pieces)
        self._streams = document(self._streams_pieces)
        self._destinations = document(self._destinations_pieces)
        self._pulls = document(self._pulls_pieces)
        self._recordings = document(self._recordings_pieces)
        self._everything = document(self._everything_pieces)

    def invalidate(self) -> None:
        """Something changed: documents generated before are out of date."""
        self._changes += 1

    def restart(self) -> None:
        """The service starts, or starts again."""
        self._began = self._clock.seconds()
        self.invalidate()

    @property
    def uptime(self) -> float:
        """Seconds since the service started."""
        return self._clock.seconds() - self._began

    def rtmp_ports(self) -> list[Json]:
        return [{"scheme": scheme, "port": port} for scheme, port in self._relay.rtmp_ports()]

    # -- documents -------------------------------------------------------------------------------------------

    def health(self) -> Deferred[bytes]:
        return self._health.get()

    def streams(self) -> Deferred[bytes]:
        return self._streams.get()

    def destinations(self) -> Deferred[bytes]:
        return self._destinations.get()

    def pulls(self) -> Deferred[bytes]:
        return self._pulls.get()

    def recordings(self) -> Deferred[bytes]:
        return self._recordings.get()

    def recordings_with(self, files: Iterable[bytes]) -> Deferred[bytes]:
        """The same with the files in the folder, as pieces of JSON."""
        return self._scheduler.collect(self._recordings_pieces(files)).addCallback(b"".join)

    def players(self, request: RelayRequest) -> Deferred[Response]:
        """Who watches a stream, or any."""
        now = self._now()
        pieces = players_pieces(self._relay.registry, now, _head(now), stream_in_query(request))
        return self._scheduler.collect(pieces).addCallback(lambda made: Response(b"".join(made)))

    def everything(self) -> Deferred[bytes]:
        """What the dashboard shows: health, streams and destinations."""
        return self._everything.get()

    def stream(self, key: str) -> Json | None:
        """One stream; None if there is none with this key."""
        stream = self._relay.registry.get(key)
        return None if stream is None else dict(self._stream_entries(self._now(), key))[key]

    def destination(self, name: str) -> Json | None:
        """One destination; None if there is none of this name."""
        status = self._relay.destination_status(name)
        return None if status is None else self._destination(status, self._now())

    def cluster(self) -> Json:
        return dict(self._relay.cluster_status())

    def not_ready_because(self) -> str | None:
        return self._relay.not_ready_because()

    def pull(self, name: str) -> Json | None:
        """One pull; None if there is none of this name."""
        status = self._relay.pull_status(name)
        return None if status is None else pull_json(status, self._now())

    # -- generating them -------------------------------------------------------------------------------------

    def _now(self) -> Now:
        return Now(self._wall_clock(), self._clock.seconds())

    def _streams_pieces(self) -> Iterator[bytes]:
        now = self._now()
        yield from object_pieces([*_head(now), ("streams", entry_pieces(self._stream_entries(now)))])
        yield b"\n"

    def _destinations_pieces(self) -> Iterator[bytes]:
        now = self._now()
        entries = (
            (status.name, self._destination(status, now)) for status in self._relay.destination_statuses()
        )
        yield from object_pieces([*_head(now), ("destinations", entry_pieces(entries))])
        yield b"\n"

    def _pulls_pieces(self) -> Iterator[bytes]:
        now = self._now()
        yield from object_pieces([*_head(now), ("pulls", entry_pieces(self._pull_entries(now)))])
        yield b"\n"

    def _pull_entries(self, now: Now) -> Iterator[tuple[str, Json]]:
        return ((status.name, pull_json(status, now)) for status in self._relay.pull_statuses())

    def _recordings_pieces(self, files: Iterable[bytes] = (b"null",)) -> Iterator[bytes]:
        recordings = list_pieces(recording_json(status) for status in self._relay.recording_statuses())
        yield from object_pieces([*_head(self._now()), ("recordings", recordings), ("files", files)])
        yield b"\n"

    def _health_pieces(self) -> Iterator[bytes]:
        now = self._now()
        statuses = []
        for status in self._relay.destination_statuses():
            statuses.append(status)
            # Computing a status takes time, too: let the scheduler stop here.
            yield b""
        yield from object_pieces(
            small_fields({"api_version": API_VERSION, **self._health_fields(now, statuses)})
        )
        yield b"\n"

    def _everything_pieces(self) -> Iterator[bytes]:
        now = self._now()
        statuses: list[DestinationStatus] = []

        def destinations() -> Iterator[tuple[str, Json]]:
            for status in self._relay.destination_statuses():
                statuses.append(status)
                yield status.name, self._destination(status, now)

        yield b'{"destinations":'
        yield from entry_pieces(destinations())
        yield b',"pulls":'
        yield from entry_pieces(self._pull_entries(now))
        yield b',"streams":'
        yield from entry_pieces(self._stream_entries(now))
        for name, value in small_fields(
            {
                "last_updated": iso_time(now.wall),
                "cluster": self.cluster(),
                "health": self._health_fields(now, statuses),
            }
        ):
            yield b',"%s":%s' % (name.encode(), *value)
        yield b"}"

    def _stream_entries(self, now: Now, only: str | None = None) -> Iterator[tuple[str, Json]]:
        recordings: dict[str, RecordingStatus] = {
            status.stream: status for status in self._relay.recording_statuses()
        }
        destinations: dict[str, list[str]] = {}
        for name, keys in self._relay.destination_streams().items():
            for key in keys:
                destinations.setdefault(key, []).append(name)
        for stream in self._relay.registry:
            key = stream.key
            if only is None or key == only:
                rates = self._sampler.stream_rates(key)
                recording, names = recordings.get(key), destinations.get(key, [])
                yield key, stream_json(stream, now, rates, recording, names, self._is_hls(key))

    def _destination(self, status: DestinationStatus, now: Now) -> Json:
        kbps = self._sampler.destination_kbps(status.name)
        return destination_json(status, now, kbps, self._relay.is_lasting(status.name))

    def _health_fields(self, now: Now, statuses: Sequence[DestinationStatus]) -> Json:
        streams = list(self._relay.registry)
        return {
            "status": "ok",
            "ready": self.not_ready_because() is None,
            "not_ready_because": self.not_ready_because(),
            "version": __version__,
            "uptime": round(self.uptime, 3),
            "last_updated": iso_time(now.wall),
            "streams": sum(stream.publisher is not None for stream in streams),
            "players": sum(1 for stream in streams for _ in stream.players),
            "warnings": list(self._relay.warnings),
            "memory": memory_json(self._relay.memory),
            "machine": self._machine.fields(),
            "refused_addresses": [
                refused_address_json(refused, now) for refused in self._relay.refused_addresses()
            ],
            **health_json(statuses, now),
            **pulls_health_json(list(self._relay.pull_statuses())),
        }


def _head(now: Now) -> Iterator[tuple[str, list[bytes]]]:
    return small_fields({"api_version": API_VERSION, "last_updated": iso_time(now.wall)})
