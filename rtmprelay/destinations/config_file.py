"""The relay configuration file: JSON with a list of destinations, read by the server and changed over HTTP.

    {"destinations": [{"name": "YouTube", "url": "rtmps://host/app", "stream_key": "${YOUTUBE_KEY}"}]}

An error message lists all mistakes with their places, and shows no key.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from rtmprelay.destinations.settings import DestinationSettings, refuse_duplicates
from rtmprelay.errors import ConfigError
from rtmprelay.files.disk import sync_folder
from rtmprelay.files.json_entries import (
    VARIABLE,
    entry_converter,
    fill_in_variables,
    parse_document,
    read_entry,
)
from rtmprelay.files.pem import read_certificates
from rtmprelay.files.secret_file import read_secret, read_text
from rtmprelay.secret import Secret
from rtmprelay.wire.url import RtmpUrl


@attrs.frozen
class _DestinationEntry:
    """One destination as it stands in the file. docs/reference/configuration.rst shows these comments."""

    #: The name of the destination in the log, the status and the metrics.
    name: str
    #: The address, with or without the key.
    url: str
    #: The key; `${NAME}` takes it from the environment.
    stream_key: str | None = None
    #: A file that holds the key.
    stream_key_file: str | None = None
    #: Addresses to try when `url` does not work, in this order.
    backup: list[str] = attrs.field(factory=list)
    #: Failures in a row after which the next address is tried. The relay stays with an address that works.
    failures_before_backup: int = 3
    #: Whether streams are sent there.
    enabled: bool = True
    #: Retries in a row after which it is given up until the next publisher; 0 never gives up.
    max_retries: int = 0
    #: Which streams are sent there: a glob on `app/name`.
    match: str = "*"
    #: Seconds for which the connection is kept when the publisher is lost without a goodbye.
    linger: float = 10.0
    #: Whether the certificate of an rtmps server is checked.
    verify: bool = True
    #: Certificates to trust instead of the system's, for a private server.
    ca_file: str | None = None
    #: Notes of yours; the status shows them.
    metadata: dict[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class _RelayFile:
    destinations: list[_DestinationEntry]
    #: `rtmprelay.pulls.config_file` reads them.
    pulls: list[Any] = attrs.field(factory=list)


def parse_relay_config(
    text: str, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> list[DestinationSettings]:
    """The destinations in the text of a configuration.

    Args:
        environment: Where `${NAME}` is looked up; the environment of the process if None.
        folder: The folder that relative names of key files and certificates start from.

    Raises:
        ConfigError: Something is wrong with it.
    """
    document = parse_document(text)
    if "pulls" in document:
        # A relay that only fetches has no destinations.
        document = {"destinations": [], **document}
    entries = read_entry(entry_converter(_DestinationEntry, _RelayFile), document, _RelayFile).destinations
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
        key = fill_in_variables(text, environment)
    except ConfigError as error:
        raise ConfigError(f"stream_key: {error}") from None
    if text and not key:
        # Without a key, the stream would be published under its own name.
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
        return RtmpUrl.parse(fill_in_variables(text, environment), key)
    except ConfigError as error:
        raise ConfigError(f"{field}: {error}") from None


#: Characters of a name that comes with a request: it is shown in metrics and on the page.
_LONGEST_REQUESTED_NAME = 128

#: Fields that name a file of the server. With them a request could have any file sent to its own server as a key.
_FILE_FIELDS = ("stream_key_file", "ca_file")


def destination_from_entry(entry: Mapping[str, object]) -> DestinationSettings:
    """The destination in a request: an entry as in the file, but without files and the environment.

    Raises:
        ConfigError: Something is wrong with it.
    """
    for field in _FILE_FIELDS:
        if entry.get(field) is not None:
            raise ConfigError(f"{field} names a file on the server: only the configuration file may do that")
    parsed = read_entry(entry_converter(_DestinationEntry), dict(entry), _DestinationEntry)
    if any(VARIABLE.search(text) for text in (parsed.url, parsed.stream_key or "", *parsed.backup)):
        raise ConfigError(
            "${...} takes values from the server's environment: only the configuration file may do that"
        )
    if len(parsed.name) > _LONGEST_REQUESTED_NAME:
        raise ConfigError(f"the name is too long: {_LONGEST_REQUESTED_NAME} characters is the most")
    return _checked_settings(parsed, {}, Path())


def read_relay_config(path: str) -> list[DestinationSettings]:
    """The destinations in a file; relative names in it start from its folder.

    Raises:
        ConfigError: The file cannot be read, or something is wrong with it.
    """
    text = read_text(Path(path))
    try:
        return parse_relay_config(text, folder=Path(path).parent)
    except ConfigError as error:
        raise ConfigError(f"{path!r}: {error}") from None


_Entries = list[dict[str, Any]]


class RelayFile:
    """The configuration file, changed one entry at a time. All methods wait for the disk.

    Other entries keep their order, their placeholders and their unknown fields. The file is replaced as a whole: a
    crash leaves the old one or the new one.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        #: The names of the destinations in the file, when it was read or changed the last time.
        self.names: frozenset[str] = frozenset()
        self.reread_names()

    def reread_names(self) -> None:
        """Read `names` again; they stay as they are if the file cannot be read."""
        with suppress(ConfigError, ValueError, RecursionError):
            self.names = _names(_entries(json.loads(read_text(Path(self._path)))))

    def add(self, entry: Mapping[str, object]) -> None:
        def change(entries: _Entries) -> None:
            if entry.get("name") in _names(entries):
                raise ConfigError(f"{self._path!r} has a destination {entry.get('name')!r} already")
            entries.append(dict(entry))

        self._change(change)

    def remove(self, name: str) -> None:
        def change(entries: _Entries) -> None:
            entries[:] = [entry for entry in entries if entry is not self._entry(entries, name)]

        self._change(change)

    def enable(self, name: str, enabled: bool) -> None:
        def change(entries: _Entries) -> None:
            self._entry(entries, name)["enabled"] = enabled

        self._change(change)

    def update(self, name: str, fields: Mapping[str, object]) -> None:
        """Replace some fields of an entry; None removes one."""

        def change(entries: _Entries) -> None:
            entry = self._entry(entries, name)
            moves = not {"url", "backup", "stream_key"}.isdisjoint(fields)
            if moves and _keeps_secrets_in(entry) and not {"url", "stream_key"} <= set(fields):
                raise ConfigError(
                    f"lasting needs url and stream_key both: in {self._path!r} the key or a password is"
                    " a part of the address"
                )
            if "stream_key" in fields:
                entry.pop("stream_key_file", None)
            for field, value in fields.items():
                if value is None:
                    entry.pop(field, None)
                else:
                    entry[field] = value

        self._change(change)

    def _entry(self, entries: _Entries, name: str) -> dict[str, Any]:
        for entry in entries:
            if entry.get("name") == name:
                return entry
        raise ConfigError(
            f"lasting is not possible: {name!r} is not in {self._path!r}; it comes from the command line,"
            " or was added without lasting"
        )

    def _change(self, change: Callable[[_Entries], None]) -> None:
        text = read_text(Path(self._path))
        folder = Path(self._path).parent
        try:
            # A file with mistakes is not touched: the operator corrects it first.
            parse_relay_config(text, folder=folder)
            document = json.loads(text)
        except ConfigError as error:
            raise ConfigError(f"{self._path!r} cannot be changed until it is corrected: {error}") from None
        entries = _entries(document)
        change(entries)
        changed = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        parse_relay_config(changed, folder=folder)
        try:
            replace_file(Path(self._path), changed.encode("utf-8", "surrogatepass"))
        except OSError as error:
            raise ConfigError(f"{self._path!r} cannot be written: {error.strerror}") from None
        self.names = _names(entries)


def _keeps_secrets_in(entry: Mapping[str, Any]) -> bool:
    """Whether the address of an entry has a key or a password in it."""
    _, _, rest = str(entry.get("url", "")).partition("://")
    host, _, path = rest.partition("/")
    has_key_field = entry.get("stream_key") is not None or entry.get("stream_key_file") is not None
    return "@" in host or ("/" in path.strip("/") and not has_key_field)


def _entries(document: Any) -> _Entries:
    entries = document["destinations"] if isinstance(document, dict) and "destinations" in document else []
    return entries if isinstance(entries, list) else []


def _names(entries: _Entries) -> frozenset[str]:
    return frozenset(str(entry.get("name")) for entry in entries if isinstance(entry, dict))


def replace_file(path: Path, content: bytes) -> None:
    """Replace the content of a file in one step; its permissions, its owner and links to it stay."""
    target = Path(os.path.realpath(path))
    before = target.stat()
    new = target.with_name(f".{target.name}.{os.getpid()}.new")
    # It holds keys: nobody else may read it, not even for a moment.
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            with suppress(PermissionError):
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
            os.fsync(file.fileno())
        os.replace(new, target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    # Until the folder is on the disk, a crash may bring the old file back.
    with suppress(OSError):
        sync_folder(target.parent)
