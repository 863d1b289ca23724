"""Live streams over HTTP: `GET /{app}/{name}.flv` and `.mp4`."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime

from rtmprelay.event_bus import EventBus
from rtmprelay.mp4.tracks import UnsupportedMediaError, check_codec
from rtmprelay.outputs.media_formats import FLV_TYPE, MP4_TYPE, FlvReader, Mp4Reader, cannot_be_mp4
from rtmprelay.outputs.media_reader import LiveMediaSettings, MediaContext, MediaReader, Visitor
from rtmprelay.outputs.media_response import MediaResponse, write_headers
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamNotFoundError, StreamRegistry
from rtmprelay.web.server.request import RelayRequest
from rtmprelay.web.server.responses import HttpError

_TYPES = {"flv": FLV_TYPE, "mp4": MP4_TYPE}
_READERS: dict[str, type[MediaReader]] = {"flv": FlvReader, "mp4": Mp4Reader}

#: What a client that came too late is told to wait, in seconds.
_RETRY_AFTER = b"10"


class LiveMedia:
    """Answers with live media, and knows all who watch."""

    def __init__(
        self, registry: StreamRegistry, event_bus: EventBus, settings: LiveMediaSettings, clock: IReactorTime
    ) -> None:
        self._context = MediaContext(registry, event_bus, settings, clock)
        self._readers: dict[MediaReader, None] = {}
        self._last_number = 0

    @property
    def readers(self) -> tuple[MediaReader, ...]:
        """Everybody who watches."""
        return tuple(self._readers)

    def new_connection_id(self) -> str:
        """A name for the log, for the next one who watches."""
        self._last_number += 1
        return f"h{self._last_number:06d}"

    def answer(self, request: RelayRequest, key: str, kind: str, connection_id: str | None = None) -> None:
        """Send a stream as `flv` or `mp4` for as long as it is live; for HEAD, only say that it is.

        Raises:
            HttpError: It is not live, cannot be sent this way, or too many watch already.
        """
        stream = self._live(key)
        if kind == "mp4":
            self._check_codecs(stream)
        if request.method == b"HEAD":
            write_headers(request, _TYPES[kind])
            request.finish()
            return
        self._check_count()
        visitor = Visitor(connection_id or self.new_connection_id(), request.peer)
        reader = _READERS[kind](self._context, visitor, stream, MediaResponse(request), self._left)
        self._readers[reader] = None
        reader.start()

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
        most = self._context.settings.max_readers
        if len(self._readers) >= most:
            raise HttpError(
                503,
                f"{most} clients watch over HTTP already: try again later",
                ((b"Retry-After", _RETRY_AFTER),),
            )

    def _left(self, reader: MediaReader) -> None:
        self._readers.pop(reader, None)

    def stop(self) -> None:
        """The server stops: end all answers."""
        for reader in self.readers:
            reader.end_now("the server stops")
