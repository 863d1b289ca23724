"""Which path leads where, with which methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
from twisted.internet.defer import Deferred

from rtmprelay.web.api.control import Control
from rtmprelay.web.api.status import StatusDocuments
from rtmprelay.web.events.stream import EventStream
from rtmprelay.web.page.pages import Pages
from rtmprelay.web.server.answers import Answer, HttpError, document
from rtmprelay.web.server.request import RelayRequest

Result = Answer | Deferred[Answer] | Deferred[None] | None
Handler = Callable[[RelayRequest], Result]
Media = Callable[[RelayRequest, str, str], Result]

#: What a destination can be told by POST.
_ACTIONS = ("enable", "disable", "reconnect")

#: Kinds of live media, by the ending of the path.
_MEDIA = ("flv", "mp4")

_KNOWN = "/, /health, /streams, /destinations, /recordings, /events, /metrics, /control and /APP/NAME.flv or .mp4 are known"

#: Methods that HTTP knows; with any other a client means something else.
_METHODS = frozenset({b"GET", b"HEAD", b"OPTIONS", b"POST", b"PUT", b"PATCH", b"DELETE"})


@attrs.frozen
class Route:
    """A path, and what each method does there."""

    methods: Mapping[bytes, Handler]
    #: Whether pages of other origins may read what is there.
    shared: bool = True

    @property
    def allowed(self) -> bytes:
        """All methods, for people and clients."""
        known = [method for method in (b"GET", b"POST", b"PATCH", b"DELETE") if method in self.methods]
        if b"GET" in self.methods:
            known.insert(1, b"HEAD")
        return b", ".join([*known, b"OPTIONS"])


def reading(handler: Handler, shared: bool = True) -> Route:
    """A path that can only be read."""
    return Route({b"GET": handler}, shared)


class Routes:
    """Finds what a request means, and has it answered."""

    def __init__(
        self,
        status: StatusDocuments,
        control: Control,
        events: EventStream,
        pages: Pages,
        metrics: Callable[[], Deferred[Answer]],
        media: Media,
    ) -> None:
        """Args:
        media: Answers with a live stream, given its key and the kind of media.
        """
        self._status = status
        self._control = control
        self._events = events
        self._pages = pages
        self._media = media
        self._fixed: dict[tuple[str, ...], Route] = {
            ("",): reading(lambda request: pages.page(request.header(b"If-None-Match")), shared=False),
            ("health",): reading(lambda _: status.health().addCallback(Answer)),
            ("streams",): reading(lambda _: status.streams().addCallback(Answer)),
            ("recordings",): reading(lambda _: status.recordings().addCallback(Answer)),
            ("destinations",): Route(
                {
                    b"GET": lambda _: status.destinations().addCallback(Answer),
                    b"POST": control.add_destination,
                }
            ),
            ("events",): reading(self._read_events),
            ("metrics",): reading(lambda _: metrics()),
            ("control",): reading(control.overview, shared=False),
        }

    def answer(self, request: RelayRequest) -> Result:
        """Answer a request."""
        method: bytes = request.method
        if method == b"OPTIONS" and request.path == b"*":
            return _options(request, b"GET, HEAD, POST, PATCH, DELETE, OPTIONS", shared=False)
        route = self.find(request.segments)
        if method == b"OPTIONS":
            return _options(request, route.allowed, route.shared)
        handler = route.methods.get(b"GET" if method == b"HEAD" else method)
        if handler is not None:
            return handler(request)
        allowed = route.allowed.decode()
        if method not in _METHODS:
            raise HttpError(
                501, f"this method is not known: {allowed} are allowed here", ((b"Allow", route.allowed),)
            )
        raise HttpError(
            405,
            f"{method.decode()} is not possible here: {allowed} are allowed",
            ((b"Allow", route.allowed),),
        )

    def find(self, segments: list[str]) -> Route:
        """The route of a path."""
        route = self._fixed.get(tuple(segments))
        if route is not None:
            return route
        first, *rest = segments
        name = "/".join(rest)
        if first == "assets" and len(rest) == 1:
            return reading(
                lambda request: self._pages.asset(name, request.header(b"If-None-Match")), shared=False
            )
        if first == "destinations" and name:
            return self._destination(rest)
        if first == "streams" and name:
            return self._stream(rest)
        media = self._live_media(segments)
        if media is None or first in ("assets", "destinations", "streams"):
            raise HttpError(404, f"there is nothing here: {_KNOWN}")
        return media

    # -- names: a slash in them may be encoded, or not -----------------------------------------------------------

    def _destination(self, rest: list[str]) -> Route:
        name = "/".join(rest)
        if len(rest) > 1 and rest[-1] in _ACTIONS and self._status.destination(name) is None:
            steered, action = "/".join(rest[:-1]), rest[-1]
            return Route({b"POST": lambda request: self._control.steer_destination(request, steered, action)})
        return Route(
            {
                b"GET": lambda _: self._read_destination(name),
                b"PATCH": lambda request: self._control.update_destination(request, name),
                b"DELETE": lambda request: self._control.remove_destination(request, name),
            }
        )

    def _read_destination(self, name: str) -> Answer:
        found = self._status.destination(name)
        if found is None:
            raise HttpError(404, "there is no destination of this name: /destinations lists them all")
        return Answer(document(found))

    def _stream(self, rest: list[str]) -> Route:
        key = "/".join(rest)
        if len(rest) > 1 and rest[-1] == "publisher" and self._status.stream(key) is None:
            published = "/".join(rest[:-1])
            return Route({b"DELETE": lambda request: self._control.end_publish(request, published)})
        return reading(lambda _: self._read_stream(key))

    def _read_stream(self, key: str) -> Answer:
        found = self._status.stream(key)
        if found is None:
            raise HttpError(404, "there is no stream of this name now: /streams lists them all")
        return Answer(document(found))

    # -- what is written bit by bit --------------------------------------------------------------------------

    def _read_events(self, request: RelayRequest) -> Result:
        self._events.add(request)
        return None

    def _live_media(self, segments: list[str]) -> Route | None:
        key, dot, kind = "/".join(segments).rpartition(".")
        if not dot or kind not in _MEDIA or not key or "" in segments:
            return None
        return reading(lambda request: self._media(request, key, kind))


def _options(request: RelayRequest, allowed: bytes, shared: bool) -> Answer:
    if shared:
        request.site.sharing.allow_asking(request)
    return Answer(b"", 204, headers=((b"Allow", allowed),), shared=False)
