"""Live streams over HTTP: `GET /{app}/{name}.flv` and `.mp4`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from twisted.internet.interfaces import IReactorTime

from rtmprelay.access.request import AccessRequest
from rtmprelay.event_bus import EventBus
from rtmprelay.mp4.tracks import UnsupportedMediaError, check_codec
from rtmprelay.outputs.http_flv import FLV_TYPE, FlvViewer
from rtmprelay.outputs.http_mp4 import MP4_TYPE, Mp4Viewer, cannot_be_mp4
from rtmprelay.outputs.http_viewer import HttpViewer, LiveMediaContext, LiveMediaSettings
from rtmprelay.outputs.media_response import MediaResponse, write_headers
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamNotFoundError, StreamRegistry
from rtmprelay.web.media_gate import MediaGate
from rtmprelay.web.server.quota import AddressQuota
from rtmprelay.web.server.request import RelayRequest, Result
from rtmprelay.web.server.responses import RETRY_LATER, HttpError

_TYPES = {"flv": FLV_TYPE, "mp4": MP4_TYPE}
_VIEWERS: dict[str, type[HttpViewer]] = {"flv": FlvViewer, "mp4": Mp4Viewer}


class LiveMedia:
    """Responds with live media, and keeps the viewers."""

    def __init__(
        self,
        registry: StreamRegistry,
        event_bus: EventBus,
        settings: LiveMediaSettings,
        gate: MediaGate,
        clock: IReactorTime,
        quota: AddressQuota,
    ) -> None:
        self._context = LiveMediaContext(registry, event_bus, settings, clock)
        self._gate = gate
        self._quota = quota
        # In the order in which they came.
        self._viewers: dict[HttpViewer, None] = {}

    @property
    def viewers(self) -> tuple[HttpViewer, ...]:
        """The clients that watch now, oldest first."""
        return tuple(self._viewers)

    def end(self, connection: str, reason: str) -> bool:
        """End the response to a client. Returns whether there was one."""
        viewer = next((one for one in self._viewers if one.connection_id == connection), None)
        if viewer is not None:
            viewer.end_now(reason)
        return viewer is not None

    def granted(self) -> list[tuple[AccessRequest, Callable[[str], object]]]:
        """What was allowed and is going on, each with what ends it for a reason."""
        asked = [(viewer.connection_id, self._gate.granted(viewer.connection_id)) for viewer in self._viewers]
        return [(access, partial(self.end, connection)) for connection, access in asked if access is not None]

    def respond(self, request: RelayRequest, key: str, kind: str) -> Result:
        """Send a stream as `flv` or `mp4` for as long as it is live. A HEAD request gets the headers only.

        Raises:
            HttpError: The stream is not live, it cannot be sent in this format, or there are too many viewers.
        """
        return self._gate.ask(
            request, key, lambda connection_id: self._respond(request, key, kind, connection_id)
        )

    def _respond(self, request: RelayRequest, key: str, kind: str, connection_id: str) -> None:
        stream = self._live(key)
        if kind == "mp4":
            self._check_codecs(stream)
        if request.method == b"HEAD":
            write_headers(request, _TYPES[kind])
            request.finish()
            return
        self._check_count()
        give_back = self._quota.take(request.client_host)
        request.notifyFinish().addBoth(lambda _: give_back())
        viewer = _VIEWERS[kind](self._context, connection_id, stream, MediaResponse(request), self._left)
        self._viewers[viewer] = None
        viewer.start()

    def _left(self, viewer: HttpViewer) -> None:
        self._viewers.pop(viewer, None)

    def _live(self, key: str) -> LiveStream:
        try:
            return self._context.registry.live(key)
        except StreamNotFoundError:
            raise HttpError(
                404, "nobody publishes this stream now: /streams lists those that are live"
            ) from None

    def _check_codecs(self, stream: LiveStream) -> None:
        try:
            check_codec(stream.video_codec)
            check_codec(stream.audio_codec)
        except UnsupportedMediaError as error:
            raise cannot_be_mp4(stream.key, error) from None

    def _check_count(self) -> None:
        most = self._context.settings.max_viewers
        if len(self._viewers) >= most:
            raise HttpError(
                503,
                f"{most} clients watch over HTTP already: try again later",
                RETRY_LATER,
            )

    def stop(self) -> None:
        """End all responses."""
        for viewer in self.viewers:
            viewer.end_now("the server stops")
