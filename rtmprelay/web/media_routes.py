"""The paths of media. The port for viewers (`--http-media`) has these and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from rtmprelay.hls.names import is_hls_name
from rtmprelay.web.api.routes import RESERVED, Route, answer, read_only
from rtmprelay.web.clips import CLIP_NAME, Clips
from rtmprelay.web.hls import HlsMedia
from rtmprelay.web.page import Pages
from rtmprelay.web.recordings.routes import RecordedMedia
from rtmprelay.web.server.request import RelayRequest, Result
from rtmprelay.web.server.responses import HttpError
from rtmprelay.web.stills import Stills

#: Answers with a live stream, given its key and the kind of media.
MediaHandler = Callable[[RelayRequest, str, str], Result]

RECORDINGS = "recordings"
ASSETS = "assets"

#: The ending of the path of a stream's latest keyframe.
STILL = "still"

#: Kinds of live media, as path endings.
MEDIA_KINDS = ("flv", "mp4")


class MediaRoutes:
    """Finds what a viewer asks for.

    Args:
        live: Answers with a live stream.
        hls: Answers for streams that can be watched as HLS; None if there are none.
        clips: Answers with clips of those streams.
        recorded: Answers for recordings; None if they are not served.
        pages: The page to watch, and its files.
        stills: Answers with the latest keyframe of a stream.
    """

    def __init__(
        self,
        live: MediaHandler,
        hls: HlsMedia | None,
        clips: Clips | None,
        recorded: RecordedMedia | None,
        pages: Pages,
        stills: Stills,
    ) -> None:
        self._live = live
        self._hls = hls
        self._clips = clips
        self._recorded = recorded
        self._pages = pages
        self._stills = stills

    def find(self, segments: list[str]) -> Route | None:
        """The route of a path; None if it is none of media."""
        *parts, last = segments
        key = "/".join(parts)
        if "" in parts or (not last and not parts):
            return None
        recorded = self._recorded
        if recorded is not None and segments[0] == RECORDINGS and len(segments) == 3:
            return read_only(lambda request: recorded.respond(request, parts[1], last))
        hls, clips = self._hls, self._clips
        if hls is not None and not last:
            # Of a stream that is not live too: the page waits for it.
            is_sent = hls.sends(key)
            return (
                read_only(lambda request: self._pages.watch(request, len(parts)), False) if is_sent else None
            )
        if hls is not None and parts and is_hls_name(last):
            return read_only(lambda request: hls.respond(request, key, last))
        if clips is not None and parts and last == CLIP_NAME:
            return read_only(lambda request: clips.respond(request, key))
        if not last:
            return None
        name, dot, kind = "/".join(segments).rpartition(".")
        if dot and kind == STILL and name:
            return read_only(lambda request: self._stills.respond(request, name))
        if not dot or kind not in MEDIA_KINDS or not name:
            return None
        return read_only(lambda request: self._live(request, name, kind))

    def respond(self, request: RelayRequest) -> Result:
        """Answer a request on the port for viewers."""
        return answer(request, self._find_or_refuse, b"GET, HEAD, OPTIONS")

    def _find_or_refuse(self, segments: list[str]) -> Route:
        if segments == [RECORDINGS] and self._recorded is not None:
            return read_only(self._recorded.list_for_viewers)
        if segments[0] == ASSETS and len(segments) == 2:
            return read_only(lambda request: self._pages.watch_asset(request, segments[1]), False)
        route = None if segments[0] in RESERVED else self.find(segments)
        if route is None:
            raise HttpError(
                404, "there is nothing here: /APP/NAME/, its index.m3u8, and /APP/NAME.flv or .mp4 are known"
            )
        return route
