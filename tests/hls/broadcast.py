"""Playlists of a made-up broadcast that keeps all rules, for tests that plant mistakes in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import attrs

URL = "http://relay.example/live/film/video.m3u8"
MULTIVARIANT_URL = "http://relay.example/live/film/index.m3u8"
MULTIVARIANT = """\
#EXTM3U
#EXT-X-VERSION:6
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="sound",NAME="Sound",DEFAULT=YES,AUTOSELECT=YES,URI="audio.m3u8"
#EXT-X-STREAM-INF:BANDWIDTH=3000000,AVERAGE-BANDWIDTH=2500000,CODECS="avc1.64001f,mp4a.40.2",RESOLUTION=1280x720,FRAME-RATE=30.000,AUDIO="sound"
video.m3u8
"""

_BEGAN = datetime(2026, 5, 17, 20, 15, tzinfo=UTC)
_PARTS = 4


@attrs.frozen
class Broadcast:
    """Segments of 2 s with four parts each; one of them comes after a discontinuity."""

    window: int = 12
    discontinuity_at: int = 16

    def playlist(self, msn: int, parts: int, skip: bool = False, ended: bool = False) -> str:
        """The version that ends before part `parts` of segment `msn`."""
        first = max(0, msn - self.window)
        breaks = 1 if first > self.discontinuity_at else 0
        lines = [
            "#EXTM3U",
            "#EXT-X-VERSION:9",
            "#EXT-X-INDEPENDENT-SEGMENTS",
            "#EXT-X-TARGETDURATION:2",
            "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=1.5,CAN-SKIP-UNTIL=12",
            "#EXT-X-PART-INF:PART-TARGET=0.5",
            f"#EXT-X-MEDIA-SEQUENCE:{first}",
            f"#EXT-X-DISCONTINUITY-SEQUENCE:{breaks}",
        ]
        if skip:
            lines.append(f"#EXT-X-SKIP:SKIPPED-SEGMENTS={msn - 6 - first}")
            first = msn - 6
        else:
            lines.append(self._map(first))
        for number in range(first, msn):
            lines += self._segment(number, with_parts=number >= msn - 3, with_map=number > first)
        if parts:
            lines += self._head_of(msn, with_map=msn > first) + self._parts(msn, parts)
        if ended:
            lines.append("#EXT-X-ENDLIST")
        else:
            hint = f"{msn}.{parts}.m4s" if parts < _PARTS else f"{msn + 1}.0.m4s"
            lines.append(f'#EXT-X-PRELOAD-HINT:TYPE=PART,URI="{hint}"')
            lines.append(
                f'#EXT-X-RENDITION-REPORT:URI="audio.m3u8",LAST-MSN={msn},LAST-PART={max(0, parts - 1)}'
            )
        return "\n".join(lines) + "\n"

    def _map(self, msn: int) -> str:
        return f'#EXT-X-MAP:URI="init-{1 if msn >= self.discontinuity_at else 0}.mp4"'

    def _head_of(self, msn: int, with_map: bool) -> list[str]:
        lines = []
        if msn == self.discontinuity_at:
            lines.append("#EXT-X-DISCONTINUITY")
            if with_map:
                lines.append(self._map(msn))
        date = _BEGAN + timedelta(seconds=2 * msn)
        stamp = date.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return [*lines, f"#EXT-X-PROGRAM-DATE-TIME:{stamp}"]

    def _segment(self, msn: int, with_parts: bool, with_map: bool) -> list[str]:
        parts = self._parts(msn, _PARTS) if with_parts else []
        return [*self._head_of(msn, with_map), *parts, "#EXTINF:2.000,", f"{msn}.m4s"]

    @staticmethod
    def _parts(msn: int, count: int) -> list[str]:
        return [
            f'#EXT-X-PART:DURATION=0.500,URI="{msn}.{part}.m4s"' + (",INDEPENDENT=YES" if part == 0 else "")
            for part in range(count)
        ]


def versions(last: int = 34) -> list[tuple[str, str]]:
    """A player's fetches: each part as it comes, then the end. Every other answer is a delta update."""
    broadcast = Broadcast()
    fetched = []
    for msn in range(1, last):
        for part in range(_PARTS):
            skip = msn > broadcast.window and part % 2 == 1
            query = f"?_HLS_msn={msn}&_HLS_part={part}" + ("&_HLS_skip=YES" if skip else "")
            # With its last part a segment is complete.
            complete = part == _PARTS - 1
            text = broadcast.playlist(msn + complete, 0 if complete else part + 1, skip)
            fetched.append((URL + query, text))
    fetched.append((URL, broadcast.playlist(last, 0, ended=True)))
    return fetched
