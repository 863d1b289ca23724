"""Responses as values, JSON in pieces, and errors whose message says what to do."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping

import attrs

from rtmprelay.quantities import utc_time

#: Raised when a field is removed or changes its meaning. New fields do not raise it.
API_VERSION = 1

JSON_TYPE = b"application/json"

#: The `code` of an error in JSON, by its status.
_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    409: "conflict",
    410: "gone",
    411: "length_required",
    413: "body_too_large",
    414: "uri_too_long",
    415: "unsupported_media_type",
    416: "range_not_satisfiable",
    431: "headers_too_large",
    500: "internal_error",
    501: "not_implemented",
    503: "too_many_clients",
}

Headers = tuple[tuple[bytes, bytes], ...]

#: For a client over a limit: the seconds after which it may ask again.
RETRY_LATER: Headers = ((b"Retry-After", b"10"),)

#: The challenge that goes with every 401.
BEARER_CHALLENGE: Headers = ((b"WWW-Authenticate", b'Bearer realm="rtmprelay"'),)

#: The same for reading, where a browser may ask its user.
READING_CHALLENGE: Headers = ((b"WWW-Authenticate", b'Basic realm="rtmprelay", charset="UTF-8"'),)


@attrs.frozen
class Response:
    """A complete response. It is sent with `Cache-Control: no-store` unless its headers say otherwise."""

    body: bytes = b""
    status: int = 200
    content_type: bytes = JSON_TYPE
    headers: Headers = ()
    #: Whether pages of other origins may read it, if the operator allows that.
    cross_origin: bool = True


class HttpError(Exception):
    """A request that cannot be fulfilled; the message is a sentence that says what to do."""

    def __init__(self, status: int, message: str, headers: Headers = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers

    def response(self) -> Response:
        return Response(error_json(self.status, self.message), self.status, headers=self.headers)


# -- JSON ----------------------------------------------------------------------------------------------------


def json_bytes(document: object) -> bytes:
    """A document as JSON in UTF-8, on one line."""
    try:
        text = _dump(document)
    except ValueError:
        # Python reads NaN, for example in the metadata of a configuration file, but it is not JSON.
        text = _dump(_finite(document))
    return text.encode("utf-8", "replace")


def _dump(document: object) -> str:
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value


def error_json(status: int, message: str) -> bytes:
    error = {"status": status, "code": _CODES.get(status, "error"), "message": message}
    return json_bytes({"api_version": API_VERSION, "error": error}) + b"\n"


def document(fields: Mapping[str, object]) -> bytes:
    """The body of a response: the API's version, then the fields."""
    return json_bytes({"api_version": API_VERSION, **fields}) + b"\n"


def iso_time(seconds: float | None) -> str | None:
    """Seconds since 1970 as ISO 8601 in UTC; None stays None."""
    return None if seconds is None else utc_time(seconds)


# -- large documents, in pieces that take little time each ---------------------------------------------------


def object_pieces(fields: Iterable[tuple[str, Iterable[bytes]]]) -> Iterator[bytes]:
    """A JSON object whose values are themselves made in pieces."""
    separator = b"{"
    for name, value in fields:
        yield separator + json_bytes(name) + b":"
        yield from value
        separator = b","
    yield b"{}" if separator == b"{" else b"}"


def entry_pieces(entries: Iterable[tuple[str, object]]) -> Iterator[bytes]:
    """A JSON object with one piece for each entry."""
    return object_pieces((name, [json_bytes(value)]) for name, value in entries)


def list_pieces(items: Iterable[object]) -> Iterator[bytes]:
    """A JSON array with one piece for each item."""
    separator = b"["
    for item in items:
        yield separator + json_bytes(item)
        separator = b","
    yield b"[]" if separator == b"[" else b"]"


def small_fields(fields: Mapping[str, object]) -> Iterator[tuple[str, list[bytes]]]:
    """Fields for `object_pieces` whose values are one piece each."""
    for name, value in fields.items():
        yield name, [json_bytes(value)]
