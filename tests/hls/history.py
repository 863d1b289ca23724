"""The rules for the versions of one media playlist over time (draft-pantos-hls-rfc8216bis, sections 6.2.1 to 6.2.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from tests.hls.media_rules import ROUNDING
from tests.hls.playlist import Breach, Part, Playlist, Segment

#: Segments that are remembered after they left the playlist: one that comes back is noticed.
_REMEMBERED = 1000


class PlaylistHistory:
    """What is known of a playlist from its earlier versions.

    Args:
        same_media: What of a URI says which media it is.
    """

    def __init__(self, same_media: Callable[[str], str]) -> None:
        self._same_media = same_media
        self._segments: dict[int, Segment] = {}
        self._last: Playlist | None = None
        # Where the part is expected that was hinted at, and its URI.
        self._hint: tuple[tuple[int, int], str] | None = None

    @property
    def target_duration(self) -> float | None:
        return None if self._last is None else self._last.number("EXT-X-TARGETDURATION")

    def add(self, playlist: Playlist) -> list[Breach]:
        """The rules that the next version of the playlist breaks."""
        segments = self._with_breaks(playlist.segments, playlist.skipped)
        last = self._last
        breaches: list[Breach] = []
        if last is not None:
            breaches += self._changed_head(last, playlist)
            breaches += self._went_back(last, playlist)
            breaches += self._removed(last, playlist)
            breaches += self._skipped(playlist)
            breaches += self._kept_hint(segments)
            breaches += _reports_went_back(last, playlist)
        for segment in segments:
            known = self._segments.get(segment.msn)
            if known is not None:
                breaches += self._changed_segment(known, segment)
            self._segments[segment.msn] = _with_known_parts(segment, known)
        breaches += _dates_went_back(self._segments, segments)
        self._forget()
        self._last = playlist
        self._remember_hint(playlist)
        return breaches

    def _forget(self) -> None:
        for msn in sorted(self._segments)[:-_REMEMBERED]:
            del self._segments[msn]

    def _with_breaks(self, segments: list[Segment], skipped: int) -> list[Segment]:
        """In a delta update, the discontinuities among the skipped segments count as well."""
        before = self._segments.get(segments[0].msn - 1) if segments and skipped else None
        if before is None:
            return segments
        missing = before.discontinuity_number + segments[0].discontinuity - segments[0].discontinuity_number
        return [
            attrs.evolve(one, discontinuity_number=one.discontinuity_number + missing) for one in segments
        ]

    # -- the playlist as a whole -----------------------------------------------------------------------------

    def _changed_head(self, last: Playlist, playlist: Playlist) -> Iterator[Breach]:
        for name, attribute in (
            ("EXT-X-TARGETDURATION", None),
            ("EXT-X-PART-INF", "PART-TARGET"),
            ("EXT-X-SERVER-CONTROL", "CAN-SKIP-UNTIL"),
            ("EXT-X-PLAYLIST-TYPE", None),
        ):
            before, after = last.first(name), playlist.first(name)
            if before is None or after is None:
                if (before is None) != (after is None) and not playlist.has_ended:
                    yield Breach("changed", 1, f"{name} is in one version and not in the next")
                continue
            values = [tag.value if attribute is None else tag.get(attribute) for tag in (before, after)]
            if values[0] != values[1]:
                what = attribute or name
                yield Breach("changed", after.line, f"{what} changed from {values[0]} to {values[1]}")

    def _went_back(self, last: Playlist, playlist: Playlist) -> Iterator[Breach]:
        if playlist.media_sequence < last.media_sequence:
            yield Breach(
                "media-sequence",
                1,
                f"the media sequence went back from {last.media_sequence} to {playlist.media_sequence}",
            )
        if playlist.end < last.end:
            before, after = (f"segment {msn}, part {part}" for msn, part in (last.end, playlist.end))
            yield Breach("went-back", 1, f"the playlist ended before {before}, and now ends before {after}")
        if last.has_ended and not playlist.has_ended:
            yield Breach("endlist", 1, "the stream was over, and goes on")
        elif last.has_ended and playlist.end > last.end:
            yield Breach("endlist", 1, "segments came after the end")

    def _removed(self, last: Playlist, playlist: Playlist) -> Iterator[Breach]:
        if playlist.media_sequence <= last.media_sequence or playlist.has_ended:
            return
        if playlist.first("EXT-X-PLAYLIST-TYPE") is not None:
            yield Breach("playlist-type", 1, "segments were removed from a playlist with a type")
        target = playlist.number("EXT-X-TARGETDURATION") or 0.0
        skipped = range(playlist.media_sequence, playlist.media_sequence + playlist.skipped)
        left = playlist.duration + sum(
            self._segments[msn].duration for msn in skipped if msn in self._segments
        )
        if left < 3 * target - ROUNDING * len(playlist.segments):
            yield Breach(
                "too-short",
                1,
                f"segments were removed, and {left:.3f} s are left: three targets are {3 * target:g} s",
            )

    def _skipped(self, playlist: Playlist) -> Iterator[Breach]:
        """A player has the segments that a delta update skips from an earlier version."""
        first = playlist.media_sequence
        missing = [msn for msn in range(first, first + playlist.skipped) if msn not in self._segments]
        if missing:
            yield Breach("skip", 1, f"segment {missing[0]} is skipped, and was in no earlier version")

    # -- segments and parts ----------------------------------------------------------------------------------

    def _changed_segment(self, known: Segment, segment: Segment) -> Iterator[Breach]:
        name = f"segment {segment.msn}"
        if known.uri is not None and segment.uri is None:
            yield Breach("changed", segment.line, f"{name} was complete and is not any more")
        elif known.uri is not None and segment.uri is not None:
            if self._same_media(known.uri) != self._same_media(segment.uri):
                yield Breach("changed", segment.line, f"{name} was {known.uri} and is {segment.uri}")
            if known.duration != segment.duration:
                yield Breach(
                    "changed",
                    segment.line,
                    f"{name} was {known.duration:g} s long and is {segment.duration:g} s",
                )
        if known.discontinuity != segment.discontinuity:
            yield Breach("changed", segment.line, f"{name} has EXT-X-DISCONTINUITY in one version only")
        elif known.discontinuity_number != segment.discontinuity_number:
            yield Breach(
                "discontinuity-sequence",
                segment.line,
                f"{name} was in sequence {known.discontinuity_number}, and is in {segment.discontinuity_number}",
            )
        if known.date is not None and segment.date is not None and known.date != segment.date:
            yield Breach("changed", segment.line, f"the date and time of {name} changed")
        if known.map and segment.map:
            before, after = (self._same_media(tag.get("URI") or "") for tag in (known.map, segment.map))
            if before != after:
                yield Breach("changed", segment.line, f"the EXT-X-MAP of {name} changed")
        if segment.parts:
            yield from self._changed_parts(name, known.parts, segment)

    def _changed_parts(self, name: str, known: tuple[Part, ...], segment: Segment) -> Iterator[Breach]:
        if len(segment.parts) < len(known):
            yield Breach(
                "changed", segment.line, f"{name} had {len(known)} parts and has {len(segment.parts)}"
            )
        for number, (before, after) in enumerate(zip(known, segment.parts, strict=False)):
            same = self._same_media(before.uri) == self._same_media(after.uri)
            if not same or attrs.evolve(before, uri="", line=0) != attrs.evolve(after, uri="", line=0):
                yield Breach("changed", after.line, f"part {number} of {name} changed")

    # -- hints -----------------------------------------------------------------------------------------------

    def _remember_hint(self, playlist: Playlist) -> None:
        hints = [tag for tag in playlist.all("EXT-X-PRELOAD-HINT") if tag.get("TYPE") == "PART"]
        self._hint = (playlist.end, hints[0].get("URI") or "") if hints else None

    def _kept_hint(self, segments: list[Segment]) -> Iterator[Breach]:
        """A part that a player may be waiting for comes under the name of the hint."""
        if self._hint is None:
            return
        (msn, number), uri = self._hint
        by_msn = {segment.msn: segment for segment in segments}
        came = by_msn.get(msn)
        if came is not None and came.uri is not None and 0 < len(came.parts) == number:
            # The segment ended without another part: what was hinted at begins the next one.
            came, number = by_msn.get(msn + 1), 0
        if came is None or len(came.parts) <= number:
            return
        part = came.parts[number]
        if self._same_media(part.uri) != self._same_media(uri):
            yield Breach("preload-hint", part.line, f"{uri} was hinted at, and {part.uri} came")


def _with_known_parts(segment: Segment, known: Segment | None) -> Segment:
    """The segment, with the parts that are listed no more."""
    if known is None or segment.parts or not known.parts:
        return segment
    return attrs.evolve(segment, parts=known.parts)


def _dates_went_back(known: dict[int, Segment], segments: list[Segment]) -> Iterator[Breach]:
    """The first segment of a version follows one that may have left the playlist."""
    if not segments:
        return
    first = segments[0]
    before = known.get(first.msn - 1)
    if before is not None and before.date is not None and first.date is not None and first.date < before.date:
        yield Breach(
            "program-date-time", first.line, "the time goes back after a segment of an earlier version"
        )


def _reports_went_back(last: Playlist, playlist: Playlist) -> Iterator[Breach]:
    before = {
        tag.get("URI"): (tag.number("LAST-MSN") or 0, tag.number("LAST-PART") or 0)
        for tag in last.all("EXT-X-RENDITION-REPORT")
    }
    for tag in playlist.all("EXT-X-RENDITION-REPORT"):
        now = tag.number("LAST-MSN") or 0, tag.number("LAST-PART") or 0
        if now < before.get(tag.get("URI"), (0, 0)):
            yield Breach("rendition-report", tag.line, f"the report of {tag.get('URI')} went back")
