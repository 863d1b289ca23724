"""The rules for a multivariant playlist (draft-pantos-hls-rfc8216bis, section 4.4.6)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.hls.playlist import Breach, Playlist, Tag

_KNOWN = {
    "EXTM3U",
    "EXT-X-VERSION",
    "EXT-X-INDEPENDENT-SEGMENTS",
    "EXT-X-START",
    "EXT-X-DEFINE",
    "EXT-X-MEDIA",
    "EXT-X-STREAM-INF",
    "EXT-X-I-FRAME-STREAM-INF",
    "EXT-X-SESSION-DATA",
    "EXT-X-SESSION-KEY",
    "EXT-X-CONTENT-STEERING",
}
_MEDIA_TYPES = ("AUDIO", "VIDEO", "SUBTITLES", "CLOSED-CAPTIONS")

#: Codecs as RFC 6381 writes them: the name of a sample entry, then what the codec says of itself.
_CODEC = re.compile(
    r"avc[13]\.[0-9A-Fa-f]{6}|(hvc1|hev1)\.[ABC]?\d+\.[0-9A-F]+\.[LH]\d+(\.[0-9A-F]+)*"
    r"|av01\.\d\.\d\d[MH]\.\d\d(\..+)?|vp09\.\d\d\.\d\d\.\d\d(\..+)?"
    r"|mp4a\.(40\.\d+|6[9bB]|40\.34)|[oO]pus|ac-3|ec-3|fLaC|mp3"
)


def check_multivariant_playlist(playlist: Playlist) -> list[Breach]:
    """All rules that a multivariant playlist breaks."""
    return [*_tags(playlist), *_variants(playlist), *_renditions(playlist)]


def _tags(playlist: Playlist) -> Iterator[Breach]:
    for tag in playlist.tags:
        if tag.name not in _KNOWN:
            yield Breach("unknown-tag", tag.line, f"{tag.name} is not a tag of multivariant playlists")
    for name in ("EXT-X-VERSION", "EXT-X-INDEPENDENT-SEGMENTS", "EXT-X-START"):
        if len(playlist.all(name)) > 1:
            yield Breach("once", playlist.all(name)[1].line, f"{name} is there twice")
    declared = playlist.number("EXT-X-VERSION") or 1
    if declared < 8 and playlist.first("EXT-X-DEFINE"):
        yield Breach("version", 1, "EXT-X-DEFINE needs version 8")
    for segment in playlist.segments:
        yield Breach("mixed", segment.line, "a multivariant playlist lists no segments")


def _variants(playlist: Playlist) -> Iterator[Breach]:
    if not playlist.variants:
        yield Breach("stream-inf", 1, "there is no variant")
    groups = {(tag.get("TYPE"), tag.get("GROUP-ID")) for tag in playlist.all("EXT-X-MEDIA")}
    for tag, _ in playlist.variants:
        bandwidth, average = tag.number("BANDWIDTH"), tag.number("AVERAGE-BANDWIDTH")
        if bandwidth is None or not tag.attributes["BANDWIDTH"].isdigit() or not bandwidth:
            yield Breach("bandwidth", tag.line, "BANDWIDTH must be a whole number above 0")
        elif average is not None and average > bandwidth:
            yield Breach(
                "bandwidth", tag.line, f"AVERAGE-BANDWIDTH {average:g} is over BANDWIDTH {bandwidth:g}"
            )
        yield from _codecs(tag)
        if "FRAME-RATE" in tag.attributes and not tag.number("FRAME-RATE"):
            yield Breach("frame-rate", tag.line, "FRAME-RATE must be a number above 0")
        for kind in _MEDIA_TYPES:
            group = tag.get(kind)
            if group is not None and group != "NONE" and (kind, group) not in groups:
                yield Breach(
                    "group", tag.line, f"there is no EXT-X-MEDIA with TYPE={kind} and GROUP-ID {group}"
                )


def _codecs(tag: Tag) -> Iterator[Breach]:
    codecs = [one.strip() for one in (tag.get("CODECS") or "").split(",") if one.strip()]
    if not codecs:
        yield Breach("codecs", tag.line, "CODECS is missing")
    for codec in codecs:
        if _CODEC.fullmatch(codec) is None:
            yield Breach("codecs", tag.line, f"{codec!r} is not how a codec is written")
    resolution = tag.attributes.get("RESOLUTION")
    has_video = any(codec.startswith(("avc", "hvc", "hev", "av01", "vp09")) for codec in codecs)
    if resolution is None and has_video:
        yield Breach("resolution", tag.line, "RESOLUTION is missing, and there is video")
    if resolution is not None and re.fullmatch(r"[1-9]\d*x[1-9]\d*", resolution) is None:
        yield Breach("resolution", tag.line, f"RESOLUTION={resolution} is no width and height")


def _renditions(playlist: Playlist) -> Iterator[Breach]:
    names: set[tuple[str | None, ...]] = set()
    defaults: set[tuple[str | None, ...]] = set()
    for tag in playlist.all("EXT-X-MEDIA"):
        kind, group, name = tag.get("TYPE"), tag.get("GROUP-ID"), tag.get("NAME")
        if kind not in _MEDIA_TYPES or not group or not name:
            yield Breach("media", tag.line, "EXT-X-MEDIA needs TYPE, GROUP-ID and NAME")
        if (kind, group, name) in names:
            yield Breach("media", tag.line, f"two renditions are called {name}")
        names.add((kind, group, name))
        if tag.says_yes("DEFAULT"):
            if (kind, group) in defaults:
                yield Breach("media", tag.line, "a group has two defaults")
            defaults.add((kind, group))
            if tag.attributes.get("AUTOSELECT", "YES") != "YES":
                yield Breach("media", tag.line, "a default rendition with AUTOSELECT=NO")
        if kind == "CLOSED-CAPTIONS" and "URI" in tag.attributes:
            yield Breach("media", tag.line, "closed captions have no URI")
        if kind == "SUBTITLES" and "URI" not in tag.attributes:
            yield Breach("media", tag.line, "subtitles need a URI")
