"""Media on its way in: which message streams are listened to, and frames gathered by read."""

from __future__ import annotations

from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.session.reports import MediaReceived, SessionReport
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.messages import MessageType, split_aggregate, without_amf3_marker

_KINDS = {
    MessageType.AUDIO.value: MediaKind.AUDIO,
    MessageType.VIDEO.value: MediaKind.VIDEO,
    MessageType.DATA_AMF0.value: MediaKind.DATA,
    MessageType.DATA_AMF3.value: MediaKind.DATA,
}
# As plain numbers: looking one up in the enum takes longer than comparing it.
_DATA_AMF3 = MessageType.DATA_AMF3.value
_AGGREGATE = MessageType.AGGREGATE.value


class MediaIntake:
    """The gate for media: the state machines open and close it, and frames pass it without asking them."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._most_parts = limits.aggregate_parts
        self.open_streams: dict[int, None] = {}

    def open(self, stream_id: int) -> None:
        """Let media of this message stream through."""
        self.open_streams[stream_id] = None

    def close(self, stream_id: int) -> None:
        """Drop media of this message stream from now on."""
        self.open_streams.pop(stream_id, None)

    def take(self, messages: list[RawMessage], start: int, events: list[SessionReport]) -> int:
        """Report the media from `start` up to the first message that is none, and return the index of that one.

        The messages and the events are those of one read. Successive frames of one message stream make one event.
        """
        open_streams = self.open_streams
        batch = events[-1] if events else None
        for index in range(start, len(messages)):
            raw = messages[index]
            kind = _KINDS.get(raw.type_id)
            if kind is None:
                if raw.type_id != _AGGREGATE:
                    return index
                self.take(self._media_parts(raw), 0, events)
                batch = events[-1] if events else None
                continue
            stream_id = raw.stream_id
            if stream_id not in open_streams:
                # Some encoders send metadata on message stream 0; with one publish it is clear what is meant.
                if stream_id != 0 or len(open_streams) != 1:
                    continue
                (stream_id,) = open_streams
            payload = raw.payload
            if raw.type_id == _DATA_AMF3:
                payload = without_amf3_marker(payload)
            if not isinstance(batch, MediaReceived) or batch.stream_id != stream_id:
                batch = MediaReceived(stream_id, [])
                events.append(batch)
            batch.frames.append(MediaFrame(kind, raw.timestamp, payload))
        return len(messages)

    def _media_parts(self, aggregate: RawMessage) -> list[RawMessage]:
        return [part for part in split_aggregate(aggregate, self._most_parts) if part.type_id in _KINDS]
