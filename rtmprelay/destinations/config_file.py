"""The relay configuration: a JSON file that names the destinations.

    {"destinations": [{"name": "YouTube", "url": "rtmps://host/app", "stream_key": "${YOUTUBE_KEY}"}]}

Everything that is wrong with it is told at once, each with its place, and never with a key.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import attrs
from cattrs import BaseValidationError, Converter, transform_error
from cattrs.gen import make_dict_structure_fn

from rtmprelay.destinations.manager import refuse_duplicates
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.errors import ConfigError
from rtmprelay.files.pem import read_certificates
from rtmprelay.files.secret_file import read_secret, read_text
from rtmprelay.secret import Secret
from rtmprelay.wire.url import RtmpUrl

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@attrs.frozen
class _DestinationEntry:
    """One destination as the file has it. docs/reference/configuration.rst shows these comments."""

    #: What the log, the status and the metrics call it.
    name: str
    #: The address, with or without the key.
    url: str
    #: The key; `${NAME}` takes it from the environment.
    stream_key: str | None = None
    #: A file with the key in it.
    stream_key_file: str | None = None
    #: Addresses to go to when `url` does not work, in this order.
    backup: list[str] = attrs.field(factory=list)
    #: Failures in a row after which the next address is tried; one that works is stayed with.
    failures_before_backup: int = 3
    #: Whether it is used.
    enabled: bool = True
    #: Failures in a row after which it is given up until the next source; 0 never gives up.
    max_retries: int = 0
    #: Which streams go there: a glob on `app/name`.
    match: str = "*"
    #: Seconds for which it is held when its source is lost without a goodbye.
    linger: float = 10.0
    #: Whether the certificate of an rtmps server is checked.
    verify: bool = True
    #: Certificates to trust instead of the system's, for a private server.
    ca_file: str | None = None
    #: Whatever you want to remember about it.
    metadata: dict[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class _RelayFile:
    destinations: list[_DestinationEntry]


def _exactly(kind: type, name: str) -> Any:
    """A reader for values that must be of this type already: text is no number, and a number is no text."""

    def read(value: object, _: type) -> object:
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise ValueError(f"{name} is expected")
        return value

    return read


def _read_float(value: object, _: type) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a number is expected")
    return float(value)


def _converter() -> Converter:
    converter = Converter(forbid_extra_keys=True)
    converter.register_structure_hook(str, _exactly(str, "text"))
    converter.register_structure_hook(int, _exactly(int, "a whole number"))
    converter.register_structure_hook(bool, _exactly(bool, "true or false"))
    converter.register_structure_hook(float, _read_float)

    def read_list(value: object, kind: Any) -> list[object]:
        # Left alone, a text would do as the list of its characters.
        if not isinstance(value, list):
            raise ValueError("a list is expected")
        (item,) = get_args(kind)
        items: Any = tuple.__class_getitem__((item, ...))
        return list(converter.structure(value, items))

    def is_list(kind: Any) -> bool:
        origin: Any = get_origin(kind)
        return origin is list

    converter.register_structure_hook_func(is_list, read_list)
    for kind in (_DestinationEntry, _RelayFile):
        converter.register_structure_hook(
            kind, make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True)
        )
    return converter


def _describe(error: BaseException, _: type | None) -> str:
    if isinstance(error, KeyError):
        return f"the field {error} is missing"
    extra = getattr(error, "extra_fields", None)
    if extra:
        return f"unknown field {', '.join(sorted(map(repr, extra)))}"
    if isinstance(error, ValueError):
        return str(error)
    return "this is not what is expected here"


def parse_relay_config(
    text: str, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> list[DestinationSettings]:
    """The destinations that a configuration names.

    Args:
        folder: Where relative names of key files and certificates begin.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"it is not valid JSON: {error}") from None
    except RecursionError:
        raise ConfigError("it is not valid JSON for us: it is nested too deeply") from None
    if not isinstance(document, dict):
        raise ConfigError('it is no JSON object with a field "destinations"')
    try:
        entries = _converter().structure(document, _RelayFile).destinations
    except BaseValidationError as error:
        raise ConfigError("; ".join(transform_error(error, format_exception=_describe))) from None
    environment = os.environ if environment is None else environment
    folder = folder or Path()
    settings = [_settings(entry, index, environment, folder) for index, entry in enumerate(entries)]
    return refuse_duplicates(settings)


def _settings(
    entry: _DestinationEntry, index: int, environment: Mapping[str, str], folder: Path
) -> DestinationSettings:
    where = f"destinations[{index}]"
    try:
        return _checked_settings(entry, environment, folder)
    except ConfigError as error:
        raise ConfigError(f"{where} ({entry.name!r}): {error}") from None


def _checked_settings(
    entry: _DestinationEntry, environment: Mapping[str, str], folder: Path
) -> DestinationSettings:
    key = _stream_key(entry, environment, folder)
    if not entry.name.strip() or not entry.name.isprintable():
        raise ConfigError("the name must be printable text")
    if not math.isfinite(entry.linger):
        raise ConfigError("linger must be a number of seconds")
    if entry.max_retries < 0 or entry.linger < 0 or entry.failures_before_backup < 1:
        raise ConfigError(
            "max_retries and linger must not be negative, and failures_before_backup must be positive"
        )
    return DestinationSettings(
        name=entry.name,
        url=_url(entry.url, "url", key, environment),
        backup=tuple(
            _url(url, f"backup[{number}]", key, environment) for number, url in enumerate(entry.backup)
        ),
        failures_before_backup=entry.failures_before_backup,
        enabled=entry.enabled,
        max_retries=entry.max_retries,
        match=entry.match,
        linger=entry.linger,
        verify=entry.verify,
        ca_file=_certificate_file(entry.ca_file, folder),
        metadata=entry.metadata,
    )


def _stream_key(entry: _DestinationEntry, environment: Mapping[str, str], folder: Path) -> Secret | None:
    if entry.stream_key is not None and entry.stream_key_file is not None:
        raise ConfigError("stream_key and stream_key_file cannot both be given")
    if entry.stream_key is not None:
        return Secret(_filled_in_key(entry.stream_key, environment))
    if entry.stream_key_file is not None:
        return read_secret(folder / entry.stream_key_file, "stream_key_file")
    return None


def _filled_in_key(text: str, environment: Mapping[str, str]) -> str:
    try:
        key = _fill_in(text, environment)
    except ConfigError as error:
        raise ConfigError(f"stream_key: {error}") from None
    if text and not key:
        # Without a key, the source's name would be taken for one.
        raise ConfigError(f"stream_key: {text} is empty in the environment")
    return key


def _certificate_file(name: str | None, folder: Path) -> str | None:
    if name is None:
        return None
    path = str(folder / name)
    read_certificates(path)
    return path


def _url(text: str, field: str, key: Secret | None, environment: Mapping[str, str]) -> RtmpUrl:
    try:
        return RtmpUrl.parse(_fill_in(text, environment), key)
    except ConfigError as error:
        raise ConfigError(f"{field}: {error}") from None


def _fill_in(text: str, environment: Mapping[str, str]) -> str:
    """Replace `${NAME}` by the environment's value."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise ConfigError(f"the environment has no {match[1]}")
        return environment[match[1]]

    return _VARIABLE.sub(value, text)


#: Names stand in metrics and on screens.
_LONGEST_REQUESTED_NAME = 128

#: What names a file of the server. A request must not be able to have one sent somewhere as a key.
_FILE_FIELDS = ("stream_key_file", "ca_file")


def destination_from_entry(entry: Mapping[str, object]) -> DestinationSettings:
    """The destination that a request describes: an entry of the file, but without files and environment."""
    for field in _FILE_FIELDS:
        if entry.get(field) is not None:
            raise ConfigError(f"{field} names a file on the server: only the configuration file may do that")
    try:
        parsed = _converter().structure(dict(entry), _DestinationEntry)
    except BaseValidationError as error:
        raise ConfigError("; ".join(transform_error(error, format_exception=_describe))) from None
    if any(_VARIABLE.search(text) for text in (parsed.url, parsed.stream_key or "", *parsed.backup)):
        raise ConfigError(
            "${...} takes values from the server's environment: only the configuration file may do that"
        )
    if len(parsed.name) > _LONGEST_REQUESTED_NAME:
        raise ConfigError(f"the name is too long: {_LONGEST_REQUESTED_NAME} characters is the most")
    return _checked_settings(parsed, {}, Path())


def read_relay_config(path: str) -> list[DestinationSettings]:
    """The destinations that a file names; relative names in it begin at its folder."""
    text = read_text(Path(path))
    try:
        return parse_relay_config(text, folder=Path(path).parent)
    except ConfigError as error:
        raise ConfigError(f"{path!r}: {error}") from None


def destination_from_url(text: str, taken: set[str]) -> DestinationSettings:
    """The destination that `--relay-to URL` means; its name is its place, numbered if that is taken."""
    url = RtmpUrl.parse(text)
    name = url.place
    number = 2
    while name in taken:
        name = f"{url.place}-{number}"
        number += 1
    return DestinationSettings(name=name, url=url)
