"""HLS over HTTP: playlists, parts and segments, and who may have them."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from rtmprelay.errors import LimitExceededError
from rtmprelay.hls.cmcd import read_cmcd
from rtmprelay.hls.directives import BadDirectiveError, Directives, read_directives, read_session
from rtmprelay.hls.names import INDEX, MediaName, MediaPiece, read_media_name, read_playlist_name
from rtmprelay.hls.playlist import Variant, multivariant_text
from rtmprelay.hls.signing import PARAMETER
from rtmprelay.hls.variant_groups import relative_path
from rtmprelay.outputs.hls.broadcast import HlsBroadcast
from rtmprelay.outputs.hls.service import Hls
from rtmprelay.outputs.hls.viewers import HlsClient, HlsViewer, SessionEndedError
from rtmprelay.web.media_gate import MediaGate
from rtmprelay.web.server.pieces import PieceSender
from rtmprelay.web.server.request import RelayRequest, Result
from rtmprelay.web.server.responses import BEARER_CHALLENGE, RETRY_LATER, Headers, HttpError, Response
from rtmprelay.web.server.threads import InThread

_T = TypeVar("_T")

PLAYLIST_TYPE = b"application/vnd.apple.mpegurl"

#: Seconds for which viewers may use the playlist that index.m3u8 named, where no session says that they still watch.
_ANONYMOUS_FOR = 12 * 3600

_MAX_PARAMETERS = 32

#: Bytes of a segment's file that are read at a time.
_PIECE = 256 * 1024

#: A browser asks again each time; a cache between keeps a playlist for a second, and sends one request for all.
_SHARED = b"max-age=0, s-maxage=1"
_PRIVATE = b"no-store"

_CMCD_HEADERS = (b"CMCD-Request", b"CMCD-Object", b"CMCD-Session", b"CMCD-Status")


class HlsMedia:
    """Answers for all streams that can be watched as HLS."""

    def __init__(self, hls: Hls, gate: MediaGate, in_thread: InThread) -> None:
        self._hls = hls
        self._in_thread = in_thread
        self._gate = gate
        self._viewers = hls.viewers
        seconds = max(1, int(hls.settings.window))
        self._media_headers: Headers = ((b"Cache-Control", b"public, max-age=%d, immutable" % seconds),)

    def sends(self, key: str) -> bool:
        """Whether this stream can be watched when it is live."""
        return self._hls.settings.wants(key)

    def respond(self, request: RelayRequest, key: str, name: str) -> Result:
        """Send what has this name below the stream.

        Raises:
            HttpError: It is not there, not permitted, or not understood.
        """
        if name == INDEX:
            return self._gate.ask(
                request, key, lambda connection: self._respond_index(request, key, connection)
            )
        parameters = _parameters(request)
        media = read_media_name(name)
        self._check_permission(key, parameters, is_media=media is not None)
        broadcast = self._broadcast(key)
        if media is not None:
            return self._respond_media(request, broadcast, media, parameters)
        rendition = read_playlist_name(name)
        if rendition is None or not broadcast.has_rendition(rendition):
            raise HttpError(404, "there is no such rendition: index.m3u8 names those that there are")
        return self._respond_playlist(request, broadcast, rendition, parameters)

    def _broadcast(self, key: str) -> HlsBroadcast:
        broadcast = self._hls.get(key)
        if broadcast is None:
            raise HttpError(
                404,
                "nobody publishes this stream now, or it is not sent as HLS: /APP/NAME.flv has every live stream",
            )
        return broadcast

    # -- permission ------------------------------------------------------------------------------------------

    def _check_permission(self, key: str, parameters: dict[str, str], is_media: bool) -> None:
        """Whether index.m3u8 was permitted. A session that goes on needs no new signature for its playlists."""
        if self._gate.is_open:
            return
        session = parameters.get("session", "")
        if not is_media and self._viewers.knows(key, session):
            return
        signature = parameters.get(PARAMETER, "")
        if not signature:
            raise HttpError(401, "ask for index.m3u8 first: it names what you may have", BEARER_CHALLENGE)
        name = key if is_media else _playlists_of(key, session)
        # With a key for several relays, another one may have handed out the session.
        settings = self._hls.settings
        needs_no_session = is_media or settings.sign_key is not None or settings.anonymous
        if not self._hls.signer.permits(name, signature, self._hls.wall_clock()) or not (
            needs_no_session or self._viewers.is_permitted(session)
        ):
            raise HttpError(403, "this address is no longer good: ask for index.m3u8 again")

    def _signed(self, key: str, seconds: float | None = None) -> str:
        """The parameter that permits media of this stream; empty if nothing needs a permission."""
        if self._gate.is_open:
            return ""
        return self._hls.signer.sign(key, self._hls.wall_clock(), seconds)

    # -- playlists -------------------------------------------------------------------------------------------

    def _respond_index(self, request: RelayRequest, key: str, connection: str) -> Result:
        access = self._gate.granted(connection)
        members = self._hls.members(key)
        broadcast = members[0] if members else self._broadcast(key)
        anonymous = self._hls.settings.anonymous
        if not anonymous:
            self._within_limits(lambda: self._viewers.refuse_if_full(broadcast.stream))

        def respond() -> Response:
            _check_ready(broadcast)
            session = "" if anonymous else secrets.token_urlsafe(9)
            if session and access is not None:
                self._viewers.permit(session, access)
            variants: list[Variant] = []
            for one in self._hls.members(key) or [broadcast]:
                signed = _playlists_of(one.key, session)
                signature = self._signed(signed, _ANONYMOUS_FOR if anonymous else None)
                folder = "" if one.key == key else f"{relative_path(one.key, key)}/"
                query = "&".join(filter(None, (session and f"session={session}", signature)))
                variants += one.variants(query, folder)
            return _playlist(multivariant_text(variants).encode(), _SHARED if anonymous else _PRIVATE)

        return self._when(request, broadcast.when_ready, respond)

    def _respond_playlist(
        self, request: RelayRequest, broadcast: HlsBroadcast, rendition: int, parameters: dict[str, str]
    ) -> Result:
        directives = _understood(lambda: read_directives(parameters))
        asked = directives.segment
        if asked is not None and broadcast.is_far_ahead(rendition, asked, directives.part):
            raise HttpError(400, "_HLS_msn or _HLS_part is too far ahead of the playlist")
        viewer = self._viewer(request, broadcast, parameters)

        def wait() -> Deferred[None] | None:
            if asked is None or not broadcast.is_ready:
                return broadcast.when_ready()
            return broadcast.when_reached(rendition, asked, directives.part)

        def respond() -> Response:
            _check_ready(broadcast)
            if viewer is not None:
                if viewer.has_ended:
                    raise HttpError(403, "the operator of this server ended this session")
                self._viewers.still_asks(viewer)
            response = self._media_playlist(request, broadcast, rendition, directives)
            if viewer is not None:
                viewer.sent(len(response.body))
            return response

        return self._when(request, wait, respond, viewer)

    def _media_playlist(
        self, request: RelayRequest, broadcast: HlsBroadcast, rendition: int, directives: Directives
    ) -> Response:
        reports = [
            report
            for other in self._hls.other_variants(broadcast.key)
            for report in other.reports(
                f"../{relative_path(other.key, broadcast.key).removeprefix('../')}/", self._signed(other.key)
            )
        ]
        body = broadcast.media_playlist(rendition, directives.skip, self._signed(broadcast.key), reports)
        # The publisher may be away: then a player gets what there is, and no cache keeps it as what was asked for.
        is_late = directives.segment is not None and not broadcast.has(
            rendition, directives.segment, directives.part
        )
        headers: Headers = ((b"Vary", b"Accept-Encoding"),)
        if "gzip" in request.header(b"Accept-Encoding"):
            headers = (*headers, (b"Content-Encoding", b"gzip"))
            return _playlist(body.compressed, _PRIVATE if is_late else _SHARED, headers)
        return _playlist(body.plain, _PRIVATE if is_late else _SHARED, headers)

    def _viewer(
        self, request: RelayRequest, broadcast: HlsBroadcast, parameters: dict[str, str]
    ) -> HlsViewer | None:
        """The session that asks; None if viewers are anonymous, or nothing more comes."""
        session = _understood(lambda: read_session(parameters))
        if self._hls.settings.anonymous or broadcast.ended_at is not None:
            return None
        client = _client(request)
        name = session or f"{client.host} {client.agent}"
        try:
            viewer = self._within_limits(
                lambda: self._viewers.asks_for_playlist(broadcast.stream, name, client)
            )
        except SessionEndedError as error:
            raise HttpError(403, str(error)) from None
        self._note_cmcd(request, parameters, viewer)
        return viewer

    # -- media -----------------------------------------------------------------------------------------------

    def _respond_media(
        self, request: RelayRequest, broadcast: HlsBroadcast, name: MediaName, parameters: dict[str, str]
    ) -> Result:
        if name.broadcast != broadcast.name or not broadcast.has_rendition(name.rendition):
            raise HttpError(404, "there is no such piece of media in this broadcast")
        viewer = self._viewers.of_client(broadcast.key, _client(request))
        if viewer is not None:
            self._note_cmcd(request, parameters, viewer)

        def sent(data: bytes) -> Response:
            if viewer is not None:
                viewer.sent(len(data))
            return Response(data, 200, broadcast.media_type, self._media_headers)

        def wait() -> Deferred[None] | None:
            if name.piece is not MediaPiece.PART:
                return None
            return broadcast.when_part(name.rendition, name.number)

        def respond() -> Response:
            data = broadcast.media(name)
            if data is None:
                if broadcast.had(name):
                    raise HttpError(410, "this piece of media has left the window")
                raise HttpError(404, "this piece of media has not come yet: the playlist names what there is")
            return sent(data)

        path = broadcast.file_of(name)
        if path is None:
            return self._when(request, wait, respond)
        return Deferred.fromCoroutine(self._send_file(request, path, broadcast.media_type, viewer))

    async def _send_file(
        self, request: RelayRequest, path: Path, media_type: bytes, viewer: HlsViewer | None
    ) -> None:
        """Send a segment piece by piece: each client would otherwise have a copy of it in memory."""
        try:
            size = (await self._in_thread(path.stat)).st_size
            pieces = iter(range(0, size, _PIECE))

            async def following() -> bytes | None:
                at = next(pieces, None)
                piece: bytes | None = None if at is None else await self._in_thread(_read, path, at)
                if viewer is not None and piece is not None:
                    viewer.account.bytes_sent += len(piece)
                return piece

            headers = (*self._media_headers, (b"Content-Length", b"%d" % size))
            await PieceSender(request, following).send(media_type, headers)
        except OSError:
            # The file was deleted in this moment, or the disk is broken.
            raise HttpError(410, "this piece of media has left the window") from None
        if viewer is not None:
            viewer.sent(0)

    # -- waiting ---------------------------------------------------------------------------------------------

    def _when(
        self,
        request: RelayRequest,
        wait: Callable[[], Deferred[None] | None],
        respond: Callable[[], Response],
        viewer: HlsViewer | None = None,
    ) -> Result:
        """Respond now or when something has come, unless the client goes away before."""
        waiting = self._within_limits(wait)
        if waiting is None:
            return respond()
        answered: Deferred[None] = Deferred()
        if viewer is not None:
            viewer.waiting += 1

        def over(result: object) -> None:
            if viewer is not None:
                viewer.waiting -= 1
            if isinstance(result, Failure):
                # The client has gone.
                result.trap(CancelledError)
            else:
                # A part lets hundreds of requests go at once, and live streams go first.
                request.site.scheduler.run(lambda: answered.callback(None))

        request.notifyFinish().addErrback(lambda _: waiting.cancel())
        waiting.addBoth(over)
        return answered.addCallback(lambda _: respond())

    def _within_limits(self, act: Callable[[], _T]) -> _T:
        try:
            return act()
        except LimitExceededError as error:
            raise HttpError(503, f"{error}: try again later", RETRY_LATER) from None

    def _note_cmcd(self, request: RelayRequest, parameters: dict[str, str], viewer: HlsViewer) -> None:
        texts = [parameters["CMCD"]] if "CMCD" in parameters else []
        texts += [text for name in _CMCD_HEADERS if (text := request.header(name))]
        told = read_cmcd(texts) if texts else None
        if told is not None:
            self._viewers.note(viewer, told)


def _understood(read: Callable[[], _T]) -> _T:
    try:
        return read()
    except BadDirectiveError as error:
        raise HttpError(400, str(error)) from None


def _read(path: Path, at: int) -> bytes:
    with path.open("rb") as file:
        file.seek(at)
        return file.read(_PIECE)


def _check_ready(broadcast: HlsBroadcast) -> None:
    if not broadcast.is_ready:
        raise HttpError(
            503, "the stream has not sent enough for a playlist yet: ask again", ((b"Retry-After", b"2"),)
        )


def _playlist(body: bytes, cache: bytes, headers: Headers = ()) -> Response:
    return Response(body, 200, PLAYLIST_TYPE, (*headers, (b"Cache-Control", cache)))


def _parameters(request: RelayRequest) -> dict[str, str]:
    """The query of a request. If a name occurs twice, its first value counts."""
    try:
        pairs = parse_qsl(
            request.query.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=_MAX_PARAMETERS,
            errors="strict",
        )
    except ValueError:
        raise HttpError(400, "the query cannot be read") from None
    return dict(reversed(pairs))


def _playlists_of(key: str, session: str) -> str:
    """What is signed for the playlists of a session: nothing that permits anything else, or anybody else."""
    return f"\nplaylists/{session}/{key}"


def _client(request: RelayRequest) -> HlsClient:
    return HlsClient(request.client_host, request.peer, request.header(b"User-Agent")[:200])
