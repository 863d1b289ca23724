"""The settings of a pull: which streams are fetched from where."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable

import attrs

from rtmprelay.errors import ConfigError
from rtmprelay.wire.url import RtmpUrl

_WILDCARDS = frozenset("*?[")


@attrs.frozen
class PullSettings:
    """One rule, as it is configured."""

    #: The name of the pull in the log, the status and the metrics.
    name: str
    #: Where the streams are; `{app}` and `{name}` are filled in.
    url: RtmpUrl
    #: Which streams are fetched: a glob on `app/name`.
    match: str = "*"
    #: Fetch the stream even if nobody wants it. Then `match` names one stream.
    always: bool = False
    #: Whether the certificate of an rtmps:// server is checked.
    verify: bool = True
    #: A file with the certificates to trust instead of the system's.
    ca_file: str | None = None

    def wants(self, stream_key: str) -> bool:
        """Whether a stream is fetched by this rule."""
        return fnmatch.fnmatchcase(stream_key, self.match)


def pull_from_option(text: str, taken: Collection[str]) -> PullSettings:
    """The pull that `--pull GLOB=URL` means. It is called `host:port/app`, with a number if that is taken."""
    match, equals, address = text.partition("=")
    if not equals or "://" in match:
        raise ConfigError("GLOB=URL is expected, such as live/*=rtmp://origin/live/{name}")
    url = RtmpUrl.parse(address)
    name = url.location
    number = 2
    while name in taken:
        name = f"{url.location}-{number}"
        number += 1
    return checked(PullSettings(name=name, url=url, match=match))


def checked(settings: PullSettings) -> PullSettings:
    """Return the settings if they make sense.

    Raises:
        ConfigError: They do not.
    """
    if not settings.name.strip() or not settings.name.isprintable():
        raise ConfigError("the name must be printable text")
    if not settings.match:
        raise ConfigError("match is empty: a glob on app/name is expected, such as live/*")
    if settings.always and (not _WILDCARDS.isdisjoint(settings.match) or "/" not in settings.match):
        raise ConfigError(
            f"always needs the name of one stream in match, such as live/cam: {settings.match!r} is a pattern"
        )
    return settings


def refuse_duplicate_names(pulls: Iterable[PullSettings]) -> tuple[PullSettings, ...]:
    """Return the pulls if no two have the same name.

    Raises:
        ConfigError: Two have.
    """
    found: dict[str, PullSettings] = {}
    for settings in pulls:
        if settings.name in found:
            raise ConfigError(f"there are two pulls called {settings.name!r}")
        found[settings.name] = settings
    return tuple(found.values())
