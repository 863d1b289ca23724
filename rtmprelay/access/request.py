"""What somebody wants to do, and what an authorizer says to it."""

from __future__ import annotations

from enum import Enum
from urllib.parse import parse_qsl

import attrs

from rtmprelay.secret import Secret

#: More parameters than this have nothing to do with credentials.
_MOST_PARAMETERS = 64

#: Characters of a query string that are looked at: the longest tokens have some 4,000.
_LONGEST_QUERY = 16_384


class Action(Enum):
    """What somebody wants to do with a stream."""

    PUBLISH = "publish"
    PLAY = "play"


@attrs.frozen
class Credentials:
    """What somebody brought along to be let in. Nothing of it can be printed by accident.

    Attributes:
        user: The name of a user whose password has been checked; None if there is none.
    """

    _query: Secret = attrs.field(factory=lambda: Secret(""))
    user: str | None = None

    def parameter(self, *names: str) -> Secret | None:
        """The first of these parameters of the query string that is there and not empty."""
        found = self.parameters()
        for name in names:
            if name in found:
                return found[name]
        return None

    def parameters(self) -> dict[str, Secret]:
        """All parameters of the query string that are not empty; of several with one name, the first."""
        query = self._query.reveal()
        if len(query) > _LONGEST_QUERY:
            return {}
        try:
            # A plus is a plus: keys are made of base64 more often than they come out of a form.
            pairs = parse_qsl(query.replace("+", "%2B"), max_num_fields=_MOST_PARAMETERS)
        except ValueError:
            return {}
        return {name: Secret(value) for name, value in reversed(pairs)}

    @property
    def are_missing(self) -> bool:
        """Whether nothing was brought along."""
        return self.user is None and not self._query

    def as_query(self) -> Secret:
        """All of it as it came, for those who check it elsewhere."""
        return self._query


@attrs.frozen(kw_only=True)
class AccessRequest:
    """Somebody wants to publish or play a stream."""

    action: Action
    #: The key of the stream, `app/name`.
    stream: str
    app: str
    name: str
    #: The host it comes from; empty if it is not known, as with a unix socket.
    host: str
    #: The connection's name in the log.
    connection: str
    #: rtmp or http.
    protocol: str
    credentials: Credentials


@attrs.frozen
class Verdict:
    """What an authorizer says.

    Attributes:
        reason: Why not, for the log and for the client. It must not hold a secret, and says no more than a stranger may
            know.
    """

    allowed: bool
    reason: str = ""


ALLOWED = Verdict(True)


def refused(reason: str) -> Verdict:
    """No, and why."""
    return Verdict(False, reason)


#: No, because whoever knows cannot be asked.
CANNOT_TELL = refused("it cannot be checked at the moment; try again later")
