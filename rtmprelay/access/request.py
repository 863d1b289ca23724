"""A request to publish or play a stream, and the verdict of an authorizer."""

from __future__ import annotations

from enum import Enum
from urllib.parse import parse_qsl

import attrs

from rtmprelay.secret import Secret

#: A query string with more parameters than this carries no credentials.
_MAX_PARAMETERS = 64

#: Characters of a query string that are parsed: the longest tokens have some 4,000.
_MAX_QUERY = 16_384


class Action(Enum):
    """What a client may ask to do with a stream."""

    PUBLISH = "publish"
    PLAY = "play"


@attrs.frozen
class Credentials:
    """The credentials that a client sent. Printing them shows a mask.

    Attributes:
        user: The user whose password the server has checked; None if the client did not log in.
    """

    _query: Secret = attrs.field(factory=lambda: Secret(""))
    user: str | None = None

    def parameter(self, *names: str) -> Secret | None:
        """The first of these query parameters that is present and not empty."""
        found = self.parameters()
        for name in names:
            if name in found:
                return found[name]
        return None

    def parameters(self) -> dict[str, Secret]:
        """All query parameters that are not empty. If a name occurs twice, its first value counts."""
        query = self._query.reveal()
        if len(query) > _MAX_QUERY:
            return {}
        try:
            # A plus sign stays a plus sign: keys in base64 are more frequent than values from HTML forms.
            pairs = parse_qsl(query.replace("+", "%2B"), max_num_fields=_MAX_PARAMETERS)
        except ValueError:
            return {}
        return {name: Secret(value) for name, value in reversed(pairs)}

    @property
    def are_missing(self) -> bool:
        """Whether the client sent no credentials at all."""
        return self.user is None and not self._query

    def as_query(self) -> Secret:
        """The query string as the client sent it."""
        return self._query


@attrs.frozen(kw_only=True)
class AccessRequest:
    """A client asks to publish or play a stream.

    `app` and `name` are parts of the stream key: its first slash ends the app. A stream has the same two names for
    every authorizer, whether the client speaks RTMP or HTTP, and whether it opens the application `live/a` to play `b`
    or the application `live` to play `a/b`.
    """

    action: Action
    #: The stream key, `app/name`.
    stream: str
    #: The stream key up to its first slash; empty if there is no slash.
    app: str = attrs.field(init=False)
    #: The stream key after its first slash.
    name: str = attrs.field(init=False)
    #: The client's IP address; empty if it is unknown, as for a unix socket.
    host: str
    #: The name of the connection in the log.
    connection: str
    #: `rtmp` or `http`.
    protocol: str
    credentials: Credentials
    #: The relays that wait for the stream, if another relay asks; the last one is the client.
    chain: tuple[str, ...] = ()
    #: Whether the client is a node of this relay's cluster: it has checked its own viewer.
    is_cluster_node: bool = False

    @app.default
    def _app_of_stream(self) -> str:
        return _app_and_name(self.stream)[0]

    @name.default
    def _name_of_stream(self) -> str:
        return _app_and_name(self.stream)[1]


def _app_and_name(stream: str) -> tuple[str, str]:
    app, slash, name = stream.partition("/")
    return (app, name) if slash else ("", stream)


@attrs.frozen
class Verdict:
    """The answer of an authorizer.

    Attributes:
        reason: Why the request is refused. The log and the client get it, so it must not contain a secret or anything
            that a stranger should not know.
        is_busy: Whether a publish is refused because somebody publishes the stream already.
    """

    allowed: bool
    reason: str = ""
    is_busy: bool = False


ALLOWED = Verdict(True)


def refused(reason: str) -> Verdict:
    """A verdict that refuses the request."""
    return Verdict(False, reason)


#: The verdict when an authorizer cannot be reached or fails.
CANNOT_TELL = refused("it cannot be checked at the moment; try again later")

#: The verdict for an address that sent too many wrong keys.
TOO_MANY_WRONG = refused("too many wrong keys came from your address; try again later")
