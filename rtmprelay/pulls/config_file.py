"""The pulls in the relay configuration file, and those in requests.

{"pulls": [{"name": "origin", "match": "live/*", "url": "rtmp://origin/live/{name}"}], "destinations": []}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from rtmprelay.errors import ConfigError
from rtmprelay.files.json_entries import (
    VARIABLE,
    entry_converter,
    fill_in_variables,
    parse_document,
    read_entry,
)
from rtmprelay.files.pem import read_certificates
from rtmprelay.files.secret_file import read_text
from rtmprelay.pulls.settings import PullSettings, checked, refuse_duplicate_names
from rtmprelay.wire.url import RtmpUrl

#: Characters of a name that comes with a request: it is shown in metrics and on the page.
_LONGEST_REQUESTED_NAME = 128


@attrs.frozen
class _PullEntry:
    """One pull as it stands in the file. docs/reference/configuration.rst shows these comments."""

    #: The name of the pull in the log, the status and the metrics.
    name: str
    #: Where the streams are; `{app}` and `{name}` are filled in, `${NAME}` takes a value from the environment.
    url: str
    #: Which streams are fetched: a glob on `app/name`.
    match: str = "*"
    #: Fetch the stream even if nobody wants it; then `match` is the name of one stream.
    always: bool = False
    #: Whether the certificate of an rtmps server is checked.
    verify: bool = True
    #: Certificates to trust instead of the system's, for a private server.
    ca_file: str | None = None


@attrs.frozen
class _PullsOfFile:
    pulls: list[_PullEntry] = attrs.field(factory=list)


def read_pulls(path: str) -> list[PullSettings]:
    """The pulls in a file; relative names in it start from its folder.

    Raises:
        ConfigError: The file cannot be read, or something is wrong with it.
    """
    text = read_text(Path(path))
    try:
        return parse_pulls(text, folder=Path(path).parent)
    except ConfigError as error:
        raise ConfigError(f"{path!r}: {error}") from None


def parse_pulls(
    text: str, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> list[PullSettings]:
    """The pulls in the text of a configuration.

    Raises:
        ConfigError: Something is wrong with them.
    """
    document = parse_document(text)
    pulls: dict[str, Any] = {"pulls": document["pulls"]} if "pulls" in document else {}
    entries = read_entry(entry_converter(_PullEntry, _PullsOfFile), pulls, _PullsOfFile).pulls
    environment = os.environ if environment is None else environment
    found = []
    for index, entry in enumerate(entries):
        try:
            found.append(_settings(entry, environment, folder or Path()))
        except ConfigError as error:
            raise ConfigError(f"pulls[{index}] ({entry.name!r}): {error}") from None
    return list(refuse_duplicate_names(found))


def pull_from_entry(entry: Mapping[str, object]) -> PullSettings:
    """The pull in a request: an entry as in the file, but without files and the environment.

    Raises:
        ConfigError: Something is wrong with it.
    """
    if entry.get("ca_file") is not None:
        raise ConfigError("ca_file names a file on the server: only the configuration file may do that")
    parsed = read_entry(entry_converter(_PullEntry), dict(entry), _PullEntry)
    if VARIABLE.search(parsed.url):
        raise ConfigError(
            "${...} takes values from the server's environment: only the configuration file may do that"
        )
    if len(parsed.name) > _LONGEST_REQUESTED_NAME:
        raise ConfigError(f"the name is too long: {_LONGEST_REQUESTED_NAME} characters is the most")
    return _settings(parsed, {}, Path())


def _settings(entry: _PullEntry, environment: Mapping[str, str], folder: Path) -> PullSettings:
    try:
        url = RtmpUrl.parse(fill_in_variables(entry.url, environment))
    except ConfigError as error:
        raise ConfigError(f"url: {error}") from None
    ca_file = None
    if entry.ca_file is not None:
        ca_file = str(folder / entry.ca_file)
        read_certificates(ca_file)
    return checked(
        PullSettings(
            name=entry.name,
            url=url,
            match=entry.match,
            always=entry.always,
            verify=entry.verify,
            ca_file=ca_file,
        )
    )
