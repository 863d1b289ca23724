"""The playlist of a recording (RFC 8216): every part is a segment that is cut when somebody asks for it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

import attrs

from rtmprelay.flv.cut_points import FilePart

#: The name of the beginning that all segments share.
INIT_NAME = "init.mp4"

#: EXT-X-MAP in a playlist of ordinary segments needs this version.
_VERSION = 6

#: Seconds. While a recording grows the target duration must not change, so it starts larger than usual segments.
_GROWING_TARGET = 10

_SEGMENT = re.compile(r"(\d{1,15})-(\d{1,15})\.m4s", re.ASCII)


@attrs.frozen
class ByteRange:
    """The tags of a recording from `begin` up to `end`."""

    begin: int
    end: int


def segment_name(part: FilePart) -> str:
    """A segment is named by its place in the file, so that it stays the same when the file grows or gets an index."""
    return f"{part.begin}-{part.end}.m4s"


def read_segment_name(name: str) -> ByteRange | None:
    """The place that a segment's name tells; None if it is none."""
    match = _SEGMENT.fullmatch(name)
    if match is None:
        return None
    found = ByteRange(int(match[1]), int(match[2]))
    return found if found.begin < found.end else None


def recorded_playlist(
    parts: Iterable[FilePart], *, growing: bool, started: float | None = None, query: str = ""
) -> str:
    """The playlist of a recording.

    Args:
        growing: It is being recorded: its last part is not complete and left out, and players ask again.
        started: When time zero was, in seconds since 1970.
        query: What is appended to every address.
    """
    listed = list(parts)
    if growing:
        listed = listed[:-1]
    longest = max((part.duration_ms for part in listed), default=1000)
    target = max(-(-longest // 1000), _GROWING_TARGET if growing else 1)
    suffix = f"?{query}" if query else ""
    lines = [
        "#EXTM3U",
        f"#EXT-X-VERSION:{_VERSION}",
        f"#EXT-X-TARGETDURATION:{target}",
        "#EXT-X-MEDIA-SEQUENCE:0",
        f"#EXT-X-PLAYLIST-TYPE:{'EVENT' if growing else 'VOD'}",
        "#EXT-X-INDEPENDENT-SEGMENTS",
        f'#EXT-X-MAP:URI="{INIT_NAME}{suffix}"',
    ]
    if started is not None and listed:
        lines.append(f"#EXT-X-PROGRAM-DATE-TIME:{_time(started + listed[0].time_ms / 1000)}")
    for part in listed:
        lines.append(f"#EXTINF:{part.duration_ms / 1000:.3f},")
        lines.append(segment_name(part) + suffix)
    if not growing:
        lines.append("#EXT-X-ENDLIST")
    return "\n".join(lines) + "\n"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
