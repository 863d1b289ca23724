"""One HTTP request: its bounds, its path and JSON body, and its response."""

from __future__ import annotations

import json
from collections.abc import Collection, Coroutine
from io import BytesIO
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import unquote_to_bytes

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import datetimeToString
from twisted.web.iweb import INonQueuedRequestFactory
from twisted.web.server import Request
from typing_extensions import override
from zope.interface import provider

from rtmprelay import __version__
from rtmprelay.rtmp.addresses import describe_address, host_of
from rtmprelay.web.server.body import LARGE, BodySender
from rtmprelay.web.server.responses import HttpError, Response

if TYPE_CHECKING:
    from rtmprelay.web.server.site import BoundedChannel, RelaySite

_T = TypeVar("_T")

_SERVER = b"rtmprelay/" + __version__.encode()

#: Levels of nesting in a JSON body. A destination has three, and its metadata may have any.
_MAX_DEPTH = 20

#: Characters of a field name that an error quotes: a client may have sent anything as a name.
_MAX_QUOTED_NAME = 64


@provider(INonQueuedRequestFactory)
class RelayRequest(Request):
    _log = Logger()

    channel: BoundedChannel
    site: RelaySite
    #: Every response sets its own content type.
    defaultContentType = None  # noqa: N815

    def __init__(self, channel: BoundedChannel) -> None:
        super().__init__(channel)
        self._body = BytesIO()
        self._body_size = 0
        self._refused = False

    # -- receiving -------------------------------------------------------------------------------------------

    @override
    def gotLength(self, length: int | None) -> None:
        self.content = self._body = BytesIO()
        if length is not None and length > self._max_body:
            self._refuse_body()
        elif length and not self.channel.site.most_in_bodies:
            self._refuse_body(413, "no request to this port has a body")

    @property
    def _max_body(self) -> int:
        return self.channel.site.settings.max_body

    @override
    def handleContentChunk(self, data: bytes) -> None:
        self._body_size += len(data)
        if self._body_size > self._max_body:
            self._refuse_body()
        elif not self._refused:
            if self.channel.take_for_body(len(data)):
                self._body.write(data)
            else:
                self._refuse_body(503, "too many requests with a body have not been answered yet: try again")

    def _refuse_body(self, status: int = 413, reason: str = "") -> None:
        if not self._refused:
            self._refused = True
            self._body = BytesIO()
            self.channel.forget_body()
            # Twisted would otherwise answer "100 Continue".
            self.requestHeaders.removeHeader(b"Expect")
            self.channel.refuse(
                status, reason or f"the body is too large: {self._max_body} bytes is the most"
            )

    @override
    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        # Twisted's own method would also parse forms, which no client has a reason to send here.
        self._body.seek(0)
        self.method, self.uri, self.clientproto = command, path, version
        self.path, _, self.query = path.partition(b"?")
        self.args = {}
        self.channel.respond_in_order(self.process)

    @property
    def segments(self) -> list[str]:
        """The parts of the path, decoded. A part may contain an encoded slash, but no unprintable character."""
        path = self.path
        if b"://" in path[:16] and not path.startswith(b"/"):
            # A client that takes this server for a proxy sends the host as well.
            path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
        if not path.startswith(b"/"):
            raise HttpError(400, "the path must begin with a slash")
        try:
            parts = [unquote_to_bytes(part).decode("utf-8") for part in path[1:].split(b"/")]
        except UnicodeDecodeError:
            raise HttpError(400, "the path is not UTF-8: percent-encode names as UTF-8") from None
        if not all(part.isprintable() for part in parts):
            raise HttpError(400, "the path contains characters that cannot be printed")
        return parts

    @property
    def body(self) -> bytes:
        """The whole body; its size is bounded."""
        return self._body.getvalue()

    @property
    def client_host(self) -> str:
        """The client's address without its port; behind a trusted proxy, the one that the proxy names."""
        host = host_of(self.getClientAddress())
        proxies = self.channel.site.settings.trusted_proxies
        if not proxies:
            return host
        lines = self.requestHeaders.getRawHeaders(b"x-forwarded-for", [])
        return proxies.client(host, [line.decode("latin-1") for line in lines])

    @property
    def peer(self) -> str:
        """The client's address, as people read it."""
        address = self.getClientAddress()
        client = self.client_host
        return describe_address(address) if client == host_of(address) else client

    def header(self, name: bytes) -> str:
        """A header of the request as text; empty if there is none."""
        value: bytes | None = self.getHeader(name)
        return "" if value is None else value.decode("latin-1")

    # -- responding ------------------------------------------------------------------------------------------

    @override
    def process(self) -> None:
        self.site = self.channel.site
        self.setHeader(b"Server", _SERVER)
        self.setHeader(b"Date", datetimeToString())
        self.setHeader(b"X-Content-Type-Options", b"nosniff")
        try:
            result = self.site.respond(self)
        except HttpError as error:
            self.send(error.response())
        except Exception:
            self._report_bug(Failure())
        else:
            if isinstance(result, Deferred):
                result.addCallback(self._send_result).addErrback(self._send_error)
            else:
                self._send_result(result)

    def _send_result(self, result: Response | None) -> None:
        if result is not None:
            self.send(result)

    def _send_error(self, failure: Failure) -> None:
        if isinstance(failure.value, HttpError):
            self.send(failure.value.response())
        elif failure.check(CancelledError) and self._disconnected:
            # Nobody is left to answer.
            return
        else:
            self._report_bug(failure)

    def _report_bug(self, failure: Failure) -> None:
        """Log an exception of our own, without the request: it may contain a key."""
        self._log.failure("A bug in answering an HTTP request", failure)
        if not self.startedWriting:
            self.send(HttpError(500, "an internal error: the server's log says more").response())
        else:
            self.channel.close_soon()

    def send(self, response: Response) -> None:
        """Send a complete response."""
        if self._disconnected or self.finished:
            return
        self.setResponseCode(response.status)
        if response.status not in (204, 304):
            self.setHeader(b"Content-Type", response.content_type)
            self.setHeader(b"Content-Length", b"%d" % len(response.body))
        self.setHeader(b"Cache-Control", b"no-store")
        for name, value in response.headers:
            self.setHeader(name, value)
        if response.cross_origin:
            self.site.cors.allow_reading(self)
        if len(response.body) > LARGE and self.method != b"HEAD":
            BodySender(self, response.body).start()
            return
        self.write(response.body)
        self.finish()

    @override
    def processingFailed(self, reason: Failure) -> Any:
        self._report_bug(reason)
        return reason


def until_gone(request: RelayRequest, work: Coroutine[Deferred[Any], Any, _T]) -> Deferred[_T]:
    """Do something for a request, and cancel that if the client goes."""
    doing = Deferred.fromCoroutine(work)
    if not doing.called:
        request.notifyFinish().addErrback(lambda _: doing.cancel())
    return doing


# What a request is answered with: a response, now or later; None if the handler writes to the request itself.
Result = Response | Deferred[Response] | Deferred[None] | Deferred[Response | None] | None


# -- JSON bodies: errors name the place and the field, never the value ---------------------------------------


def read_json_object(request: RelayRequest) -> dict[str, object]:
    """The JSON object in the body of a request."""
    media_type = request.header(b"Content-Type").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise HttpError(415, "the body must be JSON, sent with the header 'Content-Type: application/json'")
    try:
        document = json.loads(
            request.body.decode("utf-8"),
            object_pairs_hook=_refuse_duplicates,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError:
        raise HttpError(400, "the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise HttpError(
            400, f"the body is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise HttpError(400, "the body is nested too deeply") from None
    except ValueError:
        raise HttpError(400, "the body contains a number that is too long") from None
    if not isinstance(document, dict):
        raise HttpError(400, "the body must be a JSON object, such as {...}")
    _refuse_deep_nesting(document)
    return document


def refuse_unknown(fields: Collection[str], known: Collection[str]) -> None:
    """Raise if there is a field that the API does not have."""
    unknown = sorted(name[:_MAX_QUOTED_NAME] for name in fields if name not in known)
    if unknown:
        shown = ", ".join(map(repr, unknown[:5])) + (" ..." if len(unknown) > 5 else "")
        raise HttpError(400, f"unknown field {shown}: {', '.join(known)} are known")


def take_flag(fields: dict[str, object], name: str, default: bool | None = None) -> bool:
    """Remove a field that must be true or false, and return it."""
    value = fields.pop(name, default)
    if value is None:
        raise HttpError(400, f"the field {name!r} is missing: true or false is expected")
    if not isinstance(value, bool):
        raise HttpError(400, f"the field {name!r} is wrong: true or false is expected")
    return value


def _refuse_deep_nesting(document: object) -> None:
    """Refuse a document that could not be written as JSON again later."""
    level = [document]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    if level:
        raise HttpError(400, f"the body is nested too deeply: {_MAX_DEPTH} levels are the most")


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise HttpError(400, "a field of the body is there twice")
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise HttpError(400, "the body is not valid JSON: it must not contain NaN or Infinity")
