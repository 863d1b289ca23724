"""The paths of media. The port for viewers (`--http-media`) has these and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from rtmprelay.hls.names import is_hls_name
from rtmprelay.web.api.routes import RESERVED, Route, answer, read_only
from rtmprelay.web.hls import HlsMedia
from rtmprelay.web.server.request import RelayRequest, Result
from rtmprelay.web.server.responses import HttpError

#: Answers with a live stream, given its key and the kind of media.
MediaHandler = Callable[[RelayRequest, str, str], Result]

#: Kinds of live media, as path endings.
MEDIA_KINDS = ("flv", "mp4")


class MediaRoutes:
    """Finds what a viewer asks for.

    Args:
        live: Answers with a live stream.
        hls: Answers for streams that can be watched as HLS; None if there are none.
    """

    def __init__(self, live: MediaHandler, hls: HlsMedia | None) -> None:
        self._live = live
        self._hls = hls

    def find(self, segments: list[str]) -> Route | None:
        """The route of a path; None if it is none of media."""
        *parts, last = segments
        key = "/".join(parts)
        if "" in segments:
            return None
        hls = self._hls
        if hls is not None and parts and is_hls_name(last):
            return read_only(lambda request: hls.respond(request, key, last))
        name, dot, kind = "/".join(segments).rpartition(".")
        if not dot or kind not in MEDIA_KINDS or not name:
            return None
        return read_only(lambda request: self._live(request, name, kind))

    def respond(self, request: RelayRequest) -> Result:
        """Answer a request on the port for viewers."""
        return answer(request, self._find_or_refuse, b"GET, HEAD, OPTIONS")

    def _find_or_refuse(self, segments: list[str]) -> Route:
        route = None if segments[0] in RESERVED else self.find(segments)
        if route is None:
            raise HttpError(
                404, "there is nothing here: /APP/NAME/index.m3u8 and /APP/NAME.flv or .mp4 are known"
            )
        return route
