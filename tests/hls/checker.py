"""Checks every playlist that a test run has fetched against the rules of HTTP Live Streaming.

    checker = PlaylistChecker()
    checker.add("http://127.0.0.1:8081/live/film/index.m3u8", text)
    checker.add("http://127.0.0.1:8081/live/film/video.m3u8?_HLS_msn=7&_HLS_part=2", text)
    checker.assert_clean()

Each playlist is checked on its own, against the versions before it, and against the other playlists of its
multivariant playlist.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urldefrag, urljoin, urlsplit, urlunsplit

import attrs

from tests.hls.history import PlaylistHistory
from tests.hls.media_rules import check_media_playlist
from tests.hls.multivariant_rules import check_multivariant_playlist
from tests.hls.playlist import Breach, Playlist, read_playlist


@attrs.frozen
class BrokenRule:
    """A rule that a fetched playlist breaks.

    Attributes:
        number: Which playlist it was, counted from 1 in the order of `add`.
    """

    rule: str
    url: str
    number: int
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text} (playlist {self.number}, {self.url}, line {self.line})"


@attrs.frozen
class Directives:
    """What a player asked for with a media playlist (section 6.2.5)."""

    msn: int | None = None
    part: int | None = None
    skip: str | None = None

    @classmethod
    def of(cls, url: str) -> Directives:
        query = parse_qs(urlsplit(url).query)

        def number(name: str) -> int | None:
            text = query.get(name, [""])[0]
            return int(text) if text.isdigit() else None

        return cls(number("_HLS_msn"), number("_HLS_part"), query.get("_HLS_skip", [None])[0])


def without_query(uri: str) -> str:
    """For servers that sign the URIs of each version anew: the path alone says which media it is."""
    return uri.partition("?")[0]


class PlaylistChecker:
    """Collects playlists and names the rules that they break.

    Args:
        same_media: What of a URI says which media it is. Everything, unless the query changes with each version.
    """

    def __init__(self, same_media: Callable[[str], str] = lambda uri: uri) -> None:
        self._same_media = same_media
        self._histories: dict[str, PlaylistHistory] = {}
        #: Media playlists of one multivariant playlist.
        self._groups: dict[str, list[str]] = {}
        self.broken: list[BrokenRule] = []
        #: How many playlists were checked.
        self.count = 0

    def add(self, url: str, text: str) -> list[BrokenRule]:
        """Check a playlist that was fetched after all others; the result is what it breaks."""
        self.count += 1
        playlist = read_playlist(text)
        name = self._name(url)
        breaches = list(playlist.breaches)
        if playlist.is_multivariant:
            breaches += check_multivariant_playlist(playlist)
            media = [tag.get("URI") for tag in playlist.all("EXT-X-MEDIA")]
            uris = [uri for _, uri in playlist.variants] + [uri for uri in media if uri]
            self._groups[name] = [self._name(urljoin(url, uri)) for uri in uris]
        else:
            breaches += check_media_playlist(playlist)
            history = self._histories.setdefault(name, PlaylistHistory(self._same_media))
            breaches += history.add(playlist)
            breaches += _answers(Directives.of(url), playlist)
            breaches += self._beside_others(url, name, playlist)
        found = [BrokenRule(one.rule, url, self.count, one.line, one.text) for one in breaches]
        self.broken += found
        return found

    def assert_clean(self) -> None:
        """Fail with the broken rules, if there are any, or if nothing was checked at all."""
        assert self.count, "no playlist was checked"
        shown = "\n".join(map(str, self.broken[:20]))
        assert not self.broken, f"{len(self.broken)} broken rules in {self.count} playlists:\n{shown}"

    def _name(self, url: str) -> str:
        """What all versions of a playlist have in common: the URL without the directives."""
        parts = urlsplit(urldefrag(url).url)
        query = "&".join(one for one in parts.query.split("&") if one and not one.startswith("_HLS_"))
        return self._same_media(urlunsplit(parts._replace(query=query)))

    def _beside_others(self, url: str, name: str, playlist: Playlist) -> list[Breach]:
        """What must agree among the variants and renditions of one presentation."""
        others = {
            other for group in self._groups.values() if name in group for other in group if other != name
        }
        breaches = []
        target = playlist.number("EXT-X-TARGETDURATION")
        for other in others:
            known = self._histories.get(other)
            if known is not None and known.target_duration not in (None, target):
                breaches.append(
                    Breach("same-target", 1, f"{other} has a target duration of {known.target_duration:g} s")
                )
        reported = {
            self._name(urljoin(url, tag.get("URI") or "")): tag
            for tag in playlist.all("EXT-X-RENDITION-REPORT")
        }
        if playlist.first("EXT-X-PART-INF") and not playlist.has_ended:
            breaches += [
                Breach("rendition-report", 1, f"there is no report for {other}")
                for other in sorted(others - reported.keys())
            ]
        for other, tag in reported.items():
            if other == name:
                breaches.append(Breach("rendition-report", tag.line, "a playlist reports of itself"))
        return breaches


def _answers(asked: Directives, playlist: Playlist) -> list[Breach]:
    """Whether a playlist has what its request asked for."""
    breaches = []
    skip = playlist.first("EXT-X-SKIP")
    if skip is not None and asked.skip not in ("YES", "v2"):
        breaches.append(Breach("skip", skip.line, "a delta update for a player that did not ask for one"))
    if asked.msn is None or playlist.has_ended:
        return breaches
    msn, parts = playlist.end
    if asked.part is None:
        has_it = msn > asked.msn
    else:
        has_it = (msn, parts) > (asked.msn, asked.part)
        complete = next((one for one in playlist.complete_segments if one.msn == asked.msn), None)
        if complete is not None and 0 < len(complete.parts) <= asked.part:
            # A part after the last one of a segment is the first one of the next segment.
            has_it = (msn, parts) > (asked.msn + 1, 0)
    if not has_it:
        wanted = f"segment {asked.msn}" + ("" if asked.part is None else f", part {asked.part}")
        breaches.append(
            Breach(
                "blocking",
                1,
                f"{wanted} was asked for, and the playlist ends before segment {msn}, part {parts}",
            )
        )
    return breaches
