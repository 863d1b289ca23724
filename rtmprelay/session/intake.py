"""Media on its way in: which message streams are listened to, and frames gathered by read."""

from __future__ import annotations

from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.session.reports import MediaReceived, SessionEvent
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.messages import MessageType, split_aggregate, without_amf3_marker

_KINDS = {
    MessageType.AUDIO.value: MediaKind.AUDIO,
    MessageType.VIDEO.value: MediaKind.VIDEO,
    MessageType.DATA_AMF0.value: MediaKind.DATA,
    MessageType.DATA_AMF3.value: MediaKind.DATA,
}


class MediaIntake:
    """The gate that the state machines open and close, and that media goes through without asking them."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._most_parts = limits.aggregate_parts
        self.open_streams: dict[int, None] = {}
        self._events: list[SessionEvent] = []
        self._batch: MediaReceived | None = None

    def open(self, stream_id: int) -> None:
        """Media on this message stream is wanted."""
        self.open_streams[stream_id] = None

    def close(self, stream_id: int) -> None:
        """Media on this message stream is not wanted any more."""
        self.open_streams.pop(stream_id, None)

    def begin(self, events: list[SessionEvent]) -> None:
        """What follows belongs to one read, whose events go here."""
        self._events = events
        self._batch = None

    def forget(self) -> None:
        """Let go of the frames of the last read: a session may outlive its connection for a while."""
        self.begin([])

    def take(self, raw: RawMessage) -> bool:
        """Take a message if it is media; its frame joins the others of this read."""
        kind = _KINDS.get(raw.type_id)
        if kind is None:
            if raw.type_id == MessageType.AGGREGATE:
                for part in split_aggregate(raw, self._most_parts):
                    if part.type_id != MessageType.AGGREGATE:
                        self.take(part)
                return True
            # Frames on both sides of a command must not be reported together.
            self._batch = None
            return False
        stream_id = raw.stream_id
        if stream_id not in self.open_streams:
            # Some encoders send metadata on message stream 0; with one publish it is clear what is meant.
            if stream_id != 0 or len(self.open_streams) != 1:
                return True
            (stream_id,) = self.open_streams
        payload = raw.payload
        if raw.type_id == MessageType.DATA_AMF3:
            payload = without_amf3_marker(payload)
        batch = self._batch
        if batch is None or batch.stream_id != stream_id:
            batch = self._batch = MediaReceived(stream_id, [])
            self._events.append(batch)
        batch.frames.append(MediaFrame(kind, raw.timestamp, payload))
        return True
