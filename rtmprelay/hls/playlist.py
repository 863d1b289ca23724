"""The text of playlists (draft-pantos-hls-rfc8216bis)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import attrs

from rtmprelay.hls.names import MediaName, MediaPiece
from rtmprelay.hls.window import Segment, Window
from rtmprelay.mp4.tracks import VideoTrack

#: Target durations before the end that a delta update skips nothing of: the least that the specification allows.
_SKIP_UNTIL_TARGETS = 6

#: Target durations before the end in which parts are listed.
_PARTS_TARGETS = 3

#: Lengths of parts that players stay behind the end: the least that the specification recommends.
_HOLD_BACK_PARTS = 3


@attrs.frozen
class RenditionReport:
    """Where another rendition is (EXT-X-RENDITION-REPORT)."""

    uri: str
    segment: int
    part: int


@attrs.frozen
class MediaPlaylist:
    """Writes the media playlist of one rendition.

    Args:
        broadcast: The name of the broadcast, for the names of media.
        window_seconds: Delta updates are offered if the window is longer than what they keep.
    """

    window: Window
    broadcast: str
    rendition: int
    window_seconds: float

    @property
    def skip_until(self) -> int | None:
        """CAN-SKIP-UNTIL; None if delta updates would skip nothing."""
        until = _SKIP_UNTIL_TARGETS * (self.window.targets.duration or 1)
        return until if self.window_seconds > until else None

    def text(self, skip: bool = False, query: str = "", reports: Sequence[RenditionReport] = ()) -> str:
        """The playlist as it is now.

        Args:
            skip: Write a delta update, if one is possible.
            query: Follows every URI, if there is any.
        """
        return "\n".join(self._lines(skip, f"?{query}" if query else "", reports)) + "\n"

    def _lines(self, skip: bool, query: str, reports: Sequence[RenditionReport]) -> Iterator[str]:
        window, targets = self.window, self.window.targets
        listed = window.listed
        yield "#EXTM3U"
        yield f"#EXT-X-VERSION:{9 if self.skip_until else 6}"
        if all(segment.independent for segment in listed):
            yield "#EXT-X-INDEPENDENT-SEGMENTS"
        yield f"#EXT-X-TARGETDURATION:{targets.duration}"
        control = ["CAN-BLOCK-RELOAD=YES"]
        if targets.part_target:
            control.append(f"PART-HOLD-BACK={targets.part_target * _HOLD_BACK_PARTS:.3f}")
        if self.skip_until:
            control.append(f"CAN-SKIP-UNTIL={self.skip_until}")
        yield f"#EXT-X-SERVER-CONTROL:{','.join(control)}"
        if targets.part_target:
            yield f"#EXT-X-PART-INF:PART-TARGET={targets.part_target:.3f}"
        first = listed[0].number if listed else window.position[0]
        yield f"#EXT-X-MEDIA-SEQUENCE:{first}"
        if window.discontinuities:
            yield f"#EXT-X-DISCONTINUITY-SEQUENCE:{window.discontinuities}"
        skipped = self._skippable(listed) if skip else 0
        if skipped:
            yield f"#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}"
        configuration = listed[skipped - 1].configuration if skipped else None
        parts_begin = self._parts_begin(listed)
        for segment in listed[skipped:]:
            if segment.discontinuity:
                yield "#EXT-X-DISCONTINUITY"
            if segment.configuration != configuration:
                configuration = segment.configuration
                yield f'#EXT-X-MAP:URI="{self._name(MediaPiece.INIT, configuration)}{query}"'
            yield from self._segment(segment, query, segment.number >= parts_begin)
        if window.has_ended:
            yield "#EXT-X-ENDLIST"
            return
        if targets.part_target:
            yield (
                f'#EXT-X-PRELOAD-HINT:TYPE=PART,URI="{self._name(MediaPiece.PART, window.next_part)}{query}"'
            )
        for report in reports:
            part = f",LAST-PART={report.part}" if targets.part_target else ""
            yield (f'#EXT-X-RENDITION-REPORT:URI="{report.uri}",LAST-MSN={report.segment}{part}')

    def _segment(self, segment: Segment, query: str, with_parts: bool) -> Iterator[str]:
        if not with_parts and segment is not self.window.open:
            # A window of hours has thousands of these, and they do not change.
            text, followed_by = segment.text
            if not text or followed_by != query:
                text = "\n".join((*self._head(segment), *self._tail(segment, query)))
                segment.text = text, query
            yield text
            return
        yield from self._head(segment)
        if self.window.targets.part_target:
            for part in segment.parts:
                independent = ",INDEPENDENT=YES" if part.independent else ""
                name = self._name(MediaPiece.PART, part.number)
                yield f'#EXT-X-PART:DURATION={_seconds(part.duration)},URI="{name}{query}"{independent}'
        if segment is not self.window.open:
            yield from self._tail(segment, query)

    @staticmethod
    def _head(segment: Segment) -> Iterator[str]:
        yield f"#EXT-X-PROGRAM-DATE-TIME:{_date(segment.date)}"

    def _tail(self, segment: Segment, query: str) -> Iterator[str]:
        yield f"#EXTINF:{_seconds(segment.duration)},"
        yield f"{self._name(MediaPiece.SEGMENT, segment.name)}{query}"

    def _name(self, piece: MediaPiece, number: int) -> str:
        return str(MediaName(piece, self.broadcast, self.rendition, number))

    def _parts_begin(self, listed: Sequence[Segment]) -> int:
        """The number of the first segment whose parts are listed."""
        longest, after = _PARTS_TARGETS * (self.window.targets.duration or 1), 0.0
        for segment in reversed(listed):
            if after > longest:
                return segment.number + 1
            after += segment.duration
        return 0

    def _skippable(self, listed: Sequence[Segment]) -> int:
        """How many segments a delta update leaves out."""
        until = self.skip_until
        if until is None:
            return 0
        kept, count = 0.0, len(listed)
        while count and kept < until:
            count -= 1
            kept += listed[count].duration
        # A delta update needs a segment that it keeps, so that the player can fit it in.
        return count if kept >= until else 0


@attrs.frozen
class Variant:
    """One line of a multivariant playlist."""

    uri: str
    window: Window
    frame_rate: float | None

    def lines(self) -> Iterator[str]:
        peak, average = self.window.bandwidth()
        attributes = [f"BANDWIDTH={peak}", f"AVERAGE-BANDWIDTH={average}", f'CODECS="{self.window.codecs}"']
        for track in self.window.tracks:
            if isinstance(track, VideoTrack):
                if track.width and track.height:
                    attributes.append(f"RESOLUTION={track.width}x{track.height}")
                if self.frame_rate:
                    attributes.append(f"FRAME-RATE={self.frame_rate:.3f}")
        yield f"#EXT-X-STREAM-INF:{','.join(attributes)}"
        yield self.uri


def multivariant_text(variants: Sequence[Variant]) -> str:
    """The playlist that names all renditions, the first one for players that do not choose."""
    lines = ["#EXTM3U", "#EXT-X-VERSION:6"]
    for variant in variants:
        lines += variant.lines()
    return "\n".join(lines) + "\n"


def _seconds(duration: float) -> str:
    """As few digits as are exact; a packet of sound is no whole number of milliseconds."""
    text = f"{duration:.5f}"
    return text[:-2] if text.endswith("00") else text


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
