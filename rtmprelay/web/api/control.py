"""Requests that change the running relay. Each needs the token and is published as an event."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl, quote

from twisted.internet.defer import Deferred

from rtmprelay.errors import BusyError, ConfigError, ConflictError, NotThereError
from rtmprelay.event_bus import EventBus
from rtmprelay.events import ControlApplied
from rtmprelay.web.api.status import StatusDocuments
from rtmprelay.web.server.access import ControlAccess
from rtmprelay.web.server.request import (
    RelayRequest,
    read_json_object,
    refuse_unknown,
    take_flag,
    until_gone,
)
from rtmprelay.web.server.responses import Headers, HttpError, Response, document

if TYPE_CHECKING:
    from rtmprelay.destinations.preflight import CheckReport

#: A position in the configuration file, as a path from its root.
_POSITION = re.compile(r" @ \$(?:\.([^;]+))?(?=;|$)")

_NO_CONTENT = Response(b"", 204, cross_origin=False)

#: The API adds no destination beyond this number: each costs metrics, and a connection for each of its streams.
MAX_DESTINATIONS = 500

#: The same for pulls: every request for a stream that is not here looks at all of them.
MAX_PULLS = 100


class ControllableRelay(Protocol):
    """What the HTTP part changes in the relay. A `ConfigError` says what is wrong with a change."""

    @property
    def events(self) -> EventBus: ...

    @property
    def destination_count(self) -> int: ...

    def add_destination(self, entry: Mapping[str, object], lasting: bool) -> Deferred[str]:
        """Add a destination, described as in the configuration file; fires with its name."""

    def remove_destination(self, name: str, lasting: bool) -> Deferred[None]: ...

    def enable_destination(self, name: str, enabled: bool, lasting: bool) -> Deferred[None]: ...

    def destination_settings(self, name: str) -> Mapping[str, object]:
        """The settings of a destination, without its key."""

    def change_destination(self, name: str, fields: Mapping[str, object], lasting: bool) -> Deferred[None]:
        """Replace some settings of a destination."""

    def check_destination(self, name: str) -> Deferred[Sequence[CheckReport]]:
        """Try a destination out."""

    def check_entry(self, entry: Mapping[str, object]) -> Deferred[Sequence[CheckReport]]:
        """Try a destination out that is not there yet."""

    def start_recording(self, key: str) -> None:
        """Record a live stream."""

    def stop_recording(self, key: str) -> None:
        """Complete the recording of a stream."""

    def reconnect_destination(self, name: str) -> None:
        """Close a destination's connections, or stop waiting for the next attempt, and connect now."""

    def drain(self) -> None:
        """Accept no new clients, and disconnect the others little by little."""

    @property
    def pull_count(self) -> int: ...

    def add_pull(self, entry: Mapping[str, object]) -> str:
        """Add a pull, described as in the configuration file; returns its name."""

    def remove_pull(self, name: str) -> None: ...

    def end_publish(self, key: str) -> None:
        """Disconnect the publisher of a stream."""

    def end_play(self, connection: str) -> None:
        """Disconnect a player, over RTMP or HTTP."""


class Control:
    """Adds, removes, enables and reconnects destinations, and disconnects publishers."""

    def __init__(self, relay: ControllableRelay, status: StatusDocuments, access: ControlAccess) -> None:
        self._relay = relay
        self._status = status
        self._access = access

    def overview(self, request: RelayRequest) -> Deferred[Response]:
        """GET /control: whether changes are allowed at all, and with the token of this request."""
        return until_gone(request, self._overview(request))

    async def _overview(self, request: RelayRequest) -> Response:
        fields = {
            "changes_allowed": self._access.changes_allowed,
            "authorized": await self._access.is_authorized(request),
        }
        return Response(document(fields), cross_origin=False)

    # -- destinations ----------------------------------------------------------------------------------------

    def add_destination(self, request: RelayRequest) -> Deferred[Response]:
        """POST /destinations"""
        return self._change(request, self._add_destination)

    async def _add_destination(self, request: RelayRequest) -> Response:
        entry = read_json_object(request)
        lasting = take_flag(entry, "lasting", default=False)
        if self._relay.destination_count >= MAX_DESTINATIONS:
            raise HttpError(409, f"there are {MAX_DESTINATIONS} destinations already: remove some first")
        name = await self._relay.add_destination(entry, lasting)
        self._applied(request, "destination added", name)
        location = f"/destinations/{quote(name, safe='')}".encode()
        return self._destination(name, 201, ((b"Location", location),))

    def remove_destination(self, request: RelayRequest, name: str) -> Deferred[Response]:
        """DELETE /destinations/{name}[?lasting=true]"""

        async def remove(request: RelayRequest) -> Response:
            lasting = _lasting_in_query(request)
            await self._relay.remove_destination(name, lasting)
            self._applied(request, "destination removed", name)
            return _NO_CONTENT

        return self._change(request, remove)

    def update_destination(self, request: RelayRequest, name: str) -> Deferred[Response]:
        """PATCH /destinations/{name}"""

        async def update(request: RelayRequest) -> Response:
            fields = read_json_object(request)
            lasting = take_flag(fields, "lasting", default=False)
            enabled = take_flag(fields, "enabled") if "enabled" in fields else None
            if not fields and enabled is None:
                raise HttpError(
                    400, "nothing is to be changed: give 'enabled', 'url', 'match' or another field"
                )
            if fields:
                await self._relay.change_destination(name, fields, lasting)
                self._applied(request, "destination changed", name)
            return (
                self._destination(name)
                if enabled is None
                else await self._enable(request, name, enabled, lasting)
            )

        return self._change(request, update)

    def act_on_destination(self, request: RelayRequest, name: str, action: str) -> Deferred[Response]:
        """POST /destinations/{name}/enable, /disable, /reconnect, /check"""

        async def act(request: RelayRequest) -> Response:
            if action == "check":
                return self._checked(request, name, await self._relay.check_destination(name))
            if action != "reconnect":
                return await self._enable(request, name, action == "enable", lasting=False)
            self._relay.reconnect_destination(name)
            self._applied(request, "destination reconnected", name)
            return self._destination(name, 202)

        return self._change(request, act)

    async def _enable(self, request: RelayRequest, name: str, enabled: bool, lasting: bool) -> Response:
        await self._relay.enable_destination(name, enabled, lasting)
        self._applied(request, "destination enabled" if enabled else "destination disabled", name)
        return self._destination(name)

    def _destination(self, name: str, status: int = 200, headers: Headers = ()) -> Response:
        destination = self._status.destination(name)
        if destination is None:
            raise NotThereError(f"there is no destination {name!r} any more")
        return Response(document(destination), status, headers=headers, cross_origin=False)

    def destination_settings(self, name: str) -> Response:
        """GET /destinations/{name}/settings"""
        try:
            return Response(document(self._relay.destination_settings(name)), cross_origin=False)
        except NotThereError as error:
            raise HttpError(404, str(error)) from None

    def check(self, request: RelayRequest) -> Deferred[Response]:
        """POST /check: tries a destination out that is not there yet"""

        async def check(request: RelayRequest) -> Response:
            entry = read_json_object(request)
            # The name is for errors only.
            entry.setdefault("name", "the destination")
            return self._checked(request, str(entry["name"]), await self._relay.check_entry(entry))

        return self._change(request, check)

    def _checked(self, request: RelayRequest, name: str, reports: Sequence[CheckReport]) -> Response:
        self._applied(request, "destination tried out", name)
        return Response(
            document(
                {
                    "succeeded": all(report.succeeded for report in reports),
                    "addresses": [check_json(report) for report in reports],
                }
            ),
            cross_origin=False,
        )

    def drain(self, request: RelayRequest) -> Deferred[Response]:
        """POST /drain"""

        async def drain(request: RelayRequest) -> Response:
            self._relay.drain()
            self._applied(request, "drain begun", "")
            return Response(document({"draining": True}), 202, cross_origin=False)

        return self._change(request, drain)

    # -- pulls ----------------------------------------------------------------------------------------------

    def add_pull(self, request: RelayRequest) -> Deferred[Response]:
        """POST /pulls"""

        async def add(request: RelayRequest) -> Response:
            if self._relay.pull_count >= MAX_PULLS:
                raise HttpError(409, f"there are {MAX_PULLS} pulls already: remove some first")
            name = self._relay.add_pull(read_json_object(request))
            self._applied(request, "pull added", name)
            location = f"/pulls/{quote(name, safe='')}".encode()
            added = self._status.pull(name)
            assert added is not None
            return Response(document(added), 201, headers=((b"Location", location),), cross_origin=False)

        return self._change(request, add)

    def remove_pull(self, request: RelayRequest, name: str) -> Deferred[Response]:
        """DELETE /pulls/{name}"""

        async def remove(request: RelayRequest) -> Response:
            self._relay.remove_pull(name)
            self._applied(request, "pull removed", name)
            return _NO_CONTENT

        return self._change(request, remove)

    # -- streams ---------------------------------------------------------------------------------------------

    def end_publish(self, request: RelayRequest, key: str) -> Deferred[Response]:
        """DELETE /streams/{app}/{name}/publisher"""

        async def end(request: RelayRequest) -> Response:
            self._relay.end_publish(key)
            self._applied(request, "publisher sent away", key)
            return _NO_CONTENT

        return self._change(request, end)

    def record(self, request: RelayRequest, key: str, wanted: bool) -> Deferred[Response]:
        """POST and DELETE /streams/{app}/{name}/recording"""

        async def record(request: RelayRequest) -> Response:
            if wanted:
                self._relay.start_recording(key)
            else:
                self._relay.stop_recording(key)
            self._applied(request, "recording started" if wanted else "recording stopped", key)
            return _NO_CONTENT

        return self._change(request, record)

    # -- players ---------------------------------------------------------------------------------------------

    def end_play(self, request: RelayRequest, connection: str) -> Deferred[Response]:
        """DELETE /players/{connection}"""

        async def end(request: RelayRequest) -> Response:
            self._relay.end_play(connection)
            self._applied(request, "player sent away", connection)
            return _NO_CONTENT

        return self._change(request, end)

    # -- every change ----------------------------------------------------------------------------------------

    def _change(
        self, request: RelayRequest, change: Callable[[RelayRequest], Awaitable[Response]]
    ) -> Deferred[Response]:
        # A client that is gone waits for no answer; a change that has begun is finished.
        allowed = until_gone(request, self._access.require(request))
        return allowed.addCallback(lambda _: Deferred.fromCoroutine(self._with_http_errors(request, change)))

    async def _with_http_errors(
        self, request: RelayRequest, change: Callable[[RelayRequest], Awaitable[Response]]
    ) -> Response:
        try:
            return await change(request)
        except NotThereError as error:
            raise HttpError(404, str(error)) from None
        except ConflictError as error:
            raise HttpError(409, str(error)) from None
        except BusyError as error:
            raise HttpError(503, str(error), ((b"Retry-After", b"5"),)) from None
        except ConfigError as error:
            raise HttpError(400, _without_position(str(error))) from None

    def _applied(self, request: RelayRequest, action: str, target: str) -> None:
        self._status.invalidate()
        self._relay.events.publish(ControlApplied(peer=request.peer, action=action, target=target))


def check_json(report: CheckReport) -> dict[str, object]:
    """The steps of trying out one address."""
    return {
        "address": report.address,
        "succeeded": report.succeeded,
        "steps": [
            {
                "name": step.name,
                "seconds": round(step.seconds, 3),
                "problem": step.problem,
                "detail": step.detail,
            }
            for step in report.steps
        ],
    }


def _without_position(message: str) -> str:
    """An error about an entry of the configuration file, without the entry's position: a request has only one entry."""
    return _POSITION.sub(lambda found: f" (in {found[1]})" if found[1] else "", message)


def _lasting_in_query(request: RelayRequest) -> bool:
    try:
        fields = parse_qsl(request.query.decode("ascii"), keep_blank_values=True, max_num_fields=10)
    except ValueError:
        raise HttpError(400, "the query cannot be read: ?lasting=true is known") from None
    refuse_unknown([name for name, _ in fields], ("lasting",))
    values = dict(fields)
    if values.get("lasting", "false") not in ("true", "false"):
        raise HttpError(400, "lasting in the query must be true or false")
    return values.get("lasting") == "true"
