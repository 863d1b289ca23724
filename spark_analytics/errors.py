"""What goes wrong with a catalogue; each message is a sentence that a person can act on."""

from __future__ import annotations

from rtmprelay.errors import RtmpRelayError


class CatalogueError(RtmpRelayError):
    """A catalogue, a question about it, or the machine that is to answer cannot be used as it is."""


class NothingThereError(CatalogueError):
    """What was named is not there. It is another thing if nobody can tell, because a server does not answer."""


class CatalogueBusyError(CatalogueError):
    """Another run is writing to the same catalogue."""
