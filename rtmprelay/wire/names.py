"""The name of a stream: clients write it in many ways, which all lead to one key."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from urllib.parse import urlsplit

import attrs

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.errors import LimitExceededError, RemoteProtocolError
from rtmprelay.secret import Secret
from rtmprelay.wire.limits import LONGEST_CREDENTIALS, LONGEST_STREAM_NAME

#: FFmpeg and Flash put the name of the container before the stream name ("mp4:talk.mp4").
_CONTAINER_PREFIXES = ("mp4:", "flv:", "f4v:", "mp3:")

#: Control characters and line separators, which could forge lines in a log.
_UNPRINTABLE = ("Cc", "Zl", "Zp")

#: Characters that change the direction of text could make one name look like another.
_DIRECTION_MARKS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class UnusableNameError(RemoteProtocolError):
    """A stream or an application cannot have this name."""


@attrs.frozen(eq=False)
class StreamKey:
    """The name of a stream, `app/name`. Only the whole text counts: `a` + `b/c` equals `a/b` + `c`."""

    app: str
    name: str

    def __str__(self) -> str:
        return "/".join(part for part in (self.app, self.name) if part)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StreamKey):
            return NotImplemented
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


@attrs.frozen
class Application:
    """The application that a `connect` names, and the query strings that came with it."""

    app: str
    credentials: Secret


def _split_query(text: str) -> tuple[str, str]:
    path, _, query = text.partition("?")
    return path, query


def _refuse_unusable(text: str, what: str, most: int) -> None:
    size = len(text.encode("utf-8", "backslashreplace"))
    if size > most:
        raise UnusableNameError(f"the {what} has {size} bytes; at most {most} are allowed")
    if any(
        unicodedata.category(character) in _UNPRINTABLE or character in _DIRECTION_MARKS for character in text
    ):
        raise UnusableNameError(f"the {what} contains control characters")


def _text_property(properties: Mapping[str, AmfValue], *names: str) -> str:
    for name in names:
        value = properties.get(name)
        if isinstance(value, str) and value:
            # Some clients put the URL in quotes.
            return value.strip("'\" ")
    return ""


def _path_and_query(url: str) -> tuple[str, str]:
    try:
        # A '#' is an ordinary character here, because tokens may contain it.
        parts = urlsplit(url, allow_fragments=False)
    except ValueError:
        return "", ""
    return parts.path, parts.query


def _join_queries(most: int, *queries: str) -> Secret:
    """Several query strings as one, without repetition."""
    joined = "&".join(dict.fromkeys(query for query in queries if query))
    size = len(joined.encode("utf-8", "backslashreplace"))
    if size > most:
        raise LimitExceededError(
            "credentials_size", f"{size} bytes of keys and tokens; at most {most} are allowed"
        )
    return Secret(joined)


def read_application(
    properties: Mapping[str, AmfValue],
    most: int = LONGEST_STREAM_NAME,
    most_credentials: int = LONGEST_CREDENTIALS,
) -> Application:
    """The application that a `connect` names. Without `app` it is the path of `tcUrl`; it may be empty.

    Args:
        most: Bytes that it may have, and `most_credentials`, what the queries may have.
    """
    path, query = _path_and_query(_text_property(properties, "tcUrl", "tcurl"))
    app, app_query = _split_query(_text_property(properties, "app"))
    app = (app or path).strip("/")
    _refuse_unusable(app, "application name", most)
    return Application(app, _join_queries(most_credentials, app_query, query))


def read_stream_name(
    application: Application,
    name: str,
    most: int = LONGEST_STREAM_NAME,
    most_credentials: int = LONGEST_CREDENTIALS,
) -> tuple[StreamKey, Secret]:
    """The key of a stream that a client names inside an application, and the credentials that came with it.

    Args:
        most: Bytes that the key may have, and `most_credentials`, what the queries may have.
    """
    path, query = _split_query(name)
    path = path.strip("/")
    for prefix in _CONTAINER_PREFIXES:
        path = path.removeprefix(prefix)
    key = StreamKey(application.app, path.removesuffix(".flv").strip("/"))
    _refuse_unusable(str(key), "stream name", most)
    if not str(key):
        raise UnusableNameError("the stream has no name")
    return key, _join_queries(most_credentials, query, application.credentials.reveal())
