"""What is tried before the server starts, so that a start which cannot succeed is one line that says what to do."""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from rtmprelay.config.relay import RelayConfig
from rtmprelay.errors import ConfigError

#: Ports below this one are for root, unless the system says otherwise.
_FIRST_FREE_PORT = 1024

#: The port and the interface in an endpoint description.
_TCP = re.compile(r"(?:haproxy:)?(?P<kind>tcp6?|ssl):(?:port=)?(?P<port>\d+)")
_SOCKET = re.compile(r"unix:(?:address=)?(?P<path>(?:[^:\\]|\\.)+)")
_INTERFACE = re.compile(r":interface=(?P<host>(?:[^:\\]|\\.)+)")


def check_start(config: RelayConfig) -> None:
    """Make the folders, and try the ports.

    Raises:
        ConfigError: With a line for each option that cannot be used.
    """
    problems = [*_folder_problems(config), *_port_problems(config)]
    if problems:
        raise ConfigError("\n".join(problems))


def _folder_problems(config: RelayConfig) -> Iterator[str]:
    recording = config.recording
    folders = {
        "record-dir": recording.folder if recording.record_all or recording.match else None,
        "event-log": config.event_log.folder,
        "hls-dir": config.hls.folder,
    }
    for option, folder in folders.items():
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                yield f"--{option}: the folder {str(folder)!r} cannot be made: {error.strerror}"


def _port_problems(config: RelayConfig) -> Iterator[str]:
    http = config.http
    listeners = [("listen", one) for one in config.listen]
    listeners += [("http-status", http.listen or ""), ("http-media", http.media_listen or "")]
    taken: set[tuple[str, int]] = set()
    for option, description in listeners:
        if description.startswith("unix:"):
            yield from _socket_problems(option, description)
        place = place_of(description)
        if place is None or place[1] == 0:
            continue
        if place in taken:
            yield f"--{option}: port {place[1]} is named twice"
            continue
        taken.add(place)
        try:
            _try_port(*place)
        except OSError as error:
            yield f"--{option}: {why_not_listening(*place, error)}"


def _socket_problems(option: str, description: str) -> Iterator[str]:
    """A unix socket is a file: its folder must be there."""
    found = _SOCKET.match(description)
    if found is not None:
        folder = Path(found["path"].replace("\\", "")).absolute().parent
        if not folder.is_dir():
            yield f"--{option}: there is no folder {str(folder)!r} for the socket"
        elif not os.access(folder, os.W_OK | os.X_OK):
            yield f"--{option}: the folder {str(folder)!r} for the socket is not writable"


def place_of(description: str) -> tuple[str, int] | None:
    """Host and port of an endpoint description; None for other kinds, such as a unix socket."""
    found = _TCP.match(description)
    if found is None:
        return None
    interface = _INTERFACE.search(description)
    host = interface["host"].replace("\\", "") if interface is not None else ""
    return host or ("::" if found["kind"] == "tcp6" else ""), int(found["port"])


def _try_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
        # As the server itself does it: connections that have just ended are in nobody's way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        # Two sockets may be bound to one port while neither listens.
        probe.listen(1)


def why_not_listening(host: str, port: int, error: OSError | None) -> str:
    """Why a port cannot be opened, and what to do."""
    number = None if error is None else error.errno
    if number == errno.EADDRINUSE:
        return (
            f"port {port} is in use, perhaps by another relay: choose another port, or end the program that has"
            f" it (ss -ltnp 'sport = :{port}' names it)"
        )
    if number == errno.EACCES and port < _FIRST_FREE_PORT:
        return (
            f"ports below {_FIRST_FREE_PORT}, such as {port}, are for root: choose a higher one, or give the right"
            " for it (systemd: AmbientCapabilities=CAP_NET_BIND_SERVICE)"
        )
    if number == errno.EADDRNOTAVAIL:
        return (
            f"{host} is not an address of this machine (ip addr shows those): write :{port} to listen on all of"
            " them"
        )
    if isinstance(error, socket.gaierror):
        return (
            f"{host!r} is not known as a host: write an address of this machine, or :{port} for all of them"
        )
    return f"cannot listen on {host or 'any'}:{port}: {getattr(error, 'strerror', None) or error}"


def check_pid_file(path: Path) -> None:
    """Twistd writes its pid file when it is too late for one line.

    Raises:
        ConfigError: It cannot.
    """
    folder = path.absolute().parent
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise ConfigError(
            f"the pid file {str(path)!r} cannot be written: choose another folder, write --pidfile= in front of"
            " the word rtmprelay, or use `rtmprelay serve`, which needs none"
        )
