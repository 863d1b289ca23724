"""What a player asks for with a playlist (draft-pantos-hls-rfc8216bis, section 6.2.5)."""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from rtmprelay.errors import RtmpRelayError

#: Digits of a number: a year has 10^8 parts.
_NUMBER = re.compile(r"\d{1,12}", re.ASCII)

_SESSION = re.compile(r"[A-Za-z0-9_-]{8,40}", re.ASCII)


class BadDirectiveError(RtmpRelayError):
    """A parameter that no player sends."""


@attrs.frozen
class Directives:
    """The version of a playlist that is wanted.

    Attributes:
        segment: The playlist is to have this segment, or the part of it.
        skip: The player has an earlier version, and takes a delta update.
    """

    segment: int | None = None
    part: int | None = None
    skip: bool = False


def read_directives(parameters: Mapping[str, str]) -> Directives:
    """The directives among the parameters of an address.

    Raises:
        BadDirectiveError: One of them makes no sense.
    """
    segment, part = _number(parameters, "_HLS_msn"), _number(parameters, "_HLS_part")
    if part is not None and segment is None:
        raise BadDirectiveError("_HLS_part needs _HLS_msn")
    skip = parameters.get("_HLS_skip")
    if skip not in (None, "YES", "v2"):
        raise BadDirectiveError("_HLS_skip is YES or v2")
    return Directives(segment, part, skip is not None)


def read_session(parameters: Mapping[str, str]) -> str | None:
    """The session that index.m3u8 handed out; None if there is none.

    Raises:
        BadDirectiveError: It is none of ours.
    """
    session = parameters.get("session")
    if session is not None and _SESSION.fullmatch(session) is None:
        raise BadDirectiveError("session is what index.m3u8 said, from 8 to 40 letters and digits")
    return session


def _number(parameters: Mapping[str, str], name: str) -> int | None:
    text = parameters.get(name)
    if text is None:
        return None
    if _NUMBER.fullmatch(text) is None:
        raise BadDirectiveError(f"{name} is a whole number")
    return int(text)
