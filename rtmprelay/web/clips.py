"""`GET /APP/NAME/clip.mp4`: a part of the window as a plain MP4."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from twisted.internet.defer import Deferred, DeferredSemaphore

from rtmprelay.errors import ConfigError
from rtmprelay.hls.clip import LONGEST_CLIP, Clip, ClipFile, NothingThereError, cut_clip, make_file
from rtmprelay.hls.names import MediaName, MediaPiece
from rtmprelay.hls.signing import signature_in
from rtmprelay.hls.window import Window
from rtmprelay.mp4.progressive import BadFragmentError
from rtmprelay.outputs.hls.broadcast import HlsBroadcast
from rtmprelay.outputs.hls.service import Hls
from rtmprelay.quantities import read_duration, utc_time
from rtmprelay.web.media_gate import MediaGate
from rtmprelay.web.server.pieces import PieceSender
from rtmprelay.web.server.ranges import wanted_range
from rtmprelay.web.server.request import RelayRequest, Result
from rtmprelay.web.server.responses import RETRY_LATER, Headers, HttpError, Response
from rtmprelay.web.server.threads import InThread

CLIP_NAME = "clip.mp4"

#: Seconds of a clip if nothing else is asked for.
_USUAL = 30.0

#: Clips that are made at the same time, and requests that may wait for it: every sample is looked at.
_MAKERS = 1
_MAX_WAITING = 50

_MAX_PARAMETERS = 32

#: A clip that is the same whenever it is asked for.
_FIXED = re.compile(rb"(?:^|&)to=")


class Clips:
    """Answers requests for clips.

    Args:
        in_thread: Calls a function in a thread.
    """

    def __init__(self, hls: Hls, gate: MediaGate, in_thread: InThread) -> None:
        self._hls = hls
        self._gate = gate
        self._in_thread = in_thread
        self._makers = DeferredSemaphore(_MAKERS)

    def respond(self, request: RelayRequest, key: str) -> Result:
        """Send a clip of a stream.

        Raises:
            HttpError: There is no such clip, or the client may not have it.
        """
        if not self._gate.is_open and self._is_signed(request, key):
            return self._answer(request, key)
        return self._gate.ask(request, key, lambda _: self._answer(request, key))

    def _answer(self, request: RelayRequest, key: str) -> Result:
        answered: Deferred[Any] = Deferred.fromCoroutine(self._send(request, key))
        return answered

    def _is_signed(self, request: RelayRequest, key: str) -> bool:
        """Whether it is an address that was given to a client who had permission."""
        return self._hls.signer.permits(
            _signed_name(key), signature_in(request.query), self._hls.wall_clock()
        )

    async def _send(self, request: RelayRequest, key: str) -> Response | None:
        window, clip = self._cut(request, key, request.site.unread.most // 2)
        if request.header(b"Range") and not _FIXED.search(request.query):
            return self._fixed_address(window, clip, key)
        # What is on a disk is read piece by piece. What is in memory stays there when the window has moved on.
        unread = request.site.unread
        unread.check(request.client_host, clip.held)
        sent = unread.add(request.client_host, clip.held)
        try:
            await self._send_file(request, key, clip)
        finally:
            sent()
        return None

    def _fixed_address(self, window: Window, clip: Clip, key: str) -> Response:
        """A client that wants parts asks for them one by one, and the clip must be the same each time."""
        last = window.segments[-1] if window.segments else window.listed[-1]
        # In the middle of the first and the last segment: nothing hangs on the last digit.
        query = f"from={utc_time(clip.begin + 0.01)}&to={utc_time(last.date + last.duration - 0.01)}"
        if not self._gate.is_open:
            query += f"&{self._hls.signer.sign(_signed_name(key), self._hls.wall_clock())}"
        return Response(b"", 302, headers=((b"Location", f"{CLIP_NAME}?{query}".encode()),))

    async def _send_file(self, request: RelayRequest, key: str, clip: Clip) -> None:
        try:
            file: ClipFile = await self._make(clip)
        except OSError:
            raise HttpError(404, "a part of the clip has just left the window: ask for a later one") from None
        except BadFragmentError as error:
            # A publisher's times may be anything, and so may files of an earlier run.
            raise HttpError(415, f"the clip cannot be a plain MP4: {error}") from None
        etag = b'"%x-%x-%x"' % (int(clip.begin * 1000), file.size, len(clip.media))
        part = wanted_range(request, file.size, etag)
        begin, end = part or (0, file.size)
        pieces = file.pieces(begin, end)

        async def following() -> bytes | None:
            if clip.has_files:
                piece: bytes | None = await self._in_thread(next, pieces, None)
                return piece
            return next(pieces, None)

        headers: Headers = (
            (b"Content-Length", b"%d" % (end - begin)),
            (b"Accept-Ranges", b"bytes"),
            (b"ETag", etag),
            (b"Content-Disposition", b'inline; filename="%s"' % _file_name(key, clip.begin)),
            (b"Cache-Control", b"no-store"),
        )
        if part is not None:
            headers = (*headers, (b"Content-Range", b"bytes %d-%d/%d" % (begin, end - 1, file.size)))
            request.setResponseCode(206)
        await PieceSender(request, following).send(b"video/mp4", headers)

    def _make(self, clip: Clip) -> Deferred[ClipFile]:
        if len(self._makers.waiting) >= _MAX_WAITING:
            raise HttpError(503, "too many clips are being made: try again later", RETRY_LATER)
        made: Deferred[ClipFile] = self._makers.run(self._in_thread, make_file, clip)
        return made

    def _cut(self, request: RelayRequest, key: str, most: int) -> tuple[Window, Clip]:
        broadcast = self._hls.get(key)
        if broadcast is None:
            raise HttpError(404, "nobody publishes this stream now, or it is not sent as HLS")
        found = next(((n, window) for n, window in enumerate(broadcast.windows) if window.listed), None)
        if found is None:
            raise HttpError(503, "the stream has not sent enough for a clip yet: ask again", RETRY_LATER)
        number, window = found
        begin, end = _times(request.query, _end_of(window))
        try:
            clip = cut_clip(window, begin, end, partial(_file_of, broadcast, number))
        except NothingThereError as error:
            first, last = utc_time(window.listed[0].date), utc_time(_end_of(window))
            raise HttpError(404, f"{error}: it reaches from {first} to {last}") from None
        if clip.size > most:
            raise HttpError(400, "the clip would be too large: ask for less")
        return window, clip


def _signed_name(key: str) -> str:
    """What is signed for clips of a stream: nothing that permits anything else."""
    return f"\nclip/{key}"


def _file_of(broadcast: HlsBroadcast, rendition: int, segment: int) -> Path | None:
    """Where a segment is on a disk, if it is not in memory."""
    return broadcast.file_of(MediaName(MediaPiece.SEGMENT, broadcast.name, rendition, segment))


def _end_of(window: Window) -> float:
    last = window.listed[-1]
    return last.date + last.duration


def _times(query: bytes, now: float) -> tuple[float, float]:
    """Begin and end of the clip that a query asks for, in seconds since 1970."""
    try:
        found = parse_qs(query.decode("ascii"), max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        raise HttpError(400, "the query cannot be read") from None

    def take(name: str, read: Callable[[str], float], expected: str) -> float | None:
        if name not in found:
            return None
        try:
            return read(found[name][0])
        except (ValueError, ConfigError):
            raise HttpError(400, f"{name} is wrong: {expected} is expected") from None

    moment = "a time with its zone, such as 2026-05-17T20:15:00Z,"
    last = take("last", lambda text: read_duration(text, 0.001), "a duration such as 30s")
    begin, end = take("from", _read_time, moment), take("to", _read_time, moment)
    if last is not None and (begin is not None or end is not None):
        raise HttpError(400, "give either last or from and to")
    end = now if end is None else end
    begin = end - (last or _USUAL) if begin is None else begin
    if begin >= end:
        raise HttpError(400, "from must be before to")
    if min(end, now) - begin > LONGEST_CLIP:
        raise HttpError(400, f"a clip has {LONGEST_CLIP:g} s at most: ask for less")
    return begin, end


def _read_time(text: str) -> float:
    # A plus sign in a query is a blank.
    time = datetime.fromisoformat(text.replace(" ", "+"))
    if time.tzinfo is None:
        raise ValueError(text)
    return time.timestamp()


def _file_name(key: str, begin: float) -> bytes:
    name = "".join(one if one.isascii() and (one.isalnum() or one in "-_") else "_" for one in key)
    return f"{name[:80]}_{datetime.fromtimestamp(begin, UTC):%Y%m%d_%H%M%S}.mp4".encode()
