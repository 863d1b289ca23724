"""Every playlist that a relay in this process sends in a test is checked, whatever the test is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rtmprelay.hls.playlist import RenditionReport, Variant, multivariant_text
from rtmprelay.hls.recorded import recorded_playlist
from rtmprelay.outputs.hls.broadcast import HlsBroadcast
from rtmprelay.outputs.hls.rendition import Body
from rtmprelay.web import hls as web_hls
from rtmprelay.web.recordings import library
from tests.hls.checker import PlaylistChecker, without_query


class EveryPlaylist:
    """Checks playlists as they are made for sending."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.checker = PlaylistChecker(without_query)
        # Each broadcast has a history of its own, also if another one has its name.
        self._broadcasts: list[HlsBroadcast] = []
        self._last: dict[str, str] = {}
        patch.setattr(HlsBroadcast, "media_playlist", self._media(HlsBroadcast.media_playlist))
        patch.setattr(web_hls, "multivariant_text", self._multivariant(multivariant_text))
        patch.setattr(library, "recorded_playlist", self._recorded(recorded_playlist))

    def _add(self, url: str, text: str) -> None:
        # A version is made once and sent to all.
        if self._last.get(url) != text:
            self._last[url] = text
            self.checker.add(url, text)

    def _media(self, make: Callable[..., Body]) -> Callable[..., Body]:
        def media_playlist(
            broadcast: HlsBroadcast,
            rendition: int,
            skip: bool,
            query: str,
            reports: Sequence[RenditionReport] = (),
        ) -> Body:
            body = make(broadcast, rendition, skip, query, reports)
            if broadcast not in self._broadcasts:
                self._broadcasts.append(broadcast)
            name = f"http://relay/{self._broadcasts.index(broadcast)}/video{rendition}.m3u8"
            self._add(f"{name}?_HLS_skip=YES" if skip else name, body.plain.decode())
            return body

        return media_playlist

    def _multivariant(self, make: Callable[[Sequence[Variant]], str]) -> Callable[[Sequence[Variant]], str]:
        def of_variants(variants: Sequence[Variant]) -> str:
            text = make(variants)
            self._add("http://relay/index.m3u8", text)
            return text

        return of_variants

    def _recorded(self, make: Callable[..., str]) -> Callable[..., str]:
        def of_recording(*parts: Any, **more: Any) -> str:
            text = make(*parts, **more)
            # Files come and go under their names.
            self.checker.add(f"http://relay/recordings/{self.checker.count}/index.m3u8", text)
            return text

        return of_recording

    def assert_clean(self) -> None:
        """Fail with the broken rules, if there are any."""
        # A client that begins with a delta update asks for what it cannot read: that is its own mistake.
        self.checker.broken = [
            one for one in self.checker.broken if "was in no earlier version" not in one.text
        ]
        if self.checker.count:
            self.checker.assert_clean()
