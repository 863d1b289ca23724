"""Documents that many ask for: made once for all of them, piece by piece, and good enough for a while."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from rtmprelay.web.server.answers import json_bytes
from rtmprelay.web.server.turns import Turns


@attrs.define(eq=False)
class _Making:
    """A document on its way, and those who wait for it."""

    version: Hashable
    waiting: list[Deferred[bytes]] = attrs.field(factory=list)


class Document:
    """A text that is made when somebody asks and the last one is too old.

    Args:
        make: Makes it, in pieces that take little time each.
        fresh: Seconds for which it is good enough for the next one who asks.
        version: Says what it was made of: when that changes, it is old at once.
    """

    def __init__(
        self,
        make: Callable[[], Iterator[bytes]],
        turns: Turns,
        clock: IReactorTime,
        fresh: float,
        version: Callable[[], Hashable] = lambda: None,
    ) -> None:
        self._make = make
        self._turns = turns
        self._clock = clock
        self._fresh = fresh
        self._version = version
        self._made: tuple[float, Hashable, bytes] | None = None
        self._making: _Making | None = None

    def get(self) -> Deferred[bytes]:
        """The text, as soon as it is there."""
        now, version = self._clock.seconds(), self._version()
        if self._made is not None and self._made[1] == version and now - self._made[0] < self._fresh:
            return succeed(self._made[2])
        waiter: Deferred[bytes] = Deferred()
        making = self._making
        if making is not None and making.version == version:
            making.waiting.append(waiter)
            return waiter
        making = self._making = _Making(version, [waiter])
        self._turns.gather(self._make()).addCallback(b"".join).addBoth(self._done, making, now)
        return waiter

    def _done(self, result: bytes | Failure, making: _Making, began: float) -> None:
        if self._making is making:
            self._making = None
        if isinstance(result, bytes):
            self._made = began, making.version, result
        for waiter in making.waiting:
            waiter.callback(result)


def object_pieces(fields: Iterable[tuple[str, Iterable[bytes]]]) -> Iterator[bytes]:
    """A JSON object whose values come in pieces."""
    separator = b"{"
    for name, value in fields:
        yield separator + json_bytes(name) + b":"
        yield from value
        separator = b","
    yield b"{}" if separator == b"{" else b"}"


def each(entries: Iterable[tuple[str, object]]) -> Iterator[bytes]:
    """A JSON object, one piece for each of its entries."""
    return object_pieces((name, [json_bytes(value)]) for name, value in entries)


def listed(entries: Iterable[object]) -> Iterator[bytes]:
    """A JSON array, one piece for each of its entries."""
    separator = b"["
    for entry in entries:
        yield separator + json_bytes(entry)
        separator = b","
    yield b"[]" if separator == b"[" else b"]"


def plain(fields: Mapping[str, object]) -> Iterator[tuple[str, list[bytes]]]:
    """Small fields, for an object in pieces."""
    for name, value in fields.items():
        yield name, [json_bytes(value)]
