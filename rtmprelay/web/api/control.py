"""Changes while live. Each needs the token, and is told as an event."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import parse_qsl, quote

from twisted.internet.defer import Deferred

from rtmprelay.errors import ConfigError
from rtmprelay.events import ControlApplied
from rtmprelay.web.api.status import StatusDocuments
from rtmprelay.web.relay_view import ConflictError, NotThereError, Relay
from rtmprelay.web.server.access import Access
from rtmprelay.web.server.answers import Answer, HttpError, document
from rtmprelay.web.server.json_body import read_object, refuse_unknown, take_flag
from rtmprelay.web.server.request import RelayRequest

#: Where something is in the configuration file, as a path from its root.
_PLACE = re.compile(r" @ \$(?:\.([^;]+))?(?=;|$)")

_NO_CONTENT = Answer(b"", 204, shared=False)

#: Destinations that there may be for one to be added through the API: each costs metrics, and a connection a stream.
MOST_DESTINATIONS = 500


class Control:
    """Adds, removes and steers destinations, and sends publishers away."""

    def __init__(self, relay: Relay, status: StatusDocuments, access: Access) -> None:
        self._relay = relay
        self._status = status
        self._access = access

    def overview(self, request: RelayRequest) -> Answer:
        """Whether changes are allowed, and to the one who asks."""
        fields = {
            "changes_allowed": self._access.changes_allowed,
            "authorized": self._access.is_authorized(request),
        }
        return Answer(document(fields), shared=False)

    # -- destinations ----------------------------------------------------------------------------------------

    def add_destination(self, request: RelayRequest) -> Deferred[Answer]:
        """POST /destinations"""
        return self._change(request, self._add_destination)

    async def _add_destination(self, request: RelayRequest) -> Answer:
        entry = read_object(request)
        lasting = take_flag(entry, "lasting", default=False)
        if self._relay.destination_count >= MOST_DESTINATIONS:
            raise HttpError(409, f"there are {MOST_DESTINATIONS} destinations already: remove some first")
        name = await self._relay.add_destination(entry, lasting)
        self._tell(request, "destination added", name)
        location = f"/destinations/{quote(name, safe='')}".encode()
        return self._destination(name, 201, ((b"Location", location),))

    def remove_destination(self, request: RelayRequest, name: str) -> Deferred[Answer]:
        """DELETE /destinations/{name}[?lasting=true]"""

        async def remove(request: RelayRequest) -> Answer:
            lasting = _lasting_in_query(request)
            await self._relay.remove_destination(name, lasting)
            self._tell(request, "destination removed", name)
            return _NO_CONTENT

        return self._change(request, remove)

    def update_destination(self, request: RelayRequest, name: str) -> Deferred[Answer]:
        """PATCH /destinations/{name}"""

        async def update(request: RelayRequest) -> Answer:
            fields = read_object(request)
            refuse_unknown(fields, ("enabled", "lasting"))
            lasting = take_flag(fields, "lasting", default=False)
            return await self._enable(request, name, take_flag(fields, "enabled"), lasting)

        return self._change(request, update)

    def steer_destination(self, request: RelayRequest, name: str, action: str) -> Deferred[Answer]:
        """POST /destinations/{name}/enable, /disable, /reconnect"""

        async def steer(request: RelayRequest) -> Answer:
            if action != "reconnect":
                return await self._enable(request, name, action == "enable", lasting=False)
            self._relay.reconnect_destination(name)
            self._tell(request, "destination reconnected", name)
            return self._destination(name, 202)

        return self._change(request, steer)

    async def _enable(self, request: RelayRequest, name: str, enabled: bool, lasting: bool) -> Answer:
        await self._relay.enable_destination(name, enabled, lasting)
        self._tell(request, "destination enabled" if enabled else "destination disabled", name)
        return self._destination(name)

    def _destination(
        self, name: str, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> Answer:
        destination = self._status.destination(name)
        if destination is None:
            raise NotThereError(f"there is no destination {name!r} any more")
        return Answer(document(destination), status, headers=headers, shared=False)

    # -- streams ---------------------------------------------------------------------------------------------

    def end_publish(self, request: RelayRequest, key: str) -> Deferred[Answer]:
        """DELETE /streams/{app}/{name}/publisher"""

        async def end(request: RelayRequest) -> Answer:
            self._relay.end_publish(key)
            self._tell(request, "publisher sent away", key)
            return _NO_CONTENT

        return self._change(request, end)

    # -- all of them -----------------------------------------------------------------------------------------

    def _change(self, request: RelayRequest, change: Callable[[RelayRequest], object]) -> Deferred[Answer]:
        self._access.require(request)
        return Deferred.fromCoroutine(self._changed(request, change))

    async def _changed(self, request: RelayRequest, change: Callable[..., object]) -> Answer:
        try:
            return await change(request)  # type: ignore[misc, no-any-return]
        except NotThereError as error:
            raise HttpError(404, str(error)) from None
        except ConflictError as error:
            raise HttpError(409, str(error)) from None
        except ConfigError as error:
            raise HttpError(400, _in_words(str(error))) from None

    def _tell(self, request: RelayRequest, action: str, target: str) -> None:
        self._status.changed()
        self._relay.events.publish(ControlApplied(peer=request.peer, action=action, target=target))


def _in_words(message: str) -> str:
    """A message about an entry of the configuration file, without the place of that entry: here there is only one."""
    return _PLACE.sub(lambda found: f" (in {found[1]})" if found[1] else "", message)


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
