"""`GET /{app}/{name}.still`: the latest keyframe as an MP4 with one picture. The browser that shows it decodes it."""

from __future__ import annotations

from rtmprelay.media import MediaFrame
from rtmprelay.mp4.fragments import FragmentEncoder, FragmentPlacer
from rtmprelay.mp4.init_segment import init_segment
from rtmprelay.mp4.tracks import TrackFinder, UnsupportedMediaError
from rtmprelay.streams.registry import StreamRegistry
from rtmprelay.web.media_gate import MediaGate
from rtmprelay.web.server.request import RelayRequest, Result
from rtmprelay.web.server.responses import Response

_TYPE = b"video/mp4"


class Stills:
    """Answers with what late joiners would begin with. Nobody becomes a player of the stream for it."""

    def __init__(self, registry: StreamRegistry, gate: MediaGate) -> None:
        self._registry = registry
        self._gate = gate

    def respond(self, request: RelayRequest, key: str) -> Result:
        """Send the picture; 204 if there is none now.

        Raises:
            HttpError: The client may not have it.
        """
        return self._gate.ask(request, key, lambda _: self._still(key))

    def _still(self, key: str) -> Response:
        stream = self._registry.get(key)
        picture = b"" if stream is None else one_picture(stream.still())
        return Response(picture, 200 if picture else 204, _TYPE)


def one_picture(frames: list[MediaFrame]) -> bytes:
    """Decoder configuration and a keyframe as an MP4; nothing if an MP4 cannot hold them."""
    finder = TrackFinder()
    try:
        for frame in frames:
            finder.note(frame)
    except UnsupportedMediaError:
        return b""
    if finder.video is None:
        return b""
    tracks = FragmentEncoder(finder.video, None)
    fragment = tracks.encode(frames[-1:])
    if not fragment:
        return b""
    placed = FragmentPlacer(tracks, frames[-1].timestamp_ms).place(fragment)
    return b"".join([init_segment([finder.video]), *placed])
