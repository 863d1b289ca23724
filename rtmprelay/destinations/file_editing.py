"""Changes to the relay configuration file by the running server.

Only the entry in question is touched: other entries keep their order, their placeholders and fields that are not ours.
The file is replaced as a whole, so that a crash at any moment leaves the old one or the new one.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rtmprelay.destinations.config_file import parse_relay_config
from rtmprelay.errors import ConfigError
from rtmprelay.files.secret_file import read_text

Entries = list[dict[str, Any]]


class RelayFile:
    """The configuration file. All methods but `names` wait for the disk."""

    def __init__(self, path: str) -> None:
        self._path = path
        #: The destinations that stood in it when it was last looked at.
        self.names: frozenset[str] = frozenset()
        self.reread_names()

    def reread_names(self) -> None:
        """Look again which destinations stand there; a file that cannot be read changes nothing."""
        with suppress(ConfigError, ValueError, RecursionError):
            self.names = _names(_entries(json.loads(read_text(Path(self._path)))))

    def add(self, entry: Mapping[str, object]) -> None:
        """Write one more destination."""

        def change(entries: Entries) -> None:
            if entry.get("name") in _names(entries):
                raise ConfigError(f"{self._path!r} has a destination {entry.get('name')!r} already")
            entries.append(dict(entry))

        self._change(change)

    def remove(self, name: str) -> None:
        """Take a destination out."""

        def change(entries: Entries) -> None:
            entries[:] = [entry for entry in entries if entry is not self._entry(entries, name)]

        self._change(change)

    def enable(self, name: str, enabled: bool) -> None:
        """Switch a destination on or off."""

        def change(entries: Entries) -> None:
            self._entry(entries, name)["enabled"] = enabled

        self._change(change)

    def _entry(self, entries: Entries, name: str) -> dict[str, Any]:
        for entry in entries:
            if entry.get("name") == name:
                return entry
        raise ConfigError(
            f"lasting is not possible: {name!r} does not stand in {self._path!r}; it comes from the command line,"
            " or was added without lasting"
        )

    def _change(self, change: Callable[[Entries], None]) -> None:
        text = read_text(Path(self._path))
        folder = Path(self._path).parent
        try:
            # What is broken already is not made worse.
            parse_relay_config(text, folder=folder)
            document = json.loads(text)
        except ConfigError as error:
            raise ConfigError(f"{self._path!r} cannot be changed until it is mended: {error}") from None
        entries = _entries(document)
        change(entries)
        changed = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        parse_relay_config(changed, folder=folder)
        try:
            replace_file(Path(self._path), changed.encode("utf-8", "surrogatepass"))
        except OSError as error:
            raise ConfigError(f"{self._path!r} cannot be written: {error.strerror}") from None
        self.names = _names(entries)


def _entries(document: Any) -> Entries:
    entries = document["destinations"] if isinstance(document, dict) and "destinations" in document else []
    return entries if isinstance(entries, list) else []


def _names(entries: Entries) -> frozenset[str]:
    return frozenset(str(entry.get("name")) for entry in entries if isinstance(entry, dict))


def replace_file(path: Path, content: bytes) -> None:
    """Put other content in a file at once; its permissions, its owner and a link to it stay."""
    target = Path(os.path.realpath(path))
    before = target.stat()
    new = target.with_name(f".{target.name}.{os.getpid()}.new")
    # It has keys in it: nobody else may read it, not even for a moment.
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
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """The new name is on the disk only when its folder is."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
