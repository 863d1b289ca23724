"""All destinations of a relay: which there are, and what they are given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs
from twisted.internet.defer import Deferred, gatherResults
from zope.interface import implementer

from rtmprelay.destinations.destination import Destination
from rtmprelay.destinations.outlet import OutletContext
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.destinations.status import DestinationStatus
from rtmprelay.errors import ConfigError
from rtmprelay.interfaces import IStreamObserver
from rtmprelay.streams.live_stream import LiveStream


@attrs.frozen
class Changes:
    """What a new configuration changed."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]


@implementer(IStreamObserver)
class DestinationManager:
    """Adds, removes and steers destinations while streams are live; nobody else notices."""

    def __init__(self, context: OutletContext) -> None:
        self._context = context
        self._destinations: dict[str, Destination] = {}
        # Removed, but still saying goodbye to their servers.
        self._leaving: dict[Destination, Deferred[None]] = {}
        self._stopped = False
        context.registry.add_observer(self)

    def __iter__(self) -> Iterator[Destination]:
        return iter(list(self._destinations.values()))

    def __len__(self) -> int:
        return len(self._destinations)

    def __contains__(self, name: object) -> bool:
        return name in self._destinations

    # -- streams ---------------------------------------------------------------------------------------------

    def stream_started(self, stream: LiveStream) -> None:
        """Give a stream to all that want it."""
        for destination in self:
            # Whoever is told of one destination may remove another one, or stop them all.
            in_use = not self._stopped and self._destinations.get(destination.name) is destination
            if in_use and destination.lacks(stream):
                self._offer(destination, stream)

    def _offer(self, destination: Destination, stream: LiveStream) -> None:
        """A server refuses a key that is in use: two destinations or streams never share one target."""
        target = destination.target_of(stream)
        if any(leaving.holder_of(target) for leaving in self._leaving):
            # That takes a moment; then it is offered again.
            return
        for other in self:
            holder = other.holder_of(target)
            if holder is not None:
                destination.refuse(
                    stream, holder if other is destination else f"{holder} through {other.name}"
                )
                return
        destination.take(stream)

    def stream_stopped(self, stream: LiveStream, clean: bool) -> None:
        """The publisher of a stream has gone."""
        for destination in self:
            destination.source_stopped(stream, clean)

    def _offer_everything(self) -> None:
        """A target has become free, or a destination is new: whatever is live may go there."""
        for stream in self._context.registry:
            if stream.publisher is not None:
                self.stream_started(stream)

    # -- steering --------------------------------------------------------------------------------------------

    def add(self, settings: DestinationSettings) -> None:
        """Use one more destination, at once for what is live."""
        refuse_duplicates([*(other.settings for other in self), settings])
        self._destinations[settings.name] = Destination(settings, self._context, self._offer_everything)
        self._offer_everything()

    def remove(self, name: str) -> Deferred[None]:
        """Use a destination no longer; fires when its connections have gone."""
        destination = self._find(name)
        del self._destinations[name]
        gone: Deferred[None] = Deferred()
        self._leaving[destination] = gone
        destination.end("the destination was removed").addBoth(self._left, destination)
        return gone

    def _left(self, result: object, destination: Destination) -> None:
        self._leaving.pop(destination).callback(None)

    def enable(self, name: str) -> None:
        """Use a destination again."""
        self._find(name).set_enabled(True)

    def disable(self, name: str) -> Deferred[None]:
        """Keep a destination, but do not use it; fires when its connections have gone."""
        return self._find(name).set_enabled(False)

    def reconnect(self, name: str) -> None:
        """Break a destination's connections off, or wait no longer, and try now."""
        self._find(name).reconnect()

    def _find(self, name: str) -> Destination:
        try:
            return self._destinations[name]
        except KeyError:
            raise ConfigError(f"there is no destination {name!r}") from None

    def apply(self, wanted: Iterable[DestinationSettings]) -> Changes:
        """Make the destinations be just these; those that stay as they are notice nothing.

        Of those that change, only those whose connections are concerned are made anew.
        """
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
            self._destinations[name] = Destination(settings[name], self._context, self._offer_everything)
        self._offer_everything()
        return Changes(tuple(added), tuple(removed), tuple(changed))

    def stop(self) -> Deferred[None]:
        """End everything properly; fires when all connections have gone."""
        self._stopped = True
        ended = [destination.end("the server stops") for destination in self]
        return gatherResults([*ended, *self._leaving.values()]).addCallback(lambda _: None)

    def start(self) -> None:
        """Begin again after a stop."""
        self._stopped = False
        self._offer_everything()

    def statuses(self) -> list[DestinationStatus]:
        """How all of them are now."""
        return [destination.status() for destination in self]


def refuse_duplicates(destinations: list[DestinationSettings]) -> list[DestinationSettings]:
    """The same destinations, if no two have the same name or go to the same place."""
    names: set[str] = set()
    for index, settings in enumerate(destinations):
        if settings.name in names:
            raise ConfigError(f"there are two destinations called {settings.name!r}")
        names.add(settings.name)
        for other in destinations[:index]:
            if other.url.same_place == settings.url.same_place and other.match == settings.match:
                raise ConfigError(
                    f"{other.name!r} and {settings.name!r} go to the same place ({settings.url}) with the same key"
                )
    return destinations
