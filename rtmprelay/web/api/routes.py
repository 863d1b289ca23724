"""Which path and method lead to which handler."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
from twisted.internet.defer import Deferred

from rtmprelay.web.api.control import Control
from rtmprelay.web.api.status import StatusDocuments
from rtmprelay.web.server.access import ControlAccess
from rtmprelay.web.server.request import RelayRequest, Result, until_gone
from rtmprelay.web.server.responses import HttpError, Response, document

Handler = Callable[[RelayRequest], Result]

#: Finds the route of media, given the parts of a path; None if there is no media.
FindMedia = Callable[[list[str]], "Route | None"]

#: First parts of paths that are no applications of streams.
RESERVED = frozenset({"assets", "destinations", "pulls", "streams"})

#: What POST can do to a destination.
DESTINATION_ACTIONS = ("enable", "disable", "reconnect", "check")

_KNOWN_PATHS = "/, /health, /streams, /destinations, /pulls, /cluster, /recordings, /events, /metrics, /control, /APP/NAME.flv or .mp4 and /APP/NAME/index.m3u8 are known"

#: The methods of HTTP. Any other is answered with 501.
_METHODS = frozenset({b"GET", b"HEAD", b"OPTIONS", b"POST", b"PUT", b"PATCH", b"DELETE"})


@attrs.frozen
class Route:
    """A path, with a handler for each of its methods."""

    methods: Mapping[bytes, Handler]
    #: Whether pages of other origins may read it, if the operator allows that.
    cross_origin: bool = True

    @property
    def allowed(self) -> bytes:
        """The value of the header Allow."""
        known = [method for method in (b"GET", b"POST", b"PATCH", b"DELETE") if method in self.methods]
        if b"GET" in self.methods:
            known.insert(1, b"HEAD")
        return b", ".join([*known, b"OPTIONS"])


def read_only(handler: Handler, cross_origin: bool = True) -> Route:
    """A path that only has GET."""
    return Route({b"GET": handler}, cross_origin)


class Routes:
    """Finds the route of a request and calls its handler.

    Args:
        asset: Answers with a file of the dashboard, given its name.
    """

    def __init__(
        self,
        status: StatusDocuments,
        control: Control,
        *,
        page: Handler,
        asset: Callable[[RelayRequest, str], Result],
        events: Handler,
        metrics: Handler,
        find_media: FindMedia,
        access: ControlAccess,
        recordings: Handler,
    ) -> None:
        self._status = status
        self._access = access
        self._control = control
        self._asset = asset
        self._find_media = find_media
        self._fixed: dict[tuple[str, ...], Route] = {
            ("",): read_only(page, cross_origin=False),
            ("health",): read_only(lambda _: status.health().addCallback(Response)),
            ("streams",): read_only(lambda _: status.streams().addCallback(Response)),
            ("recordings",): read_only(recordings),
            ("destinations",): Route(
                {
                    b"GET": lambda _: status.destinations().addCallback(Response),
                    b"POST": control.add_destination,
                }
            ),
            ("pulls",): Route(
                {b"GET": lambda _: status.pulls().addCallback(Response), b"POST": control.add_pull}
            ),
            ("cluster",): read_only(lambda _: Response(document(status.cluster()))),
            ("check",): Route({b"POST": control.check}, cross_origin=False),
            ("players",): read_only(status.players),
            ("drain",): Route({b"POST": control.drain}, cross_origin=False),
            ("health", "live"): read_only(lambda _: Response(document({"live": True}))),
            ("health", "ready"): read_only(self._ready),
            ("events",): read_only(events),
            ("metrics",): read_only(metrics),
            ("control",): read_only(control.overview, cross_origin=False),
        }

    def respond(self, request: RelayRequest) -> Result:
        if self._access.asks_readers and not self._is_for_everybody(request.segments):
            return until_gone(request, self._respond_to_reader(request))
        return self._answer(request)

    async def _respond_to_reader(self, request: RelayRequest) -> Response | None:
        await self._access.require_reading(request)
        result = self._answer(request)
        return await result if isinstance(result, Deferred) else result

    def _answer(self, request: RelayRequest) -> Result:
        return answer(request, self.find, b"GET, HEAD, POST, PATCH, DELETE, OPTIONS")

    def _is_for_everybody(self, segments: list[str]) -> bool:
        """Media asks the authorizers instead, and whether the server is alive is no secret."""
        if segments[0] == "health":
            return len(segments) > 1
        if segments[0] in RESERVED:
            return False
        return segments != [""] and self._find_media(segments) is not None

    def find(self, segments: list[str]) -> Route:
        """The route of a path. Raises `HttpError` 404 if there is none."""
        route = self._fixed.get(tuple(segments))
        if route is not None:
            return route
        first, *rest = segments
        name = "/".join(rest)
        if first == "assets" and len(rest) == 1:
            return read_only(lambda request: self._asset(request, name), cross_origin=False)
        if first == "destinations" and name:
            return self._destination(rest)
        if first == "pulls" and name:
            return self._pull(name)
        if first == "streams" and name:
            return self._stream(rest)
        media = self._find_media(segments)
        if media is None and first == "players" and len(rest) == 1:
            return Route({b"DELETE": lambda request: self._control.end_play(request, name)})
        # A slash too many is no page to watch.
        if media is None or first in RESERVED or (rest == [""] and (first,) in self._fixed):
            raise HttpError(404, f"there is nothing here: {_KNOWN_PATHS}")
        return media

    # -- names: a slash in one may be percent-encoded or not -----------------------------------------------------

    def _destination(self, rest: list[str]) -> Route:
        name = "/".join(rest)
        if len(rest) > 1 and rest[-1] in DESTINATION_ACTIONS and self._status.destination(name) is None:
            target, action = "/".join(rest[:-1]), rest[-1]
            return Route({b"POST": lambda request: self._control.act_on_destination(request, target, action)})
        if len(rest) > 1 and rest[-1] == "settings" and self._status.destination(name) is None:
            shown = "/".join(rest[:-1])
            return read_only(lambda _: self._control.destination_settings(shown), cross_origin=False)
        return Route(
            {
                b"GET": lambda _: self._read_destination(name),
                b"PATCH": lambda request: self._control.update_destination(request, name),
                b"DELETE": lambda request: self._control.remove_destination(request, name),
            }
        )

    def _read_destination(self, name: str) -> Response:
        found = self._status.destination(name)
        if found is None:
            raise HttpError(404, "there is no destination of this name: /destinations lists them all")
        return Response(document(found))

    def _ready(self, request: RelayRequest) -> Response:
        """For load balancers: 503 while new clients should go elsewhere."""
        reason = self._status.not_ready_because()
        return Response(document({"ready": reason is None, "reason": reason}), 200 if reason is None else 503)

    def _pull(self, name: str) -> Route:
        return Route(
            {
                b"GET": lambda _: self._read_pull(name),
                b"DELETE": lambda request: self._control.remove_pull(request, name),
            }
        )

    def _read_pull(self, name: str) -> Response:
        found = self._status.pull(name)
        if found is None:
            raise HttpError(404, "there is no pull of this name: /pulls lists them all")
        return Response(document(found))

    def _stream(self, rest: list[str]) -> Route:
        key = "/".join(rest)
        if len(rest) > 1 and rest[-1] == "publisher" and self._status.stream(key) is None:
            published = "/".join(rest[:-1])
            return Route({b"DELETE": lambda request: self._control.end_publish(request, published)})
        if len(rest) > 1 and rest[-1] == "recording" and self._status.stream(key) is None:
            recorded = "/".join(rest[:-1])
            return Route(
                {
                    b"POST": lambda request: self._control.record(request, recorded, True),
                    b"DELETE": lambda request: self._control.record(request, recorded, False),
                }
            )
        return read_only(lambda _: self._read_stream(key))

    def _read_stream(self, key: str) -> Response:
        found = self._status.stream(key)
        if found is None:
            raise HttpError(404, "there is no stream of this name now: /streams lists them all")
        return Response(document(found))


def answer(request: RelayRequest, find: Callable[[list[str]], Route], methods: bytes) -> Result:
    """Call the handler of a request.

    Args:
        find: Finds the route of a path.
        methods: What is possible at all, for a client that asks.
    """
    method: bytes = request.method
    if method == b"OPTIONS" and request.path == b"*":
        return _options(request, methods, cross_origin=False)
    route = find(request.segments)
    if method == b"OPTIONS":
        return _options(request, route.allowed, route.cross_origin)
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


def _options(request: RelayRequest, allowed: bytes, cross_origin: bool) -> Response:
    if cross_origin:
        request.site.cors.answer_preflight(request)
    return Response(b"", 204, headers=((b"Allow", allowed),), cross_origin=False)
