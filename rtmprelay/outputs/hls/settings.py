"""The settings of HLS."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import attrs

from rtmprelay.errors import ConfigError
from rtmprelay.hls.variant_groups import VariantGroup
from rtmprelay.quantities import MEBIBYTE, format_size, quoted, read_duration
from rtmprelay.secret import Secret

SHORTEST_PART = 0.2
LONGEST_PART = 1.0
SHORTEST_SEGMENT = 1.0
LONGEST_SEGMENT = 10.0
SHORTEST_WINDOW = 2.0

#: Bytes a second that a window is reckoned with before a stream is there: 8 Mbit/s.
_USUAL_RATE = 1_000_000


@attrs.frozen
class HlsLimits:
    """What HLS may cost, however many watch."""

    #: Bytes of media of one stream that are kept in memory: 30 s at 35 Mbit/s. More is kept with --hls-dir.
    hls_bytes: int = 128 * MEBIBYTE
    #: Requests for one stream that wait for a part or a playlist that has not come yet.
    hls_waiting: int = 5_000
    #: Viewers of HLS at the same time.
    hls_viewers: int = 10_000
    #: Viewers of HLS of one address, which may be named by a trusted proxy; others find room beside it.
    hls_viewers_per_address: int | None = 8_000


@attrs.frozen
class HlsSettings:
    """Which streams can be watched as HLS, and how."""

    #: Globs of `app/name`.
    match: tuple[str, ...] = ()
    #: Seconds of a part; 0 for whole segments only.
    part: float = 0.333
    #: Seconds after which a segment ends at the next keyframe.
    segment: float = 2.0
    #: Seconds that a viewer can go back.
    window: float = 30.0
    #: Where segments are kept as files; None for memory only.
    folder: Path | None = None
    #: Whether viewers share one address for the playlist, so that a CDN can collapse their requests.
    anonymous: bool = False
    #: Signs addresses of media while viewers need a permission; None for one that is made at the start.
    sign_key: Secret | None = None

    #: Streams that are variants of one presentation.
    variants: tuple[VariantGroup, ...] = ()

    def wants(self, key: str) -> bool:
        """Whether a stream can be watched as HLS."""
        return any(fnmatchcase(key, glob) for glob in self.match)


def read_part(text: str) -> float:
    """The length of a part: `0`, or from 200 ms to 1 s."""
    if text.strip() == "0":
        return 0.0
    seconds = read_duration(text)
    if not SHORTEST_PART <= seconds <= LONGEST_PART:
        raise ConfigError(f"{quoted(text)} is not from 200ms to 1s; 0 makes whole segments only")
    return seconds


def read_segment(text: str) -> float:
    """The length of a segment."""
    seconds = read_duration(text, SHORTEST_SEGMENT)
    if seconds > LONGEST_SEGMENT:
        raise ConfigError(f"{quoted(text)} is too long: the most is {LONGEST_SEGMENT:g}s")
    return seconds


def check_memory(settings: HlsSettings, limits: HlsLimits) -> None:
    """Refuse a window that does not fit into the memory.

    Raises:
        ConfigError: It needs a folder.
    """
    if settings.folder is None and settings.match and settings.window * _USUAL_RATE > limits.hls_bytes:
        raise ConfigError(
            f"a window of {settings.window:g}s has about {round(settings.window * _USUAL_RATE / MEBIBYTE)}M at 8 Mbit/s,"
            f" and hls_bytes of --limit is {format_size(limits.hls_bytes)}: give --hls-dir, where segments are files"
        )
