"""The media that can be watched now: segments and parts, and how far back they reach."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import attrs

from rtmprelay.hls.cuts import Part, SegmentEnd, Targets
from rtmprelay.hls.packager import Configuration
from rtmprelay.mp4.codec_strings import codecs_parameter
from rtmprelay.mp4.tracks import AnyTrack

#: Target durations of media that stay in a playlist at least, whatever the window (rfc8216bis, section 6.2.2).
_FEWEST_TARGETS = 3

#: Target durations of media that stay in memory although they are on a disk.
_IN_MEMORY_TARGETS = 6

#: Names that are left out after a restart, of each kind: those before may have been sent, though they are in no index.
NAMES_LEFT_OUT = 100_000

#: Configurations that are kept; each is named by segments of the window.
_MOST_CONFIGURATIONS = 64


@attrs.frozen
class ListedPart:
    """A part as a playlist lists it.

    Attributes:
        number: Counted through all segments.
        begin: Where its bytes begin in its segment.
    """

    number: int
    duration: float
    independent: bool
    begin: int
    size: int


@attrs.define(eq=False)
class Segment:
    """A segment, complete or not.

    Attributes:
        number: Its media sequence number.
        name: The number in its name. What another run of the relay made has had its names already, also what was lost with it.
        date: When it begins, in seconds since 1970.
        configuration: The number of its EXT-X-MAP.
        data: All of its bytes; None if they are only on a disk.
        is_saved: Whether they are on a disk.
        text: What a playlist says of it once its parts are listed no more, and what follows its URI there.
    """

    number: int
    name: int
    date: float
    configuration: int
    discontinuity: bool
    parts: list[ListedPart] = attrs.field(factory=list)
    duration: float = 0.0
    size: int = 0
    independent: bool = True
    data: bytes | None = b""
    is_saved: bool = False
    text: tuple[str, str] = ("", "")


class Window:
    """Keeps the latest segments of one rendition.

    Args:
        targets: What the playlist promises.
        seconds: How far back a viewer can go.
        most_bytes: Media that is kept in memory at most.
        forget: Called with each segment that nobody can ask for any more.

    Attributes:
        version: Changes whenever the playlist does.
        has_ended: Whether nothing will be added any more.
        was_cut: Whether segments had to go before their time, because they did not fit into the memory.
    """

    def __init__(
        self,
        targets: Targets,
        seconds: float,
        most_bytes: int,
        forget: Callable[[Segment], object] = lambda segment: None,
    ) -> None:
        self.targets = targets
        self.version = 0
        self.has_ended = False
        self.was_cut = False
        self.segments: deque[Segment] = deque()
        #: Parts whose segment is not complete.
        self.open: Segment | None = None
        self.discontinuities = 0
        self.tracks: list[AnyTrack] = []
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._configurations: dict[int, bytes] = {}
        self._configuration = -1
        self._open_data: list[bytes] = []
        self._forget = forget
        self._next_segment = 0
        self._next_name = 0
        self._next_part = 0
        self._named: dict[int, Segment] = {}
        # After the end of a configuration the next segment has a discontinuity.
        self._breaks = False
        # Segments that have left the playlist: players that read an earlier version may ask for them still.
        self._former: deque[Segment] = deque()

    def restore(
        self,
        segments: Iterable[Segment],
        configurations: dict[int, bytes],
        discontinuities: int,
        next_part: int,
    ) -> None:
        """Continue with what an earlier run has left; what is added follows after a discontinuity."""
        self.segments.extend(segments)
        self._named.update((segment.name, segment) for segment in self.segments)
        self._configurations.update(configurations)
        self._configuration = max(configurations) + NAMES_LEFT_OUT
        self._next_segment = self.segments[-1].number + 1
        self._next_name = self.segments[-1].name + 1 + NAMES_LEFT_OUT
        self._next_part = next_part
        self.discontinuities = discontinuities

    # -- adding ----------------------------------------------------------------------------------------------

    def configure(self, configuration: Configuration) -> None:
        """The segments from here on have other tracks."""
        if self.open is not None:
            self.end_segment()
        self._breaks = bool(self.segments or self._former)
        self._configuration += 1
        self._configurations[self._configuration] = configuration.init
        self.tracks = [track for track in (configuration.video, configuration.audio) if track is not None]
        self._forget_configurations()

    def add(self, cut: Part | SegmentEnd) -> None:
        if isinstance(cut, SegmentEnd):
            self.end_segment()
            return
        segment = self.open
        if segment is None:
            segment = self.open = Segment(
                self._next_segment,
                self._next_name,
                cut.date,
                self._configuration,
                self._breaks,
                independent=cut.independent,
            )
            self._breaks = False
        segment.parts.append(
            ListedPart(self._next_part, cut.duration, cut.independent, segment.size, len(cut.data))
        )
        self._next_part += 1
        segment.duration += cut.duration
        segment.size += len(cut.data)
        self._open_data.append(cut.data)
        self.version += 1

    def end_segment(self) -> None:
        """The open parts are a segment."""
        segment = self.open
        if segment is None:
            return
        segment.data = b"".join(self._open_data)
        self._open_data.clear()
        self.open = None
        self.segments.append(segment)
        self._named[segment.name] = segment
        self._next_segment += 1
        self._next_name += 1
        self.version += 1
        self._slide()

    def end(self) -> None:
        """Nothing will be added."""
        self.end_segment()
        self.has_ended = True
        self.version += 1

    # -- sliding ---------------------------------------------------------------------------------------------

    def _slide(self) -> None:
        least = max(self._seconds, _FEWEST_TARGETS * (self.targets.duration or 1))
        length = self.duration
        while len(self.segments) > 1 and length - self.segments[0].duration >= least:
            length -= self._remove_first().duration
        # A segment can be asked for as long after it left as the playlist that named it is long.
        former = sum(segment.duration for segment in self._former)
        while self._former and former > least + self._former[0].duration:
            former -= self._forget_first().duration
        self._free_memory()
        while self.held_bytes > self._most_bytes and (self._former or len(self.segments) > 1):
            if self._former:
                self._forget_first()
            else:
                self.was_cut = True
                self._remove_first()
        self._forget_configurations()

    def _forget_first(self) -> Segment:
        segment = self._former.popleft()
        del self._named[segment.name]
        self._forget(segment)
        return segment

    def _free_memory(self) -> None:
        """Leave what is on a disk to it, but for the newest: those are asked for by all."""
        newest = 0.0
        for segment in reversed(self.segments):
            newest += segment.duration
            if segment.is_saved and newest > _IN_MEMORY_TARGETS * (self.targets.duration or 1):
                segment.data = None
        for segment in self._former:
            if segment.is_saved:
                segment.data = None

    def _remove_first(self) -> Segment:
        segment = self.segments.popleft()
        self.discontinuities += segment.discontinuity
        self._former.append(segment)
        return segment

    def _forget_configurations(self) -> None:
        used = {segment.configuration for segment in (*self._former, *self.segments)}
        if self.open is not None:
            used.add(self.open.configuration)
        for number in list(self._configurations):
            if number not in used and number != self._configuration:
                del self._configurations[number]
        while len(self._configurations) > _MOST_CONFIGURATIONS:
            del self._configurations[min(self._configurations)]

    # -- what there is ---------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether a playlist can be made: its targets are known, and there is media."""
        return self.targets.duration is not None and bool(self.listed)

    @property
    def duration(self) -> float:
        """Seconds of media in the playlist."""
        return sum(segment.duration for segment in self.listed)

    @property
    def held_bytes(self) -> int:
        """Media in memory."""
        kept = sum(len(segment.data) for segment in (*self._former, *self.segments) if segment.data)
        return kept + sum(map(len, self._open_data))

    @property
    def listed(self) -> list[Segment]:
        """The segments of the playlist; with parts, the last one may be incomplete."""
        has_open = self.open is not None and self.targets.part_target
        return [*self.segments, *([self.open] if self.open is not None and has_open else [])]

    @property
    def position(self) -> tuple[int, int]:
        """The number of the segment that is not complete, and how many parts it has."""
        return self._next_segment, 0 if self.open is None else len(self.open.parts)

    @property
    def next_configuration(self) -> int:
        """The number of the configuration that comes next."""
        return self._configuration + 1

    @property
    def next_name(self) -> int:
        """The number in the name of the segment that is not complete."""
        return self._next_name

    @property
    def next_part(self) -> int:
        """The number of the part that comes next, for the hint."""
        return self._next_part

    def has(self, segment: int, part: int | None) -> bool:
        """Whether a playlist of now has this segment, or this part of it (section 6.2.5.2)."""
        if self.has_ended:
            return True
        current, parts = self.position
        if part is None or segment < current:
            if segment < current and part is not None:
                return self._has_next_begun(segment, part)
            return segment < current
        return segment == current and part < parts

    def _has_next_begun(self, segment: int, part: int) -> bool:
        """A part after the last one of a complete segment is the first one of the next segment."""
        current, parts = self.position
        if segment + 1 < current or not self.segments:
            return True
        return part < len(self.segments[-1].parts) or parts > 0

    def is_far_ahead(self, segment: int, part: int | None) -> bool:
        """Whether nobody asks for this who has read a playlist: it is refused at once."""
        current, parts = self.position
        if segment > current + 1:
            return True
        if part is None or not self.targets.part_target:
            return False
        # The advance part limit.
        ahead = 3 if self.targets.part_target >= 1 else round(3 / self.targets.part_target)
        return segment >= current and part > parts + ahead - 1 and part >= ahead

    # -- bytes -----------------------------------------------------------------------------------------------

    def init(self, number: int) -> bytes | None:
        return self._configurations.get(number)

    def segment(self, name: int) -> Segment | None:
        """A complete segment, in the playlist or just gone from it."""
        return self._named.get(name)

    def part(self, number: int) -> bytes | None:
        """The bytes of a part; None if it has not come, or is gone."""
        if self.open is not None and self.open.parts and number >= self.open.parts[0].number:
            index = number - self.open.parts[0].number
            return self._open_data[index] if index < len(self._open_data) else None
        for segment in (*reversed(self.segments), *reversed(self._former)):
            if segment.parts and segment.parts[0].number <= number:
                index = number - segment.parts[0].number
                if index >= len(segment.parts) or segment.data is None:
                    return None
                part = segment.parts[index]
                return segment.data[part.begin : part.begin + part.size]
        return None

    # -- measured --------------------------------------------------------------------------------------------

    def bandwidth(self) -> tuple[int, int]:
        """The highest and the average bitrate of the segments, in bits a second."""
        measured: Iterable[Segment] = [one for one in self.segments if one.duration > 0] or self.listed
        total = sum(segment.duration for segment in measured) or 1.0
        average = sum(segment.size for segment in measured) * 8 / total
        # Short segments are no measure: the specification looks at half a target duration at least.
        least = (self.targets.duration or 1) / 2
        rates = [segment.size * 8 / segment.duration for segment in measured if segment.duration >= least]
        return max(1, int(max([*rates, average]))), max(1, int(average))

    @property
    def codecs(self) -> str:
        return codecs_parameter(self.tracks)
