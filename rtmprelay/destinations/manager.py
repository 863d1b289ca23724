"""The destinations of a relay: adds, removes and changes them, and offers each live stream to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import attrs
from twisted.internet.defer import Deferred, gatherResults
from zope.interface import implementer

from rtmprelay.destinations.destination import Destination
from rtmprelay.destinations.outlet import OutletContext
from rtmprelay.destinations.settings import DestinationSettings, refuse_duplicates
from rtmprelay.destinations.status import DestinationStatus
from rtmprelay.errors import ConfigError
from rtmprelay.interfaces import IStreamObserver
from rtmprelay.streams.live_stream import LiveStream


@attrs.frozen
class Changes:
    """The names of the destinations that a new configuration changed."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]


@implementer(IStreamObserver)
class DestinationManager:
    """Adds, removes and changes destinations while streams are live, without disturbing the others."""

    def __init__(self, context: OutletContext) -> None:
        self._context = context
        self._destinations: dict[str, Destination] = {}
        # Removed, but still saying goodbye to their servers.
        self._leaving: dict[Destination, Deferred[None]] = {}
        self._stopped = False
        #: Whether a stream may be sent anywhere now. Existing connections stay.
        self.may_send: Callable[[str], bool] = lambda key: True
        context.registry.add_observer(self)

    def __iter__(self) -> Iterator[Destination]:
        return iter(list(self._destinations.values()))

    def __len__(self) -> int:
        return len(self._destinations)

    def __contains__(self, name: object) -> bool:
        return name in self._destinations

    # -- streams ---------------------------------------------------------------------------------------------

    def stream_started(self, stream: LiveStream) -> None:
        for destination in self:
            # An event of one destination may make a program remove another one, or stop them all.
            in_use = not self._stopped and self._destinations.get(destination.name) is destination
            if in_use and destination.should_take(stream) and self.may_send(stream.key):
                self._offer(destination, stream)

    def _offer(self, destination: Destination, stream: LiveStream) -> None:
        """Give a stream to a destination, unless its target is taken: a server refuses a key that is in use."""
        target = destination.target_of(stream)
        if any(leaving.holder_of(target) for leaving in self._leaving):
            # When the goodbye is over, every stream is offered again.
            return
        for other in self:
            holder = other.holder_of(target)
            if holder is not None:
                destination.report_refusal(
                    stream, holder if other is destination else f"{holder} through {other.name}"
                )
                return
        destination.take(stream)

    def stream_stopped(self, stream: LiveStream, clean: bool) -> None:
        for destination in self:
            destination.source_stopped(stream, clean)

    def offer_all_streams(self) -> None:
        """Offer every live stream: a target has become free, or a destination is new."""
        for stream in self._context.registry:
            if stream.publisher is not None:
                self.stream_started(stream)

    # -- changes ---------------------------------------------------------------------------------------------

    def add(self, settings: DestinationSettings) -> None:
        """Add a destination; streams that are live now are sent there at once."""
        refuse_duplicates([*(other.settings for other in self), settings])
        self._destinations[settings.name] = self._new_destination(settings)
        self.offer_all_streams()

    def _new_destination(self, settings: DestinationSettings) -> Destination:
        return Destination(settings, self._context, self.offer_all_streams)

    def remove(self, name: str) -> Deferred[None]:
        """Remove a destination; fires when its connections are closed."""
        destination = self._find(name)
        del self._destinations[name]
        gone: Deferred[None] = Deferred()
        self._leaving[destination] = gone
        destination.end("the destination was removed").addBoth(self._removed, destination)
        return gone

    def _removed(self, result: object, destination: Destination) -> None:
        self._leaving.pop(destination).callback(None)

    def enable(self, name: str) -> None:
        """Send streams to a destination again."""
        self._find(name).set_enabled(True)

    def disable(self, name: str) -> Deferred[None]:
        """Keep a destination, but send nothing there; fires when its connections are closed."""
        return self._find(name).set_enabled(False)

    def reconnect(self, name: str) -> None:
        """End the connections of a destination, or its waiting for the next attempt, and connect now."""
        self._find(name).reconnect()

    def change(self, settings: DestinationSettings) -> Changes:
        """Use other settings for the destination of this name."""
        self._find(settings.name)
        return self.apply(settings if one.name == settings.name else one.settings for one in self)

    def _find(self, name: str) -> Destination:
        try:
            return self._destinations[name]
        except KeyError:
            raise ConfigError(f"there is no destination {name!r}") from None

    def apply(self, wanted: Iterable[DestinationSettings]) -> Changes:
        """Make these the destinations. Connections are ended only where a change needs that."""
        settings = {one.name: one for one in refuse_duplicates(list(wanted))}
        removed = [name for name in self._destinations if name not in settings]
        changed = [
            name
            for name, destination in self._destinations.items()
            if name in settings and destination.settings != settings[name]
        ]
        added = [name for name in settings if name not in self._destinations]
        updated = [name for name in changed if self._find(name).settings.connects_like(settings[name])]
        replaced = [name for name in changed if name not in updated]
        for name in updated:
            self._find(name).update(settings[name])
        for name in (*removed, *replaced):
            self.remove(name)
        for name in (*replaced, *added):
            self._destinations[name] = self._new_destination(settings[name])
        self.offer_all_streams()
        return Changes(tuple(added), tuple(removed), tuple(changed))

    def stop(self) -> Deferred[None]:
        """Say goodbye to all servers; fires when all connections are closed."""
        self._stopped = True
        ended = [destination.end("the server stops") for destination in self]
        return gatherResults([*ended, *self._leaving.values()]).addCallback(lambda _: None)

    def start(self) -> None:
        """Send streams again after a stop."""
        self._stopped = False
        self.offer_all_streams()

    def wants(self, key: str) -> bool:
        """Whether any destination gets this stream."""
        return any(one.settings.enabled and one.settings.wants(key) for one in self)

    def end_stream(self, key: str, reason: str) -> Deferred[None]:
        """Send a stream nowhere any more; fires when its connections are closed."""
        ended = [destination.end_stream(key, reason) for destination in self]
        return gatherResults(ended).addCallback(lambda _: None)

    def statuses(self) -> list[DestinationStatus]:
        """The status of each destination."""
        return [destination.status() for destination in self]
