"""What a relay says of itself when it has started: where to publish and play, and who may."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import closing

from rtmprelay.config.first_start import start_warnings
from rtmprelay.config.relay import RelayConfig

#: An address for documentation: asking for the way there sends nothing, and tells which address this machine has.
_ANYWHERE = ("192.0.2.1", 9)

_EVERY_ADDRESS = frozenset({"", "0.0.0.0", "::"})
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def own_address() -> str | None:
    """The address by which other machines reach this one; None without a network."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect(_ANYWHERE)
        except OSError:
            return None
        address: str = probe.getsockname()[0]
    return None if address in _EVERY_ADDRESS or address.startswith("127.") else address


def banner(
    config: RelayConfig,
    rtmp: Sequence[tuple[str, str, int]],
    page: tuple[str, str, int] | None,
    media: tuple[str, str, int] | None,
    own: str | None,
) -> Iterator[str]:
    """The lines, for people.

    Args:
        rtmp: Scheme, host and port of each RTMP listener.
        page: Scheme, host and port of the page.
        media: The same for viewers.
        own: This machine's address in its network, if it has one.
    """
    for scheme, host, port in rtmp:
        yield f"Publish to and play from {_url(scheme, host, port, '/APP/NAME', own)}"
    if page is not None:
        yield f"The page is {_url(*page, '/', own)}"
    if media is not None:
        yield f"Viewers with a browser watch at {_url(*media, '/APP/NAME/', own)}"
    names = [destination.name for destination in config.destinations if destination.enabled]
    if names:
        yield f"Streams are sent to {', '.join(names)}"
    recording = config.recording
    if recording.record_all or recording.match:
        which = (
            "Every stream is"
            if recording.record_all
            else f"Streams that match {', '.join(recording.match)} are"
        )
        yield f"{which} recorded in {recording.folder.resolve()}"
    else:
        yield "Nothing is recorded (--record-all)"
    # Where others reach it, and strangers would have an effect, a warning has said so.
    if not config.authorizers and not start_warnings(config):
        yield "Anybody who reaches a port may publish and play there (--auth)"


def _url(scheme: str, host: str, port: int, path: str, own: str | None) -> str:
    usual = {"rtmp": 1935, "rtmps": 443, "http": 80, "https": 443}[scheme]
    place = "" if port == usual else f":{port}"
    if host in _LOOPBACK:
        return f"{scheme}://{_bracketed(host)}{place}{path} (from this machine only)"
    if host not in _EVERY_ADDRESS:
        return f"{scheme}://{_bracketed(host)}{place}{path}"
    here = f"{scheme}://127.0.0.1{place}{path}"
    if own is None:
        return f"{here} (from every network of this machine)"
    return f"{scheme}://{own}{place}{path} (from every network of this machine; here: {here})"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
