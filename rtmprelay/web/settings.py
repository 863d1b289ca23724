"""The settings of the HTTP part."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import attrs

from rtmprelay.addresses import TrustedProxies
from rtmprelay.errors import ConfigError
from rtmprelay.files.secret_file import read_secret
from rtmprelay.secret import Secret

#: The environment variable with the token, for when no option gives one.
TOKEN_VARIABLE = "RTMPRELAY_HTTP_TOKEN"  # noqa: S105

#: Characters. Anybody who guesses the token can change what the relay does.
MIN_TOKEN = 16

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s?#@]+", re.IGNORECASE)


@attrs.frozen
class HttpSettings:
    """Where the HTTP part listens, who may change things, and the limits for clients."""

    #: The listener, as a Twisted endpoint description; None for no HTTP at all.
    listen: str | None = None
    #: The listener for viewers, which has media and nothing else; None if there is none.
    media_listen: str | None = None
    #: The token that a request needs to change anything; None allows no changes.
    token: Secret | None = None
    #: The token that a request needs to read the status, too; None lets everybody read who can reach the port.
    read_token: Secret | None = None
    #: Origins whose pages may read status and media, or `*` for all.
    cors: tuple[str, ...] = ()
    #: Proxies whose X-Forwarded-For says who the client is.
    trusted_proxies: TrustedProxies = attrs.field(factory=TrustedProxies)
    #: Whether recordings can be watched.
    recordings: bool = False
    #: Connections at the same time, including those that watch live media.
    max_http_connections: int = 2_000
    #: Connections that watch live media at the same time; fewer than all, so that the status can still be read.
    max_media_readers: int = 1_500
    #: Readers of the event stream at the same time.
    max_event_readers: int = 250
    #: Connections of one IPv4 address or IPv6 network of 64 bits; those of a trusted proxy are not counted. All
    #: clients of a proxy that is not trusted have its address: this leaves room for others.
    max_http_connections_per_address: int | None = 1_600
    #: Connections of one address, which may be named by a trusted proxy, that watch live media.
    max_media_readers_per_address: int | None = 1_200
    #: Readers of the event stream of one address.
    max_event_readers_per_address: int | None = 200
    #: Bytes of a request's body. A destination has a few hundred.
    max_body: int = 65_536
    #: Seconds from the first byte of a request to its last, and from the connection to the first request.
    request_timeout: float = 10.0
    #: Seconds that a connection may wait for its next request.
    keep_alive: float = 75.0
    #: Bytes of events kept for a reader that does not read them.
    unread_events: int = 262_144
    #: Seconds for which a client may leave a response unread.
    unread_timeout: float = 30.0


def read_token(text: str) -> Secret:
    """The token from an option: the token itself, or `file:PATH`. No error message contains it."""
    if text.startswith("file:"):
        text = read_secret(Path(text.removeprefix("file:")), "the file").reveal()
    return _checked(text)


def token_from(environment: Mapping[str, str] | None = None) -> Secret | None:
    """The token in the environment; None if there is none."""
    text = (os.environ if environment is None else environment).get(TOKEN_VARIABLE, "")
    if not text:
        return None
    try:
        return _checked(text)
    except ConfigError as error:
        raise ConfigError(f"{TOKEN_VARIABLE} in the environment: {error}") from None


def _checked(token: str) -> Secret:
    if len(token) < MIN_TOKEN:
        raise ConfigError(f"a token needs at least {MIN_TOKEN} characters")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError("a token must be ASCII characters without spaces, because it is sent in a header")
    return Secret(token)


def read_origin(text: str) -> str:
    """An origin: `https://host`, `http://host:port` or `*`."""
    if text == "*":
        return text
    if _ORIGIN.fullmatch(text) is None or not text.isascii():
        raise ConfigError(f"{text!r} is not an origin: https://host, http://host:port or * is expected")
    return text.lower()
