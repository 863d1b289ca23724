"""`GET /recordings` and what is under it: `FILE/index.m3u8`, the beginning of the segments, the segments, and `FILE/download`."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from twisted.internet.defer import Deferred

from rtmprelay.hls.recorded import INIT_NAME, ByteRange, read_segment_name
from rtmprelay.hls.signing import UriSigner, signature_in
from rtmprelay.web.media_gate import MediaGate
from rtmprelay.web.recordings.folder import ListedFile, stream_of
from rtmprelay.web.recordings.library import RecordingLibrary
from rtmprelay.web.server.pieces import PieceSender
from rtmprelay.web.server.ranges import wanted_range
from rtmprelay.web.server.request import RelayRequest, Result
from rtmprelay.web.server.responses import Headers, HttpError, Response, iso_time, list_pieces

PLAYLIST_TYPE = b"application/vnd.apple.mpegurl"
_SEGMENT_TYPE = b"video/mp4"
_FILE_TYPE = b"video/x-flv"
_PLAYLIST_NAME = "index.m3u8"
_DOWNLOAD_NAME = "download"

#: The gate is asked for this stream before the list is shown to viewers.
LIST_KEY = "recordings"

#: Seconds for which a cache may keep a segment: it never changes, but the recording may be deleted.
_SEGMENT_AGE = 3600

#: Seconds for which a cache may keep the playlist of a recording that has ended.
_PLAYLIST_AGE = 60

#: Seconds for which the addresses in a playlist are good: people watch a long recording with pauses.
_SIGNED_FOR = 24 * 3600


class RecordedMedia:
    """Answers requests for recordings.

    Args:
        gate: Is asked for each playlist, as for the stream that was recorded. Unless it lets everybody in, the addresses
            in the playlist are signed.
        wall_clock: Seconds since 1970.
    """

    def __init__(
        self,
        library: RecordingLibrary,
        gate: MediaGate,
        signer: UriSigner,
        wall_clock: Callable[[], float],
    ) -> None:
        self._library = library
        self._gate = gate
        self._signer = signer
        self._wall_clock = wall_clock

    # -- the list --------------------------------------------------------------------------------------------

    def list_for_viewers(self, request: RelayRequest) -> Result:
        """The list, if the client may have it."""
        return self._gate.ask(request, LIST_KEY, lambda _: Deferred.fromCoroutine(self._list()))

    async def _list(self) -> Response:
        pieces, _ = await self.listing()
        return Response(b'{"api_version":1,"files":' + b"".join(pieces) + b"}\n")

    async def listing(self) -> tuple[list[bytes], int]:
        """The files as JSON, and how many more there are."""
        files, more = await self._library.list()
        growing = self._library.growing()
        return list(list_pieces(_file_json(file, file.name in growing) for file in files)), more

    # -- one recording ---------------------------------------------------------------------------------------

    def respond(self, request: RelayRequest, name: str, part: str) -> Result:
        """Send a playlist, the beginning of the segments, or a segment.

        Raises:
            HttpError: There is no such thing, or the client may not have it.
        """
        if part == _PLAYLIST_NAME:
            return self._gate.ask(
                request, stream_of(name), lambda _: Deferred.fromCoroutine(self._playlist(name))
            )
        if part == _DOWNLOAD_NAME:
            return self._gate.ask(
                request, stream_of(name), lambda _: Deferred.fromCoroutine(self._download(request, name))
            )
        wanted = read_segment_name(part)
        if part != INIT_NAME and wanted is None:
            raise HttpError(
                404, f"there is nothing here: /recordings/FILE/{_PLAYLIST_NAME} plays a recording"
            )
        if not self._gate.is_open and not self._is_signed(request, name):
            raise HttpError(403, "the address is not signed, or too old: ask for the playlist again")
        if wanted is None:
            return Deferred.fromCoroutine(self._init(name))
        return Deferred.fromCoroutine(self._segment(request, name, wanted))

    async def _playlist(self, name: str) -> Response:
        signed_for = _signed_name(name)
        query = "" if self._gate.is_open else self._signer.sign(signed_for, self._wall_clock(), _SIGNED_FOR)
        playlist = await self._library.playlist(name, query)
        ended = "#EXT-X-ENDLIST" in playlist
        return Response(playlist.encode(), 200, PLAYLIST_TYPE, self._cached(_PLAYLIST_AGE if ended else 1))

    async def _init(self, name: str) -> Response:
        return Response(await self._library.init(name), 200, _SEGMENT_TYPE, self._cached(_SEGMENT_AGE))

    async def _segment(self, request: RelayRequest, name: str, wanted: ByteRange) -> None:
        reader = await self._library.segment(name, wanted)
        sender = PieceSender(request, lambda: self._library.read(reader.next))
        await sender.send(_SEGMENT_TYPE, self._cached(_SEGMENT_AGE, b", immutable"))

    async def _download(self, request: RelayRequest, name: str) -> None:
        """The file as it is, or a part of it: downloads that broke off go on."""
        file = await self._library.file(name)
        headers: Headers = (
            (b"ETag", file.etag),
            (b"Accept-Ranges", b"bytes"),
            (b"Cache-Control", b"private, no-cache"),
            (b"Content-Disposition", b"attachment; filename*=UTF-8''" + quote(name, safe="").encode()),
        )
        part = wanted_range(request, file.size, file.etag)
        begin, end = part or (0, file.size)
        if part is not None:
            file.limit(begin, end)
            request.setResponseCode(206)
            headers = (*headers, (b"Content-Range", b"bytes %d-%d/%d" % (begin, end - 1, file.size)))
        sender = PieceSender(request, lambda: self._library.read(file.next))
        await sender.send(_FILE_TYPE, (*headers, (b"Content-Length", b"%d" % (end - begin))))

    def _cached(self, seconds: int, more: bytes = b"") -> Headers:
        # Signed playlists are one viewer's; what they name is the same for all.
        who = b"public" if self._gate.is_open or more else b"private"
        return ((b"Cache-Control", b"%s, max-age=%d%s" % (who, seconds, more)),)

    def _is_signed(self, request: RelayRequest, name: str) -> bool:
        return self._signer.permits(_signed_name(name), signature_in(request.query), self._wall_clock())


def _signed_name(name: str) -> str:
    """What is signed for a recording: nothing that is a stream's name too."""
    return f"\nrecordings/{name}"


def _file_json(file: ListedFile, growing: bool) -> dict[str, object]:
    return {
        "name": file.name,
        "size": file.size,
        "duration": file.duration,
        "started": iso_time(file.started),
        "stream": file.stream,
        "growing": growing,
    }
