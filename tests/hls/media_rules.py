"""The rules for one media playlist (draft-pantos-hls-rfc8216bis, sections 4.4 and 6.2, appendix B).

Beside the specification's own rules there are a few of ours, where the draft only recommends: `lowest-version`,
`map-change`, `independent`, and a hold-back of three parts instead of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from tests.hls.playlist import Breach, Playlist, Segment, Tag, as_number

#: Tags that may be in a media playlist; those in the first set at most once.
_ONCE = {
    "EXT-X-VERSION",
    "EXT-X-TARGETDURATION",
    "EXT-X-MEDIA-SEQUENCE",
    "EXT-X-DISCONTINUITY-SEQUENCE",
    "EXT-X-ENDLIST",
    "EXT-X-PLAYLIST-TYPE",
    "EXT-X-I-FRAMES-ONLY",
    "EXT-X-PART-INF",
    "EXT-X-SERVER-CONTROL",
    "EXT-X-INDEPENDENT-SEGMENTS",
    "EXT-X-START",
    "EXT-X-SKIP",
}
_REPEATED = {
    "EXTM3U",
    "EXTINF",
    "EXT-X-DEFINE",
    "EXT-X-BYTERANGE",
    "EXT-X-DISCONTINUITY",
    "EXT-X-KEY",
    "EXT-X-MAP",
    "EXT-X-PROGRAM-DATE-TIME",
    "EXT-X-GAP",
    "EXT-X-BITRATE",
    "EXT-X-PART",
    "EXT-X-DATERANGE",
    "EXT-X-PRELOAD-HINT",
    "EXT-X-RENDITION-REPORT",
}

#: Tags that come before the first segment.
_HEAD = (
    "EXT-X-MEDIA-SEQUENCE",
    "EXT-X-DISCONTINUITY-SEQUENCE",
    "EXT-X-SKIP",
    "EXT-X-PART-INF",
    "EXT-X-SERVER-CONTROL",
)

#: Seconds by which a duration may differ because it is written with three digits.
ROUNDING = 0.0006

#: Seconds by which PROGRAM-DATE-TIME may differ from the durations: it is written in milliseconds.
_DATE_ROUNDING = 0.0021

#: Seconds for which a publisher is away at least before it is back.
_SMALLEST_ABSENCE = 0.1

#: A part is at least this much of PART-TARGET, unless it is the last one of its segment.
_SHORTEST_PART = 0.85

Rule = Callable[[Playlist], Iterator[Breach]]


def check_media_playlist(playlist: Playlist) -> list[Breach]:
    """All rules that one media playlist breaks."""
    return [breach for rule in _RULES for breach in rule(playlist)]


def needed_version(playlist: Playlist) -> int:
    """The lowest EXT-X-VERSION for the tags that are there (section 7)."""
    needed = 1
    if any("." in tag.value.partition(",")[0] for tag in playlist.all("EXTINF")):
        needed = 3
    if playlist.first("EXT-X-BYTERANGE") or playlist.first("EXT-X-I-FRAMES-ONLY"):
        needed = 4
    if playlist.first("EXT-X-MAP"):
        needed = 5 if playlist.first("EXT-X-I-FRAMES-ONLY") else 6
    if playlist.first("EXT-X-DEFINE"):
        needed = max(needed, 8)
    if playlist.first("EXT-X-SKIP"):
        needed = max(needed, 9)
    return needed


def _versions(playlist: Playlist) -> Iterator[Breach]:
    tag = playlist.first("EXT-X-VERSION")
    declared = int(playlist.number("EXT-X-VERSION") or 1)
    line = tag.line if tag else 1
    needed = needed_version(playlist)
    if declared < needed:
        yield Breach("version", line, f"the tags need version {needed}, and the playlist says {declared}")
    control = playlist.first("EXT-X-SERVER-CONTROL")
    if control is not None and "CAN-SKIP-UNTIL" in control.attributes:
        # Its delta updates need 9, and the versions of one playlist may agree.
        needed = max(needed, 9)
    if declared > max(needed, 1):
        yield Breach("lowest-version", line, f"version {needed} would do, and the playlist says {declared}")


def _tags(playlist: Playlist) -> Iterator[Breach]:
    seen: dict[str, Tag] = {}
    for tag in playlist.tags:
        if tag.name not in _ONCE | _REPEATED:
            yield Breach("unknown-tag", tag.line, f"{tag.name} is not a tag of media playlists")
        elif tag.name in _ONCE and tag.name in seen:
            yield Breach("once", tag.line, f"{tag.name} is there twice")
        seen.setdefault(tag.name, tag)
    first_line = min((_first_line(segment) for segment in playlist.segments), default=len(playlist.lines) + 1)
    for name in _HEAD:
        if name in seen and seen[name].line > first_line:
            yield Breach("tag-order", seen[name].line, f"{name} comes after the first segment")
    first_break = seen.get("EXT-X-DISCONTINUITY")
    number = seen.get("EXT-X-DISCONTINUITY-SEQUENCE")
    if first_break is not None and number is not None and number.line > first_break.line:
        yield Breach("tag-order", number.line, f"{number.name} comes after EXT-X-DISCONTINUITY")


def _first_line(segment: Segment) -> int:
    return min(segment.line, *(part.line for part in segment.parts)) if segment.parts else segment.line


def _target_duration(playlist: Playlist) -> Iterator[Breach]:
    tag = playlist.first("EXT-X-TARGETDURATION")
    if tag is None or not tag.value.isdigit():
        yield Breach("target-duration", tag.line if tag else 1, "EXT-X-TARGETDURATION is no whole number")
        return
    target = int(tag.value)
    for segment in playlist.segments:
        length = segment.duration if segment.uri is not None else segment.parts_duration
        # Rounded to the nearest second, halves up.
        if int(length + 0.5) > target:
            yield Breach(
                "target-duration", segment.line, f"a segment of {length:g} s, and the target is {target}"
            )


def _maps(playlist: Playlist) -> Iterator[Breach]:
    for segment in playlist.segments:
        uris = [uri for uri in (segment.uri, *(part.uri for part in segment.parts)) if uri]
        # In a delta update the map of a skipped segment goes on.
        if segment.map is None and not playlist.skipped and any(_is_fmp4(uri) for uri in uris):
            yield Breach("map", segment.line, "a segment of fMP4 without EXT-X-MAP before it")
    for tag in playlist.all("EXT-X-MAP"):
        if not tag.get("URI"):
            yield Breach("map", tag.line, "EXT-X-MAP needs a URI")
    for before, after in pairwise(playlist.segments):
        changed = before.map is not None and after.map is not None and before.map.value != after.map.value
        if changed and not after.discontinuity and _path(before.map) != _path(after.map):
            yield Breach("map-change", after.line, "another EXT-X-MAP without EXT-X-DISCONTINUITY")


def _path(tag: Tag | None) -> str:
    return (tag.get("URI") or "").partition("?")[0] if tag is not None else ""


def _is_fmp4(uri: str) -> bool:
    return uri.partition("?")[0].endswith((".m4s", ".mp4", ".m4v", ".m4a", ".cmfv", ".cmfa"))


def _parts(playlist: Playlist) -> Iterator[Breach]:
    parted = [segment for segment in playlist.segments if segment.parts]
    if not parted:
        return
    info = playlist.first("EXT-X-PART-INF")
    target = None if info is None else info.number("PART-TARGET")
    if info is None or not target:
        yield Breach(
            "part-inf", parted[0].parts[0].line, "there are parts without EXT-X-PART-INF and PART-TARGET"
        )
        return
    for segment in parted:
        last = segment.parts[-1] if segment.uri is not None else None
        for part in segment.parts:
            if part.duration > target + ROUNDING:
                yield Breach(
                    "part-duration", part.line, f"a part of {part.duration:g} s is over {target:g} s"
                )
            elif part is not last and not part.gap and part.duration < target * _SHORTEST_PART - ROUNDING:
                if part is segment.parts[-1] or part.independent:
                    # The last part so far may be the last of its segment, and the draft excepts independent ones.
                    continue
                yield Breach(
                    "part-duration", part.line, f"a part of {part.duration:g} s is under 85 % of {target:g} s"
                )
        together = segment.parts_duration
        tolerance = ROUNDING * (len(segment.parts) + 1)
        if segment.uri is not None and abs(together - segment.duration) > tolerance:
            yield Breach(
                "parts-of-segment",
                segment.line,
                f"the parts are {together:.3f} s long together, and their segment {segment.duration:g} s",
            )


def _reach_of_parts(playlist: Playlist) -> Iterator[Breach]:
    """Parts are listed near the end of the playlist, where players need them, and only there."""
    target = playlist.number("EXT-X-TARGETDURATION")
    control = playlist.first("EXT-X-SERVER-CONTROL")
    if target is None or playlist.first("EXT-X-PART-INF") is None:
        return
    hold_back = (control.number("PART-HOLD-BACK") if control else None) or 0.0
    after = 0.0
    began = False
    for segment in reversed(playlist.segments):
        length = segment.duration if segment.uri is not None else segment.parts_duration
        if segment.parts and after > 4 * target:
            yield Breach(
                "old-parts", segment.parts[0].line, f"parts of {after:.1f} s before the end are listed"
            )
        began = began or bool(segment.parts)
        missing = not segment.parts and not segment.gap and not playlist.has_ended
        if missing and began and after < hold_back and segment.msn != playlist.media_sequence:
            yield Breach("missing-parts", segment.line, f"no parts {after:.1f} s before the end")
        after += length


def _independence(playlist: Playlist) -> Iterator[Breach]:
    if playlist.first("EXT-X-INDEPENDENT-SEGMENTS") is None:
        return
    for segment in playlist.segments:
        if segment.parts and not segment.parts[0].independent and not segment.parts[0].gap:
            yield Breach(
                "independent",
                segment.parts[0].line,
                "the first part of an independent segment is INDEPENDENT=YES",
            )


def _server_control(playlist: Playlist) -> Iterator[Breach]:
    control, info = playlist.first("EXT-X-SERVER-CONTROL"), playlist.first("EXT-X-PART-INF")
    target = playlist.number("EXT-X-TARGETDURATION") or 0.0
    part_target = (info.number("PART-TARGET") if info else None) or 0.0
    if info is not None and (control is None or control.number("PART-HOLD-BACK") is None):
        yield Breach("part-hold-back", info.line, "PART-HOLD-BACK is missing, and there are parts")
    if control is None:
        return
    for name, least, rule in (
        ("HOLD-BACK", 3 * target, "hold-back"),
        ("PART-HOLD-BACK", 3 * part_target, "part-hold-back"),
        ("CAN-SKIP-UNTIL", 6 * target, "can-skip-until"),
    ):
        value = control.attributes.get(name)
        if value is None:
            continue
        number = as_number(value)
        if number is None or number < least - ROUNDING:
            yield Breach(rule, control.line, f"{name}={value} is less than {least:g}")
    if control.says_yes("CAN-SKIP-DATERANGES") and "CAN-SKIP-UNTIL" not in control.attributes:
        yield Breach("can-skip-until", control.line, "CAN-SKIP-DATERANGES needs CAN-SKIP-UNTIL")
    for name in ("CAN-BLOCK-RELOAD", "CAN-SKIP-DATERANGES"):
        if control.attributes.get(name, "YES") != "YES":
            yield Breach("server-control", control.line, f"{name} can only be YES")


def _skip(playlist: Playlist) -> Iterator[Breach]:
    skip, control = playlist.first("EXT-X-SKIP"), playlist.first("EXT-X-SERVER-CONTROL")
    if skip is None:
        return
    count = skip.attributes.get("SKIPPED-SEGMENTS", "")
    if not count.isdigit() or int(count) < 1:
        yield Breach("skip", skip.line, f"SKIPPED-SEGMENTS={count} is no whole number above 0")
    until = None if control is None else control.number("CAN-SKIP-UNTIL")
    if until is None:
        yield Breach("skip", skip.line, "EXT-X-SKIP without CAN-SKIP-UNTIL")
    elif playlist.duration < until - ROUNDING * (len(playlist.segments) + 1):
        yield Breach("skip", skip.line, f"segments within the last {until:g} s were skipped")


def _hints(playlist: Playlist) -> Iterator[Breach]:
    kinds: set[str] = set()
    last = max((_last_line(segment) for segment in playlist.segments), default=0)
    for hint in playlist.all("EXT-X-PRELOAD-HINT"):
        kind = hint.get("TYPE") or ""
        if kind not in ("PART", "MAP") or not hint.get("URI"):
            yield Breach("preload-hint", hint.line, "EXT-X-PRELOAD-HINT needs TYPE=PART or MAP, and a URI")
        if kind in kinds:
            yield Breach("preload-hint", hint.line, f"two hints of TYPE={kind}")
        kinds.add(kind)
        if kind == "PART" and hint.line < last:
            yield Breach("preload-hint", hint.line, "the hint comes before a segment or part that is there")
        if kind == "PART" and playlist.first("EXT-X-PART-INF") is None:
            yield Breach("preload-hint", hint.line, "a hint at a part without EXT-X-PART-INF")
        if playlist.has_ended:
            yield Breach("preload-hint", hint.line, "a hint after the end of the stream")
        listed = {part.uri for segment in playlist.segments for part in segment.parts}
        if kind == "PART" and hint.get("URI") in listed:
            yield Breach("preload-hint", hint.line, "the hinted part is listed already")


def _last_line(segment: Segment) -> int:
    return max(segment.line, *(part.line for part in segment.parts)) if segment.parts else segment.line


def _reports(playlist: Playlist) -> Iterator[Breach]:
    seen: set[str] = set()
    for report in playlist.all("EXT-X-RENDITION-REPORT"):
        uri = report.get("URI") or ""
        if not uri or "://" in uri:
            yield Breach("rendition-report", report.line, "the URI of a report must be there, and relative")
        if not report.attributes.get("LAST-MSN", "").isdigit():
            yield Breach("rendition-report", report.line, "LAST-MSN must be a whole number")
        if playlist.first("EXT-X-PART-INF") and not report.attributes.get("LAST-PART", "").isdigit():
            yield Breach(
                "rendition-report", report.line, "LAST-PART must be a whole number where there are parts"
            )
        if uri in seen:
            yield Breach("rendition-report", report.line, f"two reports for {uri}")
        seen.add(uri)


def _dates(playlist: Playlist) -> Iterator[Breach]:
    previous: Segment | None = None
    since = 0.0
    for segment in playlist.segments:
        if segment.date is not None:
            if previous is not None and previous.date is not None:
                passed = (segment.date - previous.date).total_seconds()
                if passed < -_DATE_ROUNDING:
                    yield Breach("program-date-time", segment.line, f"the time goes back by {-passed:.3f} s")
                elif not segment.discontinuity and not _agree(passed, since):
                    yield Breach(
                        "program-date-time",
                        segment.line,
                        f"{passed:.3f} s by the dates are {since:.3f} s by the durations",
                    )
            previous, since = segment, 0.0
        since += segment.duration
    if previous is not None:
        for segment in playlist.segments:
            if segment.discontinuity and segment.date is None:
                yield Breach("program-date-time", segment.line, "no time after a discontinuity")


def _agree(by_dates: float, by_durations: float) -> bool:
    """Whether dates and durations fit. Dates jump forward where the publisher was away: such a jump is no drift."""
    ahead = by_dates - by_durations
    return abs(ahead) <= _DATE_ROUNDING or ahead >= _SMALLEST_ABSENCE


def _type_and_end(playlist: Playlist) -> Iterator[Breach]:
    tag = playlist.first("EXT-X-PLAYLIST-TYPE")
    if tag is not None and tag.value not in ("VOD", "EVENT"):
        yield Breach("playlist-type", tag.line, f"{tag.value!r} is neither VOD nor EVENT")
    if tag is not None and tag.value == "VOD" and not playlist.has_ended:
        yield Breach("playlist-type", tag.line, "a VOD playlist without EXT-X-ENDLIST")
    if tag is not None and (playlist.media_sequence or playlist.skipped):
        yield Breach("playlist-type", tag.line, "a playlist with a type lists all segments from the first on")
    if playlist.has_ended and playlist.segments and playlist.segments[-1].uri is None:
        yield Breach(
            "endlist", playlist.segments[-1].line, "parts without their segment, and the stream is over"
        )


_RULES: tuple[Rule, ...] = (
    _versions,
    _tags,
    _target_duration,
    _maps,
    _parts,
    _reach_of_parts,
    _independence,
    _server_control,
    _skip,
    _hints,
    _reports,
    _dates,
    _type_and_end,
)
