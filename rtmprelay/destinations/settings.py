"""The settings of a destination."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping

import attrs

from rtmprelay.errors import ConfigError
from rtmprelay.wire.url import RtmpUrl


@attrs.frozen
class DestinationSettings:
    """One destination, as it is configured."""

    #: The name of the destination in the log, the status and the metrics.
    name: str
    url: RtmpUrl
    #: Addresses to try when `url` does not work, in this order.
    backup: tuple[RtmpUrl, ...] = ()
    #: Failures in a row after which the next address is tried.
    failures_before_backup: int = 3
    enabled: bool = True
    #: Retries in a row after which it is given up until the next publisher; 0 never gives up.
    max_retries: int = 0
    #: Which streams are sent there: a glob on `app/name`.
    match: str = "*"
    #: Seconds for which the connection is kept when the publisher is lost without a goodbye.
    linger: float = 10.0
    #: Whether the certificate of an rtmps:// server is checked.
    verify: bool = True
    #: A file with the certificates to trust instead of the system's, for private servers.
    ca_file: str | None = None
    #: Notes of the operator.
    metadata: Mapping[str, object] = attrs.field(factory=dict)

    @property
    def addresses(self) -> tuple[RtmpUrl, ...]:
        """All addresses, the preferred one first."""
        return (self.url, *self.backup)

    def connects_like(self, other: DestinationSettings) -> bool:
        """Whether a connection made with these settings can stay when `other` replaces them."""
        return other == attrs.evolve(
            self,
            metadata=other.metadata,
            linger=other.linger,
            max_retries=other.max_retries,
            failures_before_backup=other.failures_before_backup,
        )

    def wants(self, stream_key: str) -> bool:
        """Whether a stream is sent to this destination."""
        return fnmatch.fnmatchcase(stream_key, self.match)


def destination_from_url(text: str, taken: Collection[str]) -> DestinationSettings:
    """The destination that `--relay-to URL` means. It is called `host:port/app`, with a number if that is taken."""
    url = RtmpUrl.parse(text)
    name = url.location
    number = 2
    while name in taken:
        name = f"{url.location}-{number}"
        number += 1
    return DestinationSettings(name=name, url=url)


def refuse_duplicates(destinations: list[DestinationSettings]) -> list[DestinationSettings]:
    """Return the destinations if no two have the same name, or the same address and streams.

    Raises:
        ConfigError: Two of them have.
    """
    names: set[str] = set()
    for index, settings in enumerate(destinations):
        if settings.name in names:
            raise ConfigError(f"there are two destinations called {settings.name!r}")
        names.add(settings.name)
        for other in destinations[:index]:
            if other.url.identity == settings.url.identity and other.match == settings.match:
                raise ConfigError(
                    f"{other.name!r} and {settings.name!r} go to the same place ({settings.url}) with the same key"
                )
    return destinations
