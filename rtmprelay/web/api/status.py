"""The documents that tell how the relay is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from rtmprelay import __version__
from rtmprelay.streams.audience import players
from rtmprelay.web.api.documents import Document, each, listed, object_pieces, plain
from rtmprelay.web.api.sampling import RateSampler
from rtmprelay.web.api.shapes import Json, Now, destination_json, health_json, recording_json, stream_json
from rtmprelay.web.relay_view import Relay
from rtmprelay.web.server.answers import API_VERSION, iso_time
from rtmprelay.web.server.turns import Turns

if TYPE_CHECKING:
    from rtmprelay.recording.status import RecordingStatus

#: Seconds for which a document is good enough for the next one who asks, unless something happened meanwhile.
_FRESH = 0.25


class StatusDocuments:
    """Makes the documents."""

    def __init__(
        self,
        relay: Relay,
        sampler: RateSampler,
        turns: Turns,
        clock: IReactorTime,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._relay = relay
        self._sampler = sampler
        self._clock = clock
        self._wall_clock = wall_clock
        self._began = clock.seconds()
        self._changes = 0

        def document(make: Callable[[], Iterator[bytes]]) -> Document:
            return Document(make, turns, clock, _FRESH, lambda: self._changes)

        self._health = document(self._health_pieces)
        self._streams = document(self._streams_pieces)
        self._destinations = document(self._destinations_pieces)
        self._recordings = document(self._recordings_pieces)
        self._everything = document(self._everything_pieces)

    def changed(self) -> None:
        """Something happened: what was made before is old."""
        self._changes += 1

    def restart(self) -> None:
        """The service begins, again."""
        self._began = self._clock.seconds()
        self.changed()

    @property
    def uptime(self) -> float:
        """Seconds since the service began."""
        return self._clock.seconds() - self._began

    def rtmp_ports(self) -> list[Json]:
        """Where RTMP is spoken."""
        return [{"scheme": scheme, "port": port} for scheme, port in self._relay.rtmp_ports()]

    # -- documents -------------------------------------------------------------------------------------------

    def health(self) -> Deferred[bytes]:
        """How everything is, in numbers."""
        return self._health.get()

    def streams(self) -> Deferred[bytes]:
        """All streams."""
        return self._streams.get()

    def destinations(self) -> Deferred[bytes]:
        """All destinations."""
        return self._destinations.get()

    def recordings(self) -> Deferred[bytes]:
        """All recordings."""
        return self._recordings.get()

    def everything(self) -> Deferred[bytes]:
        """What the dashboard shows."""
        return self._everything.get()

    def stream(self, key: str) -> Json | None:
        """One stream, if there is one of this key."""
        stream = self._relay.registry.get(key)
        return None if stream is None else dict(self._stream_entries(self._now(), key))[key]

    def destination(self, name: str) -> Json | None:
        """One destination, if there is one of this name."""
        status = self._relay.destination_status(name)
        if status is None:
            return None
        kbps, lasting = self._sampler.destination_kbps(name), self._relay.is_lasting(name)
        return destination_json(status, self._now(), kbps, lasting)

    # -- what they are made of -------------------------------------------------------------------------------

    def _now(self) -> Now:
        return Now(self._wall_clock(), self._clock.seconds())

    def _streams_pieces(self) -> Iterator[bytes]:
        now = self._now()
        yield from object_pieces([*_head(now), ("streams", each(self._stream_entries(now)))])
        yield b"\n"

    def _destinations_pieces(self) -> Iterator[bytes]:
        now = self._now()
        yield from object_pieces([*_head(now), ("destinations", each(self._destination_entries(now)))])
        yield b"\n"

    def _recordings_pieces(self) -> Iterator[bytes]:
        statuses = self._relay.recording_statuses()
        recordings = listed(recording_json(status) for status in statuses)
        yield from object_pieces([*_head(self._now()), ("recordings", recordings)])
        yield b"\n"

    def _health_pieces(self) -> Iterator[bytes]:
        now = self._now()
        destinations: dict[str, Json] = {}
        for name, shown in self._destination_entries(now):
            destinations[name] = shown
            yield b""
        yield from object_pieces(
            plain({"api_version": API_VERSION, **self._health_fields(now, destinations)})
        )
        yield b"\n"

    def _everything_pieces(self) -> Iterator[bytes]:
        now = self._now()
        destinations: dict[str, Json] = {}

        def noted() -> Iterator[tuple[str, Json]]:
            for name, shown in self._destination_entries(now):
                destinations[name] = shown
                yield name, shown

        yield b'{"destinations":'
        yield from each(noted())
        yield b',"streams":'
        yield from each(self._stream_entries(now))
        for name, value in plain(
            {"last_updated": iso_time(now.wall), "health": self._health_fields(now, destinations)}
        ):
            yield b',"%s":%s' % (name.encode(), *value)
        yield b"}"

    def _stream_entries(self, now: Now, only: str | None = None) -> Iterator[tuple[str, Json]]:
        recordings: dict[str, RecordingStatus] = {
            status.stream: status for status in self._relay.recording_statuses()
        }
        targets: dict[str, list[str]] = {}
        for name, keys in self._relay.destination_streams().items():
            for key in keys:
                targets.setdefault(key, []).append(name)
        for stream in self._relay.registry:
            key = stream.key
            if only is None or key == only:
                rates = self._sampler.stream_rates(key)
                yield key, stream_json(stream, now, rates, recordings.get(key), targets.get(key, []))

    def _destination_entries(self, now: Now) -> Iterator[tuple[str, Json]]:
        for status in self._relay.destination_statuses():
            kbps = self._sampler.destination_kbps(status.name)
            yield status.name, destination_json(status, now, kbps, self._relay.is_lasting(status.name))

    def _health_fields(self, now: Now, destinations: dict[str, Json]) -> Json:
        streams = list(self._relay.registry)
        return {
            "status": "ok",
            "version": __version__,
            "uptime": round(self.uptime, 3),
            "last_updated": iso_time(now.wall),
            "streams": sum(stream.publisher is not None for stream in streams),
            "players": sum(1 for stream in streams for _ in players(stream.subscribers)),
            **health_json(destinations),
        }


def _head(now: Now) -> Iterator[tuple[str, list[bytes]]]:
    return plain({"api_version": API_VERSION, "last_updated": iso_time(now.wall)})
