"""statsd_sink.py"""

import socket
from contextlib import suppress

from zope.interface import implementer

from rtmprelay.errors import ConfigError
from rtmprelay.events import Event
from rtmprelay.interfaces import IEventSink


@implementer(IEventSink)
class Statsd:
    """Sends a packet for each event. A full socket loses it, and nothing waits."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._address = (host, port)

    def event_happened(self, time: float, event: Event) -> None:
        """Called in the reactor, for each event."""
        with suppress(OSError):
            self._socket.sendto(f"rtmprelay.{event.name}:1|c".encode(), self._address)


def make(argument: str, reactor: object) -> Statsd:
    """Called for --hook statsd:HOST:PORT."""
    host, _, port = argument.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError("write statsd:HOST:PORT, with an address for the host")
    return Statsd(host, int(port))
