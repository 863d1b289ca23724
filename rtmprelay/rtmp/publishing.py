"""The publishing side of a server's connection: requests, permission, media statistics and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zope.interface import implementer

from rtmprelay import events
from rtmprelay.access.request import Action, Verdict, refused
from rtmprelay.flv import AnyCodec, display_name
from rtmprelay.interfaces import IStreamPublisher
from rtmprelay.session.reports import PublishRequested, StreamNameRefused
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamBusyError
from rtmprelay.wire.commands import StatusCode

if TYPE_CHECKING:
    from rtmprelay.rtmp.server import RtmpServerProtocol

#: Seconds to wait for the second kind of media before the codec of the first is reported alone.
_WAIT_FOR_SECOND_CODEC = 2.0

#: Codec changes that are reported for one publish: real streams have one or two at most.
_MOST_REPORTS = 10


@implementer(IStreamPublisher)
class Publication:
    """One `publish` of a client: the publisher of a live stream, and its statistics."""

    def __init__(self, publishing: Publishing, stream_id: int, key: str, now: float) -> None:
        connection = publishing.connection
        self.connection_id = connection.connection_id
        self.address = connection.peer
        self.key = key
        #: The relays that the stream has come through, as far as they say so.
        self.chain = connection.relay_chain
        #: The stream, once the publish has begun. The connection passes media straight to it.
        self.stream: LiveStream | None = None
        #: The codecs that were reported last. The frame path compares them with those of the stream.
        self.video_codec: AnyCodec | None = None
        self.audio_codec: AnyCodec | None = None
        self._publishing = publishing
        self._stream_id = stream_id
        self._events = connection.factory.events
        self._began = now
        self._reports = 0
        self._reported_at = now
        self._reported = (0, 0)

    def publish_superseded(self) -> None:
        self._publishing.superseded(self._stream_id)

    def publish_ended(self, reason: str) -> None:
        self._publishing.end(self._stream_id, reason)

    def report_codecs(self, stream: LiveStream, now: float) -> None:
        """Report the codecs if they have changed. The first report waits a little for the second kind of media."""
        codecs = (stream.video_codec, stream.audio_codec)
        first_report = self.video_codec is None and self.audio_codec is None
        if first_report and None in codecs and now - self._began < _WAIT_FOR_SECOND_CODEC:
            return
        changed = codecs != (self.video_codec, self.audio_codec)
        self.video_codec, self.audio_codec = codecs
        if changed and self._reports < _MOST_REPORTS:
            self._reports += 1
            self._events.publish(
                events.CodecDetected(
                    connection=self.connection_id,
                    stream=self.key,
                    stream_key=self.key,
                    video=display_name(codecs[0]),
                    audio=display_name(codecs[1]),
                )
            )

    def stopped(self, reason: str, clean: bool, now: float) -> events.PublishStopped:
        """The event for the end. The codecs of a short publish are reported only now."""
        stream = self.stream
        if stream is not None and self.video_codec is None and self.audio_codec is None:
            self.report_codecs(stream, self._began + _WAIT_FOR_SECOND_CODEC)
        return events.PublishStopped(
            connection=self.connection_id,
            stream=self.key,
            reason=reason,
            clean=clean,
            duration=now - self._began,
            messages=stream.counters.messages if stream is not None else 0,
            bytes=stream.counters.bytes if stream is not None else 0,
        )

    def statistics(self, now: float) -> events.MediaStatistics:
        """The event with what arrived since the previous one."""
        stream = self.stream
        total = (stream.counters.messages, stream.counters.bytes) if stream is not None else self._reported
        messages, size = total[0] - self._reported[0], total[1] - self._reported[1]
        seconds = now - self._reported_at
        self._reported, self._reported_at = total, now
        return events.MediaStatistics(
            connection=self.connection_id,
            stream=self.key,
            role="publisher",
            seconds=seconds,
            kbps=size / 125 / seconds if seconds else 0.0,
            messages=messages,
            bytes=size,
            dropped=0,
            queued=0,
        )


class Publishing:
    """The publishes of one connection.

    Attributes:
        publications: By message stream.
    """

    def __init__(self, connection: RtmpServerProtocol) -> None:
        self.connection = connection
        self.publications: dict[int, Publication] = {}

    def has(self, stream_id: int) -> bool:
        """Whether the client publishes on this message stream."""
        return stream_id in self.publications

    def requested(self, request: PublishRequested) -> None:
        """Ask the gate whether the client may publish."""
        self.connection.ask_permission(Action.PUBLISH, request, self._allowed, self._refused)

    def name_refused(self, report: StreamNameRefused) -> None:
        """Tell the operator, too: an encoder without a stream key is a common mistake."""
        connection = self.connection
        is_publish = report.code == StatusCode.PUBLISH_BAD_NAME
        kind = events.PublishRefused if is_publish else events.PlayRefused
        connection.report_refusal(
            kind(
                connection=connection.connection_id,
                stream=f"{report.app}/",
                peer=connection.peer,
                reason=report.reason,
            )
        )

    def _refused(self, request: PublishRequested, verdict: Verdict) -> None:
        code = StatusCode.PUBLISH_BAD_NAME if verdict.is_busy else StatusCode.PUBLISH_DENIED
        self._reject(request, code, verdict.reason)
        if not verdict.is_busy:
            self.connection.goodbye.request_refused(verdict.reason)

    def _reject(self, request: PublishRequested, code: str, reason: str) -> None:
        connection = self.connection
        connection.reject(request.request_id, code, reason)
        connection.report_refusal(
            events.PublishRefused(
                connection=connection.connection_id,
                stream=str(request.key),
                peer=connection.peer,
                reason=reason,
            )
        )

    def _allowed(self, request: PublishRequested, now: float) -> None:
        connection = self.connection
        memory = connection.factory.memory
        if memory is not None and not memory.take_publisher():
            connection.factory.refused_by_limit["memory_budget"] += 1
            self._refused(request, refused(memory.refusal))
            return
        key = str(request.key)
        stream_id = request.stream_id
        publication = Publication(self, stream_id, key, now)
        self.publications[stream_id] = publication
        try:
            publication.stream = connection.factory.registry.publish(key, publication, now)
        except StreamBusyError as busy:
            del self.publications[stream_id]
            self._reject(request, StatusCode.PUBLISH_BAD_NAME, str(busy))
            return
        connection.session.accept(request.request_id)
        connection.emit(events.PublishStarted(connection=connection.connection_id, stream=key))

    def reading_pause(self) -> tuple[float, bool]:
        """How many seconds the socket may be left unread, and whether they begin only when something has arrived."""
        return min(
            [
                (publication.stream.reading_pause, publication.stream.is_watched)
                if publication.stream is not None
                else (0.0, True)
                for publication in self.publications.values()
            ]
        )

    def emit_statistics(self, now: float) -> None:
        """Emit an event for each publish with what arrived since the previous one."""
        for publication in self.publications.values():
            self.connection.emit(publication.statistics(now))

    # -- the end ---------------------------------------------------------------------------------------------

    def ended_by_client(self, stream_id: int) -> None:
        """Called when the client ended its publish or withdrew its request."""
        self.connection.permissions.withdraw(stream_id)
        self._end(stream_id, "the publisher ended it", clean=True)

    def superseded(self, stream_id: int) -> None:
        """Called when another publisher took over. The client may be alive after all, so it is told."""
        reason = "another publisher took over because this one was silent"
        self.connection.session.end_stream(stream_id, "error", StatusCode.PUBLISH_BAD_NAME, reason)
        self._end(stream_id, reason, clean=False)
        self.connection.goodbye.close_unless_used(reason)

    def end(self, stream_id: int, reason: str) -> None:
        """End a publish for the operator. The end is clean: destinations do not wait for the publisher to return."""
        self.connection.session.end_stream(stream_id, "error", StatusCode.PUBLISH_DENIED, reason)
        self._end(stream_id, reason, clean=True)
        self.connection.goodbye.close_soon(reason)

    def server_stops(self) -> None:
        """End all publishes, and tell the client why."""
        for stream_id in list(self.publications):
            self.connection.session.end_stream(
                stream_id, "status", StatusCode.UNPUBLISH_SUCCESS, "The server stops"
            )
            self._end(stream_id, "the server stops", clean=True)

    def connection_lost(self, reason: str) -> None:
        """End all publishes because the client is gone without a goodbye."""
        for stream_id in list(self.publications):
            self._end(stream_id, f"the connection was lost ({reason})", clean=False)

    def _end(self, stream_id: int, reason: str, clean: bool) -> None:
        publication = self.publications.pop(stream_id, None)
        if publication is not None and publication.stream is not None:
            self.connection.emit(publication.stopped(reason, clean, self.connection.now()))
            self.connection.factory.registry.unpublish(publication.stream, publication, clean)
