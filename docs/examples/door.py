"""door.py"""

from zope.interface import implementer

from rtmprelay.access.request import ALLOWED, AccessRequest, Verdict, refused
from rtmprelay.errors import ConfigError
from rtmprelay.interfaces import IStreamAuthorizer
from rtmprelay.secret import Secret


@implementer(IStreamAuthorizer)
class Door:
    """Opens for a word."""

    def __init__(self, word: Secret) -> None:
        self._word = word

    def authorize(self, request: AccessRequest) -> Verdict:
        """Secrets are compared in constant time."""
        if request.credentials.parameter("word") == self._word:
            return ALLOWED
        return refused("that is not the word")


def make(argument: str, reactor: object) -> Door:
    """Called for --auth door:WORD."""
    if not argument:
        raise ConfigError("the word is missing")
    return Door(Secret(argument))
