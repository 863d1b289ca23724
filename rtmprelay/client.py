"""RTMP clients for programs: publish to a server, or play from one, as Deferreds."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from rtmprelay.rtmp.client import ClientSettings, RtmpPlayClientProtocol, RtmpPublisherProtocol
from rtmprelay.rtmp.endpoint import TlsTrust, negotiate, transport_endpoint
from rtmprelay.wire.url import RtmpUrl


def publish(reactor: Any, url: str, trust: TlsTrust | None = None) -> Deferred[RtmpPublisherProtocol]:
    """Publish to `rtmp[s]://host/app/key`.

    Fires when the server has accepted the publish, and fails if it has not. Then call `send` with each frame, and `end`
    at the end; `when_lost` fires when the connection has gone. Cancelling the Deferred cancels the attempt.

    Send frames at the pace of a live stream: up to 10 s of media are queued for a server that is too slow; after that,
    whole groups of pictures are dropped, so that memory stays bounded. `consumer.account` counts what was sent and
    dropped. Metadata (onMetaData) gets the envelope that servers expect.
    """
    parsed = RtmpUrl.parse(url)
    endpoint = transport_endpoint(reactor, parsed, trust)
    clock = IReactorTime(reactor)
    return Deferred.fromCoroutine(negotiate(RtmpPublisherProtocol, parsed, endpoint, clock, ClientSettings()))


def play(reactor: Any, url: str, trust: TlsTrust | None = None) -> Deferred[RtmpPlayClientProtocol]:
    """Play `rtmp[s]://host/app/name`.

    Fires when the server has accepted the play, and fails if it has not. Then call `deliver_to` with the function that
    takes the frames; `on_status` is called when the publisher leaves or returns; `end` ends the play; `when_lost` fires
    when the connection has gone.
    """
    parsed = RtmpUrl.parse(url)
    endpoint = transport_endpoint(reactor, parsed, trust)
    clock = IReactorTime(reactor)
    return Deferred.fromCoroutine(
        negotiate(RtmpPlayClientProtocol, parsed, endpoint, clock, ClientSettings())
    )
