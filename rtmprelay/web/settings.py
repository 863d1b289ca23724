"""What an operator says of the HTTP part."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import attrs

from rtmprelay.errors import ConfigError
from rtmprelay.files.secret_file import read_secret
from rtmprelay.secret import Secret

#: Where the token is taken from when no option gives one.
TOKEN_VARIABLE = "RTMPRELAY_HTTP_TOKEN"  # noqa: S105

#: Whoever can guess the token can steer the relay.
SHORTEST_TOKEN = 8

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s?#@]+", re.IGNORECASE)


@attrs.frozen
class HttpSettings:
    """Where the HTTP part listens, who may change things, and what clients may cost."""

    #: Where to listen, as a Twisted endpoint description; None for no HTTP at all.
    listen: str | None = None
    #: What a request must bring to change anything; None allows no changes.
    token: Secret | None = None
    #: Whose pages may read status and media: origins, or `*` for all.
    cors: tuple[str, ...] = ()
    #: Connections at the same time, with those that watch live media.
    max_http_connections: int = 2_000
    #: Those who watch live media at the same time; fewer than connections, so that the status stays in reach.
    max_media_readers: int = 1_500
    #: Readers of the event stream at the same time.
    max_event_readers: int = 250
    #: Bytes of a request's body: a destination has a few hundred.
    max_body: int = 65_536
    #: Seconds from the first byte of a request to its last.
    request_timeout: float = 10.0
    #: Seconds that a connection may wait for its next request.
    keep_alive: float = 75.0
    #: Bytes of events that wait for a reader that does not take them.
    unread_events: int = 262_144
    #: Seconds for which a client may leave unread what waits for it.
    unread_timeout: float = 30.0


def read_token(text: str) -> Secret:
    """The token that an option gives: itself, or `file:PATH`. No message shows it."""
    if text.startswith("file:"):
        text = read_secret(Path(text.removeprefix("file:")), "the file").reveal()
    return _checked(text)


def token_from(environment: Mapping[str, str] | None = None) -> Secret | None:
    """The token in the environment, if there is one."""
    text = (os.environ if environment is None else environment).get(TOKEN_VARIABLE, "")
    if not text:
        return None
    try:
        return _checked(text)
    except ConfigError as error:
        raise ConfigError(f"{TOKEN_VARIABLE} in the environment: {error}") from None


def _checked(token: str) -> Secret:
    if len(token) < SHORTEST_TOKEN:
        raise ConfigError(f"a token needs at least {SHORTEST_TOKEN} characters")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError("a token is made of ASCII characters without spaces, so that a header can carry it")
    return Secret(token)


def read_origin(text: str) -> str:
    """An origin whose pages may read: `https://host`, `http://host:port` or `*`."""
    if text == "*":
        return text
    if _ORIGIN.fullmatch(text) is None or not text.isascii():
        raise ConfigError(f"{text!r} is no origin: https://host, http://host:port or * is expected")
    return text.lower()
