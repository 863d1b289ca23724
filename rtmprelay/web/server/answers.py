"""Answers as values: JSON for machines, and errors that say what to do."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime

import attrs

#: Raised when a field changes its meaning or goes; new ones may come.
API_VERSION = 1

JSON_TYPE = b"application/json"

#: What each status is called in the JSON of an error.
_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    409: "conflict",
    411: "length_required",
    413: "body_too_large",
    414: "uri_too_long",
    415: "unsupported_media_type",
    431: "headers_too_large",
    500: "internal_error",
    501: "not_implemented",
    503: "too_many_clients",
}

Headers = tuple[tuple[bytes, bytes], ...]


@attrs.frozen
class Answer:
    """What goes back to a client. `no-store` unless the headers say otherwise."""

    body: bytes = b""
    status: int = 200
    content_type: bytes = JSON_TYPE
    headers: Headers = ()
    #: Whether pages of other origins may read it, if the operator allows that.
    shared: bool = True


class HttpError(Exception):
    """A request that cannot be fulfilled; the message is a sentence that says what to do."""

    def __init__(self, status: int, message: str, headers: Headers = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers

    def answer(self) -> Answer:
        """The error as an answer."""
        return Answer(error_json(self.status, self.message), self.status, headers=self.headers)


def json_bytes(document: object) -> bytes:
    """A document as JSON in UTF-8, on one line."""
    try:
        text = _dump(document)
    except ValueError:
        # NaN in the metadata of a configuration file, say: it is no JSON, though Python reads it.
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
    """The document that every error is."""
    error = {"status": status, "code": _CODES.get(status, "error"), "message": message}
    return json_bytes({"api_version": API_VERSION, "error": error}) + b"\n"


def document(fields: Mapping[str, object]) -> bytes:
    """A whole answer: the version first, then the fields."""
    return json_bytes({"api_version": API_VERSION, **fields}) + b"\n"


def iso_time(seconds: float | None) -> str | None:
    """Seconds since 1970 as ISO 8601 in UTC; None stays None."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
