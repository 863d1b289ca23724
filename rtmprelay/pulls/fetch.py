"""One stream on its way from another server: connects, retries, goes on and ends, as `lifecycle.py` says."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import TimeoutError as TwistedTimeoutError
from twisted.internet.interfaces import IDelayedCall
from twisted.python.failure import Failure
from typing_extensions import override
from zope.interface import implementer

from rtmprelay import events
from rtmprelay.destinations.failures import DestinationFailure, classify
from rtmprelay.interfaces import IStreamPublisher
from rtmprelay.media import MediaFrame
from rtmprelay.pulls.continuation import Continuation
from rtmprelay.pulls.lifecycle import build_machine
from rtmprelay.pulls.source import FetchContext, StreamSource
from rtmprelay.pulls.status import FetchStatus, PullState
from rtmprelay.rtmp.client import ClientSettings, RtmpPlayClientProtocol
from rtmprelay.rtmp.endpoint import negotiate
from rtmprelay.rtmp.link import Link, stop_timer
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamBusyError
from rtmprelay.wire.commands import StatusCode

#: Seconds that a stream is fetched after the last viewer has left: many come back, or change the format.
KEEP_FOR = 10.0

#: Seconds that viewers keep their stream while its server is reached again.
HOLD_FOR = 10.0

#: Seconds without a frame after which the server is taken for dead.
SILENT_SERVER = 30.0


class _Phase(enum.Enum):
    CONNECTING = enum.auto()
    PLAYING = enum.auto()
    WAITING = enum.auto()
    ENDING = enum.auto()


_STATES = {
    _Phase.CONNECTING: PullState.CONNECTING,
    _Phase.PLAYING: PullState.CONNECTED,
    _Phase.WAITING: PullState.ERROR,
    _Phase.ENDING: PullState.IDLE,
}


@implementer(IStreamPublisher)
class Fetch(Link[RtmpPlayClientProtocol]):
    """Plays one stream from another server, and publishes it here, for as long as it is wanted."""

    def __init__(
        self,
        key: str,
        connection_id: str,
        source: StreamSource,
        context: FetchContext,
        chain: tuple[str, ...],
        on_ended: Callable[[Fetch], None],
    ) -> None:
        super().__init__(context.clock, context.wall_clock, f"fetching {key}")
        self.key = key
        self.connection_id = connection_id
        self.address = source.name
        self.source = source
        self._context = context
        self._chain = chain
        self._on_ended = on_ended
        self._policy = context.new_retry_policy()
        self._phase = _Phase.CONNECTING
        self._failure: DestinationFailure | None = None
        self._server: str | None = None
        self._stream: LiveStream | None = None
        self._continuation = Continuation()
        self._wanted_at = self._last_frame_at = self._clock.seconds()
        self._messages = self._bytes = 0
        self._hold_timer: IDelayedCall | None = None
        self._waiting_for_media: list[Deferred[None]] = []
        self._lifecycle = _new_lifecycle(self)

    # -- for the manager -------------------------------------------------------------------------------------

    @property
    def is_ending(self) -> bool:
        return self._phase is _Phase.ENDING

    @property
    def is_live(self) -> bool:
        """Whether frames come in now."""
        return self._phase is _Phase.PLAYING and self._stream is not None

    @property
    def is_connected(self) -> bool:
        """Whether a server has accepted the play."""
        return self._phase is _Phase.PLAYING

    def wanted(self) -> None:
        """Somebody asks for the stream now."""
        self._wanted_at = self._clock.seconds()

    def when_decided(self) -> Deferred[None]:
        """Fires when media has come, or when the attempt has failed. It may be cancelled."""
        decided: Deferred[None] = Deferred(lambda one: self._waiting_for_media.remove(one))
        self._waiting_for_media.append(decided)
        return decided

    @property
    def viewers(self) -> int:
        stream = self._context.registry.get(self.key)
        return 0 if stream is None else stream.viewers

    def check(self) -> None:
        """Called once a second: end what nobody wants, and leave a server that is silent."""
        if self.is_ending:
            return
        now = self._clock.seconds()
        if self.source.always or self.viewers:
            self._wanted_at = now
        if now - self._wanted_at >= KEEP_FOR:
            self._lifecycle.end("nobody watches it any more")
        elif self.is_live and now - self._last_frame_at >= SILENT_SERVER:
            self._client.close_for(TwistedTimeoutError(f"nothing came for {SILENT_SERVER:g} s"))

    def status(self) -> FetchStatus:
        failure = self._failure
        return FetchStatus(
            stream=self.key,
            state=_STATES[self._phase],
            address=self._server,
            viewers=self.viewers,
            last_error=failure.sentence if failure else None,
            error_class=failure.kind.value if failure else None,
            next_attempt_time=self._wall_time(self._next_attempt_at),
            connect_time=self._wall_time(self._connected_at),
            messages=self._messages,
            bytes=self._bytes,
            reconnect_count=self.reconnect_count,
        )

    def _report(self, event: type[events.PullEvent], **fields: Any) -> None:
        self._context.events.publish(event(pull=self.source.name, stream=self.key, **fields))

    # -- from the registry -----------------------------------------------------------------------------------

    def publish_superseded(self) -> None:
        """A publisher of this relay took over."""
        self._stream = None
        self._lifecycle.end("another publisher took over")

    def publish_ended(self, reason: str) -> None:
        """The operator ended the stream."""
        self._lifecycle.end(reason)

    # -- frames ----------------------------------------------------------------------------------------------

    def _frames_arrived(self, frames: Sequence[MediaFrame]) -> None:
        if self.is_ending or not frames:
            return
        now = self._last_frame_at = self._clock.seconds()
        stream = self._stream
        if stream is None:
            stream = self._begin(now)
            if stream is None:
                return
        elif self._continuation.is_searching:
            frames, goes_on = self._continuation.search(frames)
            if not frames:
                return
            if not goes_on:
                stream.splice(now)
        self._messages += len(frames)
        self._bytes += sum(len(frame.payload) for frame in frames)
        stream.publish_frames(frames, now)
        self._continuation.delivered(frames)
        self._decide()

    def _begin(self, now: float) -> LiveStream | None:
        """Publish the stream here: now there is something to publish."""
        try:
            stream = self._context.registry.publish(self.key, self, now, self.source.origin)
        except StreamBusyError:
            self._lifecycle.end("it is published here")
            return None
        self._stream = stream
        return stream

    def _status_received(self, code: str) -> None:
        if code == StatusCode.PLAY_UNPUBLISH_NOTIFY:
            self._unpublish()
            self.source.source_left(self.key)

    def _unpublish(self) -> None:
        self._continuation.forget()
        stop_timer(self._hold_timer)
        stream, self._stream = self._stream, None
        if stream is not None:
            self._context.registry.unpublish(stream, self, clean=False)

    def _decide(self) -> None:
        """Tell those who wait that there is media, or that there is none now."""
        if self._waiting_for_media:
            waiting, self._waiting_for_media = self._waiting_for_media, []
            for decided in waiting:
                decided.callback(None)

    # -- what the state machine does: only it calls these ----------------------------------------------------

    @override
    def connect(self) -> None:
        self._phase = _Phase.CONNECTING
        self._last_frame_at = self._clock.seconds()
        self._try(self._reach_server())

    async def _reach_server(self) -> RtmpPlayClientProtocol:
        target = await self.source.find(self.key, self._chain)
        self._server = str(target.url)
        self._report(events.PullConnecting, address=self._server)
        endpoint = self._context.endpoint_for(target.url, target.trust)
        settings = ClientSettings(node_pass=target.node_pass)
        return await negotiate(RtmpPlayClientProtocol, target.url, endpoint, self._clock, settings)

    def connected(self, player: RtmpPlayClientProtocol) -> None:
        self._keep(player)
        self._phase = _Phase.PLAYING
        self._failure = None
        self._last_frame_at = self._clock.seconds()
        self._policy.accepted(self._last_frame_at)
        stop_timer(self._hold_timer)
        self._continuation.new_connection()
        self._report(events.PullConnected, address=self._server or "")
        player.on_status = self._status_received
        player.deliver_to(self._frames_arrived)

    def wait_after_loss(self, reason: Failure) -> None:
        self._disconnected()
        self.wait_after_failure(reason)
        self.source.source_left(self.key)

    def _disconnected(self) -> None:
        self._connected_at = None
        if self._stream is not None:
            stop_timer(self._hold_timer)
            self._hold_timer = self._clock.callLater(HOLD_FOR, self._unpublish)

    def wait_after_failure(self, reason: Failure) -> None:
        self._phase = _Phase.WAITING
        now = self._clock.seconds()
        failure = self._failure = self._policy.failed(classify(reason), now)
        delay = min(self._policy.delay(failure.kind), self.source.longest_delay)
        self._wait(delay)
        self._report(
            events.PullFailed, error_class=failure.kind.value, reason=failure.sentence, next_attempt_in=delay
        )
        self._decide()

    @override
    def end_connection(self) -> None:
        self._phase = _Phase.CONNECTING
        self._disconnected()
        # Without a goodbye: a server that is frozen would not take it.
        self._client.close_now("the stream is fetched from elsewhere")

    @override
    def leave(self, reason: str) -> None:
        self._end_reason = reason
        self._phase = _Phase.ENDING
        self._stop_timer()
        self._unpublish()
        self._decide()

    @override
    def finish(self, reason: Failure | None = None) -> None:
        self._report(events.PullEnded, reason=self._end_reason, messages=self._messages, bytes=self._bytes)
        self._on_ended(self)
        self.confirm_end(self._end_reason)


_new_lifecycle = build_machine(Fetch)
