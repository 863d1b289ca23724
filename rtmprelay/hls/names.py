"""The names of what a playlist refers to.

A name never stands for anything else, in no other broadcast either, so caches may keep what it stands for as long as they like:
it holds the moment at which the broadcast began. Parts are numbered through all segments, because the part that is hinted at may
turn out to begin the next segment.
"""

from __future__ import annotations

import re
from enum import Enum

import attrs

_NAME = re.compile(
    r"(?P<kind>[ips])-(?P<broadcast>[0-9a-z]{1,12})-(?P<rendition>\d{1,3})-(?P<number>\d{1,12})\.m4s",
    re.ASCII,
)
_PLAYLIST = re.compile(r"video(?P<rendition>\d{1,3})\.m3u8", re.ASCII)

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

#: The playlist that names all others.
INDEX = "index.m3u8"


class MediaPiece(Enum):
    """What can be asked for beside playlists; the value is the first letter of its name."""

    INIT = "i"
    PART = "p"
    SEGMENT = "s"


@attrs.frozen
class MediaName:
    """A piece of media of one rendition of a broadcast."""

    piece: MediaPiece
    broadcast: str
    rendition: int
    number: int

    def __str__(self) -> str:
        return f"{self.piece.value}-{self.broadcast}-{self.rendition}-{self.number}.m4s"


def read_media_name(text: str) -> MediaName | None:
    """What a name stands for; None if it is none of ours."""
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    return MediaName(
        MediaPiece(match["kind"]), match["broadcast"], int(match["rendition"]), int(match["number"])
    )


def playlist_name(rendition: int) -> str:
    return f"video{rendition}.m3u8"


def read_playlist_name(text: str) -> int | None:
    """The rendition whose playlist has this name."""
    match = _PLAYLIST.fullmatch(text)
    return None if match is None else int(match["rendition"])


def is_hls_name(text: str) -> bool:
    """Whether the last part of a path is for HLS."""
    return text == INDEX or read_playlist_name(text) is not None or read_media_name(text) is not None


def broadcast_name(began: float) -> str:
    """A short name for a broadcast that began at this time, in seconds since 1970."""
    number = int(began * 1000)
    digits = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits or "0"
