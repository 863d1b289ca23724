"""Changing the settings of a destination over HTTP: what is shown of them, and what becomes of the key."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rtmprelay.destinations.config_file import destination_from_entry
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.errors import ConfigError
from rtmprelay.secret import Secret
from rtmprelay.wire.url import RtmpUrl

#: Fields that are replaced as they are. The addresses and the key depend on each other.
_PLAIN = ("failures_before_backup", "max_retries", "match", "linger", "verify", "metadata")
_ADDRESSES = ("url", "backup", "stream_key")

#: What can be changed.
EDITABLE = (*_ADDRESSES, *_PLAIN)

#: How an application of several parts ends where it is shown.
_SHORTENED = "/..."


def shown_settings(settings: DestinationSettings) -> dict[str, object]:
    """The settings without the key, the password and the query, as they can be changed."""
    return {
        "name": settings.name,
        "url": _shown(settings.url),
        "has_key": bool(settings.url.key),
        "backup": [_shown(url) for url in settings.backup],
        "failures_before_backup": settings.failures_before_backup,
        "enabled": settings.enabled,
        "max_retries": settings.max_retries,
        "match": settings.match,
        "linger": settings.linger,
        "verify": settings.verify,
        "metadata": dict(settings.metadata),
    }


def _shown(url: RtmpUrl) -> str:
    # A port that is not written stays unwritten: servers compare the address with their own.
    location = url.location if url.port_written else url.location.replace(f":{url.port}/", "/", 1)
    return f"{url.scheme}://{location}"


def edited_settings(settings: DestinationSettings, fields: Mapping[str, object]) -> DestinationSettings:
    """The settings with some fields replaced. An address is given without its key, which stays unless `stream_key` is given.

    Raises:
        ConfigError: Something is wrong with a field, or the key would be sent to a server it was not given for.
    """
    unknown = sorted(set(fields) - set(EDITABLE))
    if unknown:
        raise ConfigError(f"{unknown[0]!r} cannot be changed: {', '.join(EDITABLE)} can")
    # Checks the types, and what each field may be.
    checked = destination_from_entry({"url": "rtmp://any/app", **fields, "name": settings.name})
    edited = attrs.evolve(settings, **{name: getattr(checked, name) for name in _PLAIN if name in fields})
    if not any(name in fields for name in _ADDRESSES):
        return edited
    key = settings.url.key if "stream_key" not in fields else Secret(str(fields["stream_key"] or ""))
    is_new_key = "stream_key" in fields
    url, backup = settings.url, settings.backup
    if "url" in fields:
        url = _address(str(fields["url"]), key, settings, is_new_key)
    elif is_new_key:
        url = attrs.evolve(url, key=key)
    if "backup" in fields:
        texts = fields["backup"]
        assert isinstance(texts, list)
        backup = tuple(_address(str(text), key, settings, is_new_key) for text in texts)
    elif is_new_key:
        backup = tuple(attrs.evolve(one, key=key) for one in backup)
    return attrs.evolve(edited, url=url, backup=backup)


def _address(text: str, key: Secret, settings: DestinationSettings, is_new_key: bool) -> RtmpUrl:
    if text.endswith(_SHORTENED):
        raise ConfigError(f"the address ends in {_SHORTENED}, which stands for more: give all of it")
    url = RtmpUrl.parse(text, key or None)
    before = next((one for one in settings.addresses if _server(one) == _server(url)), None)
    if before is None:
        if settings.url.key and not is_new_key:
            raise ConfigError(
                "another server needs stream_key as well: a key is sent only where it was given for"
            )
        return url
    if not url.user:
        url = attrs.evolve(url, user=before.user, password=before.password)
    if not url.app_query and url.app == before.app:
        url = attrs.evolve(url, app_query=before.app_query)
    return url


def _server(url: RtmpUrl) -> tuple[str, str, int]:
    return url.scheme, url.host.lower(), url.port
