"""RTMP clients on Twisted: the protocols of an outbound connection that publishes or plays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, assert_never

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.error import TimeoutError as TwistedTimeoutError
from twisted.internet.interfaces import IAddress, IDelayedCall, IHandshakeListener, IReactorTime
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.errors import DestinationRefusedError, LocalProtocolError, RelayedToItselfError
from rtmprelay.media import MediaFrame
from rtmprelay.quantities import MEBIBYTE
from rtmprelay.rtmp.connection import RtmpConnection
from rtmprelay.rtmp.encoding import shared_encoder
from rtmprelay.rtmp.node_pass import COMES_FROM_HERE
from rtmprelay.secret import Secret
from rtmprelay.session.adobe import wants_authentication
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import (
    CommandNotUnderstood,
    ConnectAccepted,
    ConnectRequested,
    HandshakeDone,
    MediaReceived,
    PlayAccepted,
    PlayEnded,
    PlayPaused,
    PlayRequested,
    PublishAccepted,
    PublishEnded,
    PublishRequested,
    ReceptionChanged,
    SessionReport,
    StatusReceived,
    StreamCreated,
    StreamNameRefused,
)
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.frames import FrameBatch, live_frame
from rtmprelay.wire.commands import NODE_PROPERTY, StatusCode
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.url import RtmpUrl

#: What OBS sends, and so what every platform takes.
CLIENT_CHUNK_SIZE = 4096

#: Seconds from the connection to the answer to `publish` or `play`.
NEGOTIATION_TIMEOUT = 10.0

#: Seconds without progress, while bytes wait, after which the server is taken for dead.
SERVER_STALL_TIMEOUT = 10.0

#: Characters of a server's answer that are examined, and that are kept.
_LONGEST_ANSWER = 4096
_LONGEST_REFUSAL = 300
#: Shorter parts of a key are not masked: they would match ordinary words.
_SHORTEST_SECRET = 6

#: Ends of status codes that mean a refusal before the request is accepted, because some servers refuse with the level
#: `status`.
_REFUSALS = ("BadName", "Denied", "Rejected", "Failed", "Unauthorized", "InvalidApp", "StreamNotFound")

#: Enhanced RTMP: the server asks the client to reconnect, perhaps to another machine of the same name.
RECONNECT_REQUEST = StatusCode.RECONNECT_REQUEST

#: Frames, and bytes of them, that are kept until `deliver_to` is called.
MAX_EARLY_FRAMES = 4096
MAX_EARLY_BYTES = 32 * MEBIBYTE


class AuthenticationWantedError(DestinationRefusedError):
    """The server requires Adobe authentication; the text is its answer."""


@attrs.frozen
class ClientSettings:
    """Settings of an outbound connection."""

    negotiation_timeout: float = NEGOTIATION_TIMEOUT
    limits: ConnectionLimits = attrs.field(
        factory=lambda: ConnectionLimits(stall_timeout=SERVER_STALL_TIMEOUT)
    )
    #: Called with each step that is done: "tcp", "tls", "handshake", "connect", "publish" or "play".
    progress: Callable[[str], None] = lambda step: None
    #: What this relay shows to another relay that it fetches from, or sends to; see `node_pass`.
    node_pass: Secret = attrs.field(factory=lambda: Secret(""))


@implementer(IHandshakeListener)
class RtmpClientProtocol(RtmpConnection[ClientSession]):
    """A connection to a server: does the handshake, connects, and requests to publish or to play.

    Attributes:
        when_accepted: Fires with this protocol when the server has accepted the request; fails if it has not.
        when_lost: Fires when the connection has ended after that; `loss` is the reason.
    """

    #: The request, as a step of `ClientSettings.progress`.
    purpose = "publish"

    def __init__(
        self, url: RtmpUrl, clock: IReactorTime, settings: ClientSettings, auth_query: str = ""
    ) -> None:
        app, tc_url = _with_query(url.app_with_query, auth_query), _with_query(url.tc_url, auth_query)
        shown = settings.node_pass
        properties: dict[str, AmfValue] = {NODE_PROPERTY: shown.reveal()} if shown else {}
        session = ClientSession(app, tc_url, chunk_size=CLIENT_CHUNK_SIZE, properties=properties)
        super().__init__(session, clock, settings.limits, url.location)
        self.url = url
        self.when_accepted: Deferred[RtmpClientProtocol] = Deferred(lambda _: self.close_now("cancelled"))
        self.when_lost: Deferred[None] = Deferred()
        self._settings = settings
        self._accepted = False
        self._refusal: Exception | None = None
        self._deadline: IDelayedCall | None = None

    # -- the connection --------------------------------------------------------------------------------------

    @override
    def opened(self) -> None:
        self._settings.progress("tcp")
        timeout = self._settings.negotiation_timeout
        self._deadline = self._clock.callLater(timeout, self._timed_out, timeout)

    def handshakeCompleted(self) -> None:  # noqa: N802
        """Called by Twisted when TLS is established."""
        self._settings.progress("tls")

    def _timed_out(self, timeout: float) -> None:
        self.close_for(TwistedTimeoutError(f"no answer within {timeout:g} s"))

    def close_for(self, error: Exception) -> None:
        """Close, with this error as the reason."""
        self._refusal = error
        self.close_now(str(error))

    @override
    def handle(self, report: SessionReport, now: float) -> None:
        match report:
            case HandshakeDone():
                self._settings.progress("handshake")
            case ConnectAccepted():
                self._settings.progress("connect")
                self._request()
            case PublishAccepted() | PlayAccepted() if not self._accepted:
                self._settings.progress(self.purpose)
                self._accepted = True
                self._cancel_deadline()
                # The session's messages must be sent before the media of the caller that waits for this.
                self.flush()
                self.when_accepted.callback(self)
            case PublishAccepted() | PlayAccepted():
                # Some servers repeat the answer.
                pass
            case StatusReceived():
                self._status(report)
            case MediaReceived(_, frames):
                self.media_received(frames)
            case (
                ConnectRequested()
                | StreamCreated()
                | PublishRequested()
                | StreamNameRefused()
                | PublishEnded()
                | PlayRequested()
                | PlayPaused()
                | PlayEnded()
                | ReceptionChanged()
                | CommandNotUnderstood()
            ):
                raise AssertionError("only the session of a server reports this")
            case _:
                assert_never(report)

    def _request(self) -> None:
        self.session.publish(self.url.key.reveal())

    def _status(self, status: StatusReceived) -> None:
        refused = not self._accepted and status.code.endswith(_REFUSALS)
        if status.level != "error" and not refused:
            self.status_received(status)
            return
        # A server may send 16 MiB of text.
        description = status.description[:_LONGEST_ANSWER]
        if not self._accepted and wants_authentication(description):
            self.close_for(AuthenticationWantedError(description))
        elif not self._accepted and COMES_FROM_HERE in description:
            self.close_for(RelayedToItselfError("that is this relay, or leads back to it"))
        else:
            self.close_for(DestinationRefusedError(_refusal_text(status, self.url)))

    @override
    def closed(self, reason: str) -> None:
        self._cancel_deadline()
        if self._refusal is not None:
            self.loss = Failure(self._refusal)
        if self._accepted:
            self.when_lost.callback(None)
        elif not self.when_accepted.called:
            self.when_accepted.errback(self.loss)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None

    def end(self) -> None:
        """End the publish or play with the commands for that, and close."""
        if not self.is_closing:
            self.session.end()
            self.close_politely("ended on purpose")

    # -- for subclasses --------------------------------------------------------------------------------------

    def media_received(self, frames: list[MediaFrame]) -> None:
        """Called with media from the server."""

    def status_received(self, status: StatusReceived) -> None:
        """Called with a status that is no error."""


class RtmpPublisherProtocol(RtmpClientProtocol):
    """A connection that publishes. Set `consumer`, or call `send` with each frame.

    Attributes:
        consumer: The consumer that writes media here, which back-pressure is passed to. The first `send` makes one if
            there is none.
    """

    def __init__(
        self, url: RtmpUrl, clock: IReactorTime, settings: ClientSettings, auth_query: str = ""
    ) -> None:
        super().__init__(url, clock, settings, auth_query)
        self.consumer: Consumer | None = None
        # The consumer that `send` made.
        self._own: Consumer | None = None

    @override
    def consumers(self) -> Iterable[Consumer]:
        return () if self.consumer is None else (self.consumer,)

    @override
    def status_received(self, status: StatusReceived) -> None:
        if status.code == RECONNECT_REQUEST:
            # The server is about to stop. The destination that uses this connection connects again.
            self.end()

    def loseConnection(self) -> None:  # noqa: N802
        """End on purpose: for Twisted, which takes this protocol for a transport."""
        self.end()

    def abortConnection(self) -> None:  # noqa: N802
        """Cut the connection: for Twisted, which takes this protocol for a transport."""
        self.close_now("cut off")

    def send(self, frame: MediaFrame) -> None:
        """Send one frame, at once or when the server can take it.

        Up to ten seconds of media are queued for a server that is too slow; after that, whole groups of pictures are
        dropped. `consumer.account` counts what was sent, dropped and queued.
        """
        if not self.session.stream_id:
            raise LocalProtocolError("media cannot be sent before there is a message stream")
        if self.consumer is None:
            self.consumer = self._own = self._new_consumer()
        self.flush()
        self.consumer.send(FrameBatch.of([live_frame(frame)]))

    def _new_consumer(self) -> Consumer:
        session = self.session
        encoder = shared_encoder(session.channel.chunk_size, session.stream_id, True)
        consumer = Consumer(self.write_media, encoder)
        if self.is_closing:
            consumer.close()
        elif self._transport_full:
            consumer.transport_full()
        return consumer

    @override
    def end(self) -> None:
        # Queued frames go before the goodbye.
        while self._own is not None and self._own.messages_queued and not self.is_closing:
            self._own.transport_ready()
        super().end()

    @override
    def closed(self, reason: str) -> None:
        if self._own is not None:
            self._own.close()
        super().closed(reason)


class RtmpPlayClientProtocol(RtmpClientProtocol):
    """A connection that plays."""

    purpose = "play"

    def __init__(
        self, url: RtmpUrl, clock: IReactorTime, settings: ClientSettings, auth_query: str = ""
    ) -> None:
        super().__init__(url, clock, settings, auth_query)
        #: Called with the code of each status of the server, such as NetStream.Play.UnpublishNotify when the publisher
        #: has left; it may return.
        self.on_status: Callable[[str], None] | None = None
        self._receiver: Callable[[list[MediaFrame]], None] | None = None
        self._early: list[MediaFrame] = []
        self._early_bytes = 0

    def deliver_to(self, receiver: Callable[[list[MediaFrame]], None]) -> None:
        """Call `receiver` with the frames of each read, from the first one on."""
        self._receiver = receiver
        if self._early:
            early, self._early = self._early, []
            receiver(early)

    @override
    def _request(self) -> None:
        self.session.play(self.url.key.reveal())

    @override
    def media_received(self, frames: list[MediaFrame]) -> None:
        if self._receiver is not None:
            self._receiver(frames)
        elif len(self._early) < MAX_EARLY_FRAMES and self._early_bytes < MAX_EARLY_BYTES:
            self._early += frames
            self._early_bytes += sum(len(frame.payload) for frame in frames)

    @override
    def status_received(self, status: StatusReceived) -> None:
        if self.on_status is not None:
            self.on_status(status.code)


if TYPE_CHECKING:
    _ClientFactory = Factory[RtmpClientProtocol]
else:
    # Older Twisted knows no type arguments here.
    _ClientFactory = Factory


class RtmpClientFactory(_ClientFactory):
    """Makes the protocol of one attempt to connect."""

    noisy = False

    def __init__(self, make: Callable[[], RtmpClientProtocol]) -> None:
        self._make = make

    @override
    def buildProtocol(self, addr: IAddress | None) -> RtmpClientProtocol:
        protocol = self._make()
        protocol.factory = self
        return protocol


def _with_query(text: str, query: str) -> str:
    if not query:
        return text
    return f"{text}{'&' if '?' in text else '?'}{query}"


def _refusal_text(status: StatusReceived, url: RtmpUrl) -> str:
    """The server's answer as one line, without the key, which some servers repeat."""
    whole = ": ".join(part for part in (status.code, status.description) if part) or "no reason given"
    text = whole[:_LONGEST_ANSWER]
    secrets = _secret_parts(url)
    for secret in secrets:
        text = text.replace(secret, "***")
    if len(whole) > _LONGEST_ANSWER:
        text = _without_cut_secret(text, secrets)
    text = "".join(character if character.isprintable() else " " for character in text)
    if len(text) > _LONGEST_REFUSAL:
        text = f"{text[:_LONGEST_REFUSAL]}..."
    return f"the server refused: {text}"


def _without_cut_secret(text: str, secrets: list[str]) -> str:
    """The text without the beginning of a secret at its end: where it was cut, a secret is not found as a whole."""
    for secret in secrets:
        for size in range(min(len(secret), len(text)), 0, -1):
            if text.endswith(secret[:size]):
                return text[:-size]
    return text


def _secret_parts(url: RtmpUrl) -> list[str]:
    """The secrets of a URL and their parts, the longest first: servers repeat a key without its query."""
    wholes = [secret.reveal() for secret in (url.key, url.password, url.app_query) if secret]
    parts = [part for whole in wholes for part in re.split("[?&=/]+", whole) if len(part) >= _SHORTEST_SECRET]
    return sorted({*wholes, *parts}, key=len, reverse=True)
