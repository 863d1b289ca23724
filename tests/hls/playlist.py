"""Playlists of HTTP Live Streaming, read for the checker: tags with their lines, segments with their parts.

Nothing of `rtmprelay` is used here: a mistake that both sides make would not be found. What cannot be read is noted as
a breach of the specification (draft-pantos-hls-rfc8216bis), and reading goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

import attrs

_ATTRIBUTE = re.compile(r'([A-Z0-9-]+)=("[^"\r\n]*"|[^",\s]+)(,|$)')
_EXTINF = re.compile(r"(\d+(?:\.\d+)?),(.*)")


@attrs.frozen
class Breach:
    """A rule that a playlist does not keep."""

    rule: str
    line: int
    text: str


@attrs.frozen
class Tag:
    """One line that begins with #EXT."""

    name: str
    value: str
    line: int
    attributes: dict[str, str] = attrs.field(factory=dict, eq=False)

    def get(self, name: str) -> str | None:
        """An attribute without its quotes."""
        value = self.attributes.get(name)
        return None if value is None else value.strip('"')

    def number(self, name: str) -> float | None:
        """An attribute that is a decimal number; None if it is missing or something else."""
        return as_number(self.attributes.get(name))

    def says_yes(self, name: str) -> bool:
        return self.attributes.get(name) == "YES"


@attrs.frozen
class Part:
    """A partial segment."""

    uri: str
    duration: float
    independent: bool
    gap: bool
    line: int


@attrs.frozen
class Segment:
    """A segment, or the parts of one that is not complete yet: then `uri` is None."""

    msn: int
    uri: str | None
    duration: float
    discontinuity: bool
    discontinuity_number: int
    map: Tag | None
    date: datetime | None
    gap: bool
    parts: tuple[Part, ...]
    line: int

    @property
    def parts_duration(self) -> float:
        return sum(part.duration for part in self.parts)


@attrs.define
class Playlist:
    """One playlist, as it was fetched."""

    lines: list[str]
    tags: list[Tag] = attrs.field(factory=list)
    segments: list[Segment] = attrs.field(factory=list)
    #: URIs of a multivariant playlist, each with the tag before it.
    variants: list[tuple[Tag, str]] = attrs.field(factory=list)
    breaches: list[Breach] = attrs.field(factory=list)

    def all(self, name: str) -> list[Tag]:
        return [tag for tag in self.tags if tag.name == name]

    def first(self, name: str) -> Tag | None:
        return next(iter(self.all(name)), None)

    def number(self, name: str) -> float | None:
        """The value of a tag that has one number."""
        tag = self.first(name)
        return None if tag is None else as_number(tag.value)

    @property
    def is_multivariant(self) -> bool:
        return any(tag.name in ("EXT-X-STREAM-INF", "EXT-X-MEDIA") for tag in self.tags)

    @property
    def has_ended(self) -> bool:
        return self.first("EXT-X-ENDLIST") is not None

    @property
    def media_sequence(self) -> int:
        return int(self.number("EXT-X-MEDIA-SEQUENCE") or 0)

    @property
    def skipped(self) -> int:
        """How many segments a delta update leaves out."""
        tag = self.first("EXT-X-SKIP")
        return 0 if tag is None else int(tag.number("SKIPPED-SEGMENTS") or 0)

    @property
    def complete_segments(self) -> list[Segment]:
        return [segment for segment in self.segments if segment.uri is not None]

    @property
    def duration(self) -> float:
        """Of all that is listed: complete segments, and the parts of the last one."""
        return sum(
            segment.duration if segment.uri is not None else segment.parts_duration
            for segment in self.segments
        )

    @property
    def end(self) -> tuple[int, int]:
        """The number of the next segment and of its next part: where the playlist ends."""
        following = self.media_sequence + self.skipped + len(self.complete_segments)
        open_parts = self.segments[-1].parts if self.segments and self.segments[-1].uri is None else ()
        return following, len(open_parts)


def as_number(text: str | None) -> float | None:
    return float(text) if text is not None and re.fullmatch(r"\d+(\.\d+)?", text) else None


def read_attributes(text: str) -> dict[str, str] | None:
    """An attribute list; None if it is none."""
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _ATTRIBUTE.match(text, at)
        if match is None or match[1] in found or (match[3] and match.end() == len(text)):
            return None
        found[match[1]] = match[2]
        at = match.end()
    return found or None


#: Tags whose value is an attribute list.
_WITH_ATTRIBUTES = {
    "EXT-X-KEY",
    "EXT-X-MAP",
    "EXT-X-PART",
    "EXT-X-PART-INF",
    "EXT-X-SERVER-CONTROL",
    "EXT-X-PRELOAD-HINT",
    "EXT-X-RENDITION-REPORT",
    "EXT-X-SKIP",
    "EXT-X-START",
    "EXT-X-DATERANGE",
    "EXT-X-DEFINE",
    "EXT-X-MEDIA",
    "EXT-X-STREAM-INF",
    "EXT-X-I-FRAME-STREAM-INF",
    "EXT-X-SESSION-DATA",
    "EXT-X-SESSION-KEY",
    "EXT-X-CONTENT-STEERING",
}


def read_playlist(text: str) -> Playlist:
    """Read a playlist; what cannot be read is among its breaches."""
    playlist = Playlist(text.splitlines())
    if text.startswith("\ufeff"):
        playlist.breaches.append(Breach("encoding", 1, "the playlist begins with a byte order mark"))
    if any((ord(one) < 32 and one not in "\r\n") or 127 <= ord(one) < 160 for one in text):
        playlist.breaches.append(Breach("encoding", 1, "the playlist contains control characters"))
    if not playlist.lines or playlist.lines[0] != "#EXTM3U":
        playlist.breaches.append(Breach("extm3u", 1, "the first line is not #EXTM3U"))
    elif not text.endswith("\n"):
        # A playlist that is cut in transit would otherwise look whole.
        playlist.breaches.append(Breach("last-line", len(playlist.lines), "the last line has no end"))
    _Reader(playlist).read()
    return playlist


class _Reader:
    """Goes through the lines and puts tags together with the segment that they are for."""

    def __init__(self, playlist: Playlist) -> None:
        self._playlist = playlist
        self._map: Tag | None = None
        self._discontinuities = 0
        self._variant: Tag | None = None
        self._begin_segment()

    def _begin_segment(self) -> None:
        self._extinf: Tag | None = None
        self._duration = 0.0
        self._discontinuity = False
        self._date: datetime | None = None
        self._gap = False
        self._parts: list[Part] = []

    def _breach(self, rule: str, line: int, text: str) -> None:
        self._playlist.breaches.append(Breach(rule, line, text))

    def read(self) -> None:
        for tag, uri, line in self._entries():
            if tag is not None:
                self._playlist.tags.append(tag)
                self._note(tag)
            elif self._variant is not None:
                self._playlist.variants.append((self._variant, uri))
                self._variant = None
            else:
                self._end_segment(uri, line)
        if self._variant is not None:
            self._breach("stream-inf", self._variant.line, "no URI follows EXT-X-STREAM-INF")
        if self._extinf is not None:
            self._breach("extinf", self._extinf.line, "no URI follows EXTINF")
        if self._parts:
            self._add_segment(None, self._parts[0].line)

    def _entries(self) -> Iterator[tuple[Tag | None, str, int]]:
        for number, line in enumerate(self._playlist.lines, 1):
            if line != line.strip():
                self._breach("white-space", number, "white space around a line")
            if line.startswith("#EXT"):
                yield self._read_tag(line.strip(), number), "", number
            elif line.strip() and not line.startswith("#"):
                yield None, line.strip(), number

    def _read_tag(self, line: str, number: int) -> Tag:
        name, _, value = line[1:].partition(":")
        if name not in _WITH_ATTRIBUTES:
            return Tag(name, value, number)
        attributes = read_attributes(value)
        if attributes is None:
            self._breach("attribute-list", number, f"the attributes of {name} cannot be read")
        return Tag(name, value, number, attributes or {})

    def _note(self, tag: Tag) -> None:
        match tag.name:
            case "EXT-X-STREAM-INF":
                self._variant = tag
            case "EXTINF":
                self._note_extinf(tag)
            case "EXT-X-DISCONTINUITY":
                self._before_parts(tag)
                self._discontinuity = True
                self._discontinuities += 1
            case "EXT-X-PROGRAM-DATE-TIME":
                self._before_parts(tag)
                self._date = self._read_date(tag)
            case "EXT-X-MAP" | "EXT-X-KEY":
                self._before_parts(tag)
                self._map = tag if tag.name == "EXT-X-MAP" else self._map
            case "EXT-X-GAP":
                self._gap = True
            case "EXT-X-PART":
                self._note_part(tag)

    def _note_extinf(self, tag: Tag) -> None:
        if self._extinf is not None:
            self._breach("extinf", tag.line, "two EXTINF for one segment")
        self._extinf = tag
        match = _EXTINF.fullmatch(tag.value)
        if match is None:
            self._breach("extinf", tag.line, f"EXTINF must be a duration, a comma and a title: {tag.value!r}")
        else:
            self._duration = float(match[1])

    def _before_parts(self, tag: Tag) -> None:
        """What holds for a whole segment comes before its first part."""
        if self._parts:
            self._breach("tag-order", tag.line, f"{tag.name} comes after a part of its segment")

    def _read_date(self, tag: Tag) -> datetime | None:
        try:
            date = datetime.fromisoformat(tag.value)
        except ValueError:
            self._breach("program-date-time", tag.line, f"{tag.value!r} is not a date and time of ISO 8601")
            return None
        if date.tzinfo is None:
            self._breach("program-date-time", tag.line, f"{tag.value!r} has no time zone")
            return None
        return date

    def _note_part(self, tag: Tag) -> None:
        if self._extinf is not None:
            self._breach("tag-order", tag.line, "a part comes after the EXTINF of its segment")
        duration, uri = tag.number("DURATION"), tag.get("URI")
        if duration is None or not uri:
            self._breach("part", tag.line, "EXT-X-PART needs URI and DURATION")
        self._parts.append(
            Part(uri or "", duration or 0.0, tag.says_yes("INDEPENDENT"), tag.says_yes("GAP"), tag.line)
        )

    def _end_segment(self, uri: str, line: int) -> None:
        if self._extinf is None:
            self._breach("extinf", line, f"there is no EXTINF before {uri}")
        self._add_segment(uri, line)

    def _add_segment(self, uri: str | None, line: int) -> None:
        playlist = self._playlist
        first = int(playlist.number("EXT-X-DISCONTINUITY-SEQUENCE") or 0)
        playlist.segments.append(
            Segment(
                msn=playlist.media_sequence + playlist.skipped + len(playlist.segments),
                uri=uri,
                duration=self._duration,
                discontinuity=self._discontinuity,
                discontinuity_number=first + self._discontinuities,
                map=self._map,
                date=self._date,
                gap=self._gap,
                parts=tuple(self._parts),
                line=line,
            )
        )
        self._begin_segment()
