"""RTMP clients on Twisted: one end of an outbound connection, for publishing or for playing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.error import TimeoutError as TwistedTimeoutError
from twisted.internet.interfaces import IAddress, IDelayedCall, IHandshakeListener, IReactorTime
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer

from rtmprelay.errors import DestinationRefusedError, LocalProtocolError
from rtmprelay.media import MediaFrame
from rtmprelay.quantities import MEBIBYTE
from rtmprelay.rtmp.connection import RtmpConnection
from rtmprelay.rtmp.encoding import shared_encoder
from rtmprelay.session.adobe import wants_authentication
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import (
    ConnectAccepted,
    HandshakeDone,
    MediaReceived,
    PlayAccepted,
    PublishAccepted,
    SessionReport,
    StatusReceived,
)
from rtmprelay.streams.consumer import Consumer
from rtmprelay.streams.frames import FrameBatch, live_frame
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.url import RtmpUrl

#: What OBS sends, and so what every platform takes.
CLIENT_CHUNK_SIZE = 4096

#: Seconds from the connection to the answer to `publish` or `play`.
NEGOTIATION_TIMEOUT = 10.0

#: A server that takes no byte for so long, although some wait for it, is taken for dead.
SERVER_STALL_TIMEOUT = 10.0

#: Characters of what a server says that are looked at, and those of them that are kept.
_LONGEST_ANSWER = 4096
_LONGEST_REFUSAL = 300
#: The shortest part of a key that would give something away.
_SHORTEST_SECRET = 6

#: Before it has agreed, a server that says one of these refuses: some do so with the level of good news.
_REFUSALS = ("BadName", "Denied", "Rejected", "Failed", "Unauthorized", "InvalidApp", "StreamNotFound")

#: Enhanced RTMP: the server wants us to come back, perhaps to another machine behind the same name.
RECONNECT_REQUEST = "NetConnection.Connect.ReconnectRequest"

#: Frames, and bytes of them, that are kept for somebody who has asked to play and does not take them yet.
MAX_EARLY_FRAMES = 4096
MAX_EARLY_BYTES = 32 * MEBIBYTE


class AuthenticationWantedError(DestinationRefusedError):
    """The server wants Adobe authentication; the text is what it said."""


@attrs.frozen
class ClientSettings:
    """How an outbound connection behaves."""

    negotiation_timeout: float = NEGOTIATION_TIMEOUT
    limits: ConnectionLimits = attrs.field(
        factory=lambda: ConnectionLimits(stall_timeout=SERVER_STALL_TIMEOUT)
    )
    #: Told of each step that was made: "tcp", "tls", "handshake", "connect", "publish" or "play".
    progress: Callable[[str], None] = lambda step: None


@implementer(IHandshakeListener)
class RtmpClientProtocol(RtmpConnection[ClientSession]):
    """A connection to a server: shakes hands, connects, and asks to publish or to play.

    Attributes:
        when_accepted: Fires with this protocol when the server has agreed; fails if it has not.
        when_lost: Fires when the connection has ended after that; `loss` is the reason.
    """

    #: What is asked for, and the answer that grants it.
    purpose = "publish"

    def __init__(
        self, url: RtmpUrl, clock: IReactorTime, settings: ClientSettings, auth_query: str = ""
    ) -> None:
        app, tc_url = _with_query(url.app_with_query, auth_query), _with_query(url.tc_url, auth_query)
        session = ClientSession(app, tc_url, chunk_size=CLIENT_CHUNK_SIZE)
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
        """TLS is there, if it was wanted."""
        self._settings.progress("tls")

    def _timed_out(self, timeout: float) -> None:
        self._refuse(TwistedTimeoutError(f"no answer within {timeout:g} s"))

    def _refuse(self, error: Exception) -> None:
        """The conversation came to nothing: close, and let the reason be known."""
        self._refusal = error
        self.close_now(str(error))

    @override
    def handle(self, report: SessionReport, now: float) -> None:
        match report:
            case HandshakeDone():
                self._settings.progress("handshake")
            case ConnectAccepted():
                self._settings.progress("connect")
                self._ask()
            case PublishAccepted() | PlayAccepted() if not self._accepted:
                self._settings.progress(self.purpose)
                self._accepted = True
                self._cancel_deadline()
                # What belongs to the publish must be sent before whoever waits sends media.
                self.flush()
                self.when_accepted.callback(self)
            case StatusReceived():
                self._status(report)
            case MediaReceived(_, frames):
                self.media_received(frames)

    def _ask(self) -> None:
        self.session.publish(self.url.key.reveal())

    def _status(self, status: StatusReceived) -> None:
        refused = not self._accepted and status.code.endswith(_REFUSALS)
        if status.level != "error" and not refused:
            self.status_received(status)
            return
        # A server may say anything at all, up to 16 MiB of it.
        description = status.description[:_LONGEST_ANSWER]
        if not self._accepted and wants_authentication(description):
            self._refuse(AuthenticationWantedError(description))
        else:
            self._refuse(DestinationRefusedError(_refusal(status, self.url)))

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
        """End on purpose: say goodbye, and close."""
        if not self.is_closing:
            self.session.end()
            self.close_politely("ended on purpose")

    # -- for those who use it --------------------------------------------------------------------------------

    def media_received(self, frames: list[MediaFrame]) -> None:
        """The server sent media."""

    def status_received(self, status: StatusReceived) -> None:
        """The server told something that is no error."""


class RtmpPublisherProtocol(RtmpClientProtocol):
    """A connection that publishes. Give it a consumer, or send frames one by one.

    Attributes:
        consumer: Who writes media here, and so is told when the transport is full. If there is none, the first `send`
            makes one.
    """

    def __init__(
        self, url: RtmpUrl, clock: IReactorTime, settings: ClientSettings, auth_query: str = ""
    ) -> None:
        super().__init__(url, clock, settings, auth_query)
        self.consumer: Consumer | None = None
        # The one that `send` made.
        self._own: Consumer | None = None

    @override
    def consumers(self) -> Iterable[Consumer]:
        return () if self.consumer is None else (self.consumer,)

    @override
    def status_received(self, status: StatusReceived) -> None:
        if status.code == RECONNECT_REQUEST:
            # A server that is about to stop: whoever keeps this publish alive connects anew.
            self.end()

    def loseConnection(self) -> None:  # noqa: N802
        """As a transport: end on purpose."""
        self.end()

    def abortConnection(self) -> None:  # noqa: N802
        """As a transport: cut the connection."""
        self.close_now("cut off")

    def send(self, frame: MediaFrame) -> None:
        """Send one frame, now or when the server takes it.

        Ten seconds of media wait for a server that is too slow; behind that it loses whole groups of pictures.
        `consumer.account` says what became of each frame.
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
        # What was sent comes before the goodbye, for as long as a polite close may take.
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
        #: Told the codes of what the server says, such as NetStream.Play.UnpublishNotify: the publisher has gone,
        #: and may come back.
        self.on_status: Callable[[str], None] | None = None
        self._receiver: Callable[[list[MediaFrame]], None] | None = None
        self._early: list[MediaFrame] = []
        self._early_bytes = 0

    def deliver_to(self, receiver: Callable[[list[MediaFrame]], None]) -> None:
        """Give the frames of each read to somebody, from the first one on."""
        self._receiver = receiver
        if self._early:
            early, self._early = self._early, []
            receiver(early)

    @override
    def _ask(self) -> None:
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
    """Makes the protocol of one attempt to reach a server."""

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


def _refusal(status: StatusReceived, url: RtmpUrl) -> str:
    """What the server said, without the key, which some servers repeat."""
    everything = ": ".join(part for part in (status.code, status.description) if part) or "no reason given"
    said = everything[:_LONGEST_ANSWER]
    secrets = _secret_parts(url)
    for secret in secrets:
        said = said.replace(secret, "***")
    if len(everything) > _LONGEST_ANSWER:
        said = _without_cut_secret(said, secrets)
    said = "".join(character if character.isprintable() else " " for character in said)
    if len(said) > _LONGEST_REFUSAL:
        said = f"{said[:_LONGEST_REFUSAL]}..."
    return f"the server refused: {said}"


def _without_cut_secret(text: str, secrets: list[str]) -> str:
    """A text that was cut, without the beginning of a secret at its end, which is not found as a whole."""
    for secret in secrets:
        for size in range(min(len(secret), len(text)), 0, -1):
            if text.endswith(secret[:size]):
                return text[:-size]
    return text


def _secret_parts(url: RtmpUrl) -> list[str]:
    """The secrets of an address, and their parts: servers repeat a key without its query. The longest come first."""
    wholes = [secret.reveal() for secret in (url.key, url.password, url.app_query) if secret]
    parts = [part for whole in wholes for part in re.split("[?&=/]+", whole) if len(part) >= _SHORTEST_SECRET]
    return sorted({*wholes, *parts}, key=len, reverse=True)
