"""What an operator says of a destination."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping

import attrs

from rtmprelay.wire.url import RtmpUrl


@attrs.frozen
class DestinationSettings:
    """One destination, as it is configured."""

    #: What the log, the status and the metrics call it.
    name: str
    url: RtmpUrl
    #: Where to go when `url` does not work, in this order.
    backup: tuple[RtmpUrl, ...] = ()
    #: Failures in a row after which the next address is tried.
    failures_before_backup: int = 3
    enabled: bool = True
    #: Failures in a row after which it is given up until the next source; 0 never gives up.
    max_retries: int = 0
    #: Which streams go to it: a glob on `app/name`.
    match: str = "*"
    #: Seconds for which it is held when its source is lost without a goodbye.
    linger: float = 10.0
    #: Whether the certificate of an rtmps:// server is checked.
    verify: bool = True
    #: A file with the certificates to trust instead of the system's, for private servers.
    ca_file: str | None = None
    #: Whatever the operator wants to remember about it.
    metadata: Mapping[str, object] = attrs.field(factory=dict)

    @property
    def addresses(self) -> tuple[RtmpUrl, ...]:
        """All addresses, the preferred one first."""
        return (self.url, *self.backup)

    def connects_like(self, other: DestinationSettings) -> bool:
        """Whether all that differs is what a connection can live with: it need not be made anew."""
        return other == attrs.evolve(
            self,
            metadata=other.metadata,
            linger=other.linger,
            max_retries=other.max_retries,
            failures_before_backup=other.failures_before_backup,
        )

    def wants(self, stream_key: str) -> bool:
        """Whether a stream goes here."""
        return fnmatch.fnmatchcase(stream_key, self.match)
