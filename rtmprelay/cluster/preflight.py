"""Looks at the directory before a relay starts, so that a mistake is one line and not a relay without its cluster."""

from __future__ import annotations

import json
import socket
import ssl
import time
from contextlib import closing

from rtmprelay.cluster.directory import LEASE, VERSION
from rtmprelay.cluster.settings import DirectoryAddress
from rtmprelay.errors import ConfigError

#: Seconds for the connection and for each answer.
_TIMEOUT = 5.0

_PREFIX = "{rtmprelay}:"

#: Bytes of an answer. Records are some hundred; a server that is no Redis must not fill the memory.
_LARGEST_ANSWER = 65_536

#: Seconds between two looks at the lease of a node of the same name: one that was killed loses it.
_LOOK_AGAIN = 0.5


class _Connection:
    """A blocking connection to a server with the Redis protocol. There is no reactor yet."""

    def __init__(self, address: DirectoryAddress) -> None:
        link = socket.create_connection((address.host, address.port), _TIMEOUT)
        if address.secure:
            link = ssl.create_default_context().wrap_socket(link, server_hostname=address.host)
        self._link = link
        self._file = link.makefile("rb")

    def ask(self, *words: str) -> str | int | None:
        """The answer to a command."""
        encoded = [word.encode() for word in words]
        parts = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)
        self._link.sendall(b"*%d\r\n%s" % (len(words), parts))
        line = self._file.readline(4096)
        kind, text = line[:1], line[1:].strip()
        if kind == b"-":
            raise ConfigError(text.decode("utf-8", "replace")[:80])
        if kind == b":" and text.isdigit():
            return int(text)
        if kind == b"+":
            return text.decode("utf-8", "replace")
        if kind == b"$" and text.lstrip(b"-").isdigit() and (size := int(text)) <= _LARGEST_ANSWER:
            return None if size < 0 else self._file.read(size + 2)[:-2].decode("utf-8", "replace")
        raise ConfigError("it does not speak the Redis protocol")

    def close(self) -> None:
        self._file.close()
        self._link.close()


def check_directory(address: DirectoryAddress, node_name: str) -> None:
    """Look whether the directory can be used by a node of this name.

    Raises:
        ConfigError: It cannot; the message says why, without a password.
    """
    where = address.location
    try:
        with closing(_Connection(address)) as directory:
            if address.password:
                user = (address.user,) if address.user else ()
                directory.ask("AUTH", *user, address.password.reveal())
            directory.ask("SELECT", str(address.database))
            version = directory.ask("GET", _PREFIX + "version")
            if version not in (None, VERSION):
                raise ConfigError(f"it has version {str(version)[:20]!r}, and this relay needs {VERSION}")
            _wait_for_name(directory, node_name)
    except ConfigError as error:
        raise ConfigError(f"the directory at {where} cannot be used: {error}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "no answer"
        raise ConfigError(f"the directory at {where} cannot be reached: {reason}") from None


def _wait_for_name(directory: _Connection, name: str) -> None:
    """A node that was killed a moment ago still has its lease."""
    deadline = time.monotonic() + LEASE + 2 * _LOOK_AGAIN
    while True:
        record = directory.ask("HGET", _PREFIX + "nodes", name)
        if not isinstance(record, str):
            return
        try:
            node = json.loads(record)
            instance, url = str(node["instance"]), str(node["url"])
        except (ValueError, TypeError, KeyError):
            raise ConfigError(f"its record of the node {name!r} cannot be read") from None
        if not directory.ask("EXISTS", f"{_PREFIX}lease:{instance}"):
            return
        if time.monotonic() >= deadline:
            raise ConfigError(f"another node is called {name!r} ({url}); give --node-name")
        time.sleep(_LOOK_AGAIN)
