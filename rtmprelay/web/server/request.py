"""One HTTP request: its bounds, its path taken apart, and its answer."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote_to_bytes

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import datetimeToString
from twisted.web.iweb import INonQueuedRequestFactory
from twisted.web.server import Request
from typing_extensions import override
from zope.interface import provider

from rtmprelay import __version__
from rtmprelay.rtmp.addresses import describe_address
from rtmprelay.web.server.answers import Answer, HttpError

if TYPE_CHECKING:
    from rtmprelay.web.server.channel import BoundedChannel
    from rtmprelay.web.server.site import RelaySite

_SERVER = b"rtmprelay/" + __version__.encode()


@provider(INonQueuedRequestFactory)
class RelayRequest(Request):
    """A request to the relay."""

    _log = Logger()

    channel: BoundedChannel
    site: RelaySite
    #: Nothing is sent that does not say what it is.
    defaultContentType = None  # noqa: N815

    def __init__(self, channel: BoundedChannel) -> None:
        super().__init__(channel)
        self._body = BytesIO()
        self._body_size = 0
        self._refused = False

    # -- what comes in ---------------------------------------------------------------------------------------

    @override
    def gotLength(self, length: int | None) -> None:
        self.content = self._body = BytesIO()
        if length is not None and length > self._most:
            self._refuse_body()

    @property
    def _most(self) -> int:
        return self.channel.site.settings.max_body

    @override
    def handleContentChunk(self, data: bytes) -> None:
        self._body_size += len(data)
        if self._body_size > self._most:
            self._refuse_body()
        elif not self._refused:
            self._body.write(data)

    def _refuse_body(self) -> None:
        if not self._refused:
            self._refused = True
            self._body = BytesIO()
            # It shall not be told to go on.
            self.requestHeaders.removeHeader(b"Expect")
            self.channel.refuse(413, f"the body is too large: {self._most} bytes is the most")

    @override
    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        # Not Twisted's: it would also take forms apart, which nobody sends here.
        self._body.seek(0)
        self.method, self.uri, self.clientproto = command, path, version
        self.path, _, self.query = path.partition(b"?")
        self.args = {}
        self.channel.in_turn(self.process)

    @property
    def segments(self) -> list[str]:
        """The parts of the path, decoded. A name may hold an encoded slash, but nothing unprintable."""
        path = self.path
        if b"://" in path[:16] and not path.startswith(b"/"):
            # A client that takes us for a proxy names the host as well.
            path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
        if not path.startswith(b"/"):
            raise HttpError(400, "the path must begin with a slash")
        try:
            parts = [unquote_to_bytes(part).decode("utf-8") for part in path[1:].split(b"/")]
        except UnicodeDecodeError:
            raise HttpError(400, "the path is not UTF-8: percent-encode names as UTF-8") from None
        if not all(part.isprintable() for part in parts):
            raise HttpError(400, "the path has characters in it that cannot be printed")
        return parts

    @property
    def body(self) -> bytes:
        """The whole body; its size is bounded."""
        return self._body.getvalue()

    @property
    def peer(self) -> str:
        """Who asks, for people."""
        return describe_address(self.getClientAddress())

    def header(self, name: bytes) -> str:
        """A header of the request as text, or nothing."""
        value: bytes | None = self.getHeader(name)
        return "" if value is None else value.decode("latin-1")

    # -- what goes out ---------------------------------------------------------------------------------------

    @override
    def process(self) -> None:
        self.site = self.channel.site
        self.setHeader(b"Server", _SERVER)
        self.setHeader(b"Date", datetimeToString())
        self.setHeader(b"X-Content-Type-Options", b"nosniff")
        try:
            answer = self.site.answer(self)
        except HttpError as error:
            self.send(error.answer())
        except Exception:
            self._failed(Failure())
        else:
            self._send_when_there(answer)

    def _send_when_there(self, answer: Answer | Deferred[Answer] | Deferred[None] | None) -> None:
        if isinstance(answer, Answer):
            self.send(answer)
        elif answer is not None:
            cast(Any, answer).addCallback(self._send_when_there).addErrback(self._errored)

    def _errored(self, failure: Failure) -> None:
        if isinstance(failure.value, HttpError):
            self.send(failure.value.answer())
        else:
            self._failed(failure)

    def _failed(self, failure: Failure) -> None:
        """A bug of ours: told in the log without the request, in which there may be a key."""
        self._log.failure("A bug in answering an HTTP request", failure)
        if not self.startedWriting:
            self.send(HttpError(500, "an internal error: the server's log says more").answer())
        else:
            self.channel.close_soon()

    def send(self, answer: Answer) -> None:
        """Send an answer, and be done."""
        if self._disconnected or self.finished:
            return
        self.setResponseCode(answer.status)
        if answer.status not in (204, 304):
            self.setHeader(b"Content-Type", answer.content_type)
            self.setHeader(b"Content-Length", b"%d" % len(answer.body))
        self.setHeader(b"Cache-Control", b"no-store")
        for name, value in answer.headers:
            self.setHeader(name, value)
        if answer.shared:
            self.site.sharing.allow(self)
        self.write(answer.body)
        self.finish()

    @override
    def processingFailed(self, reason: Failure) -> Any:
        self._failed(reason)
        return reason
