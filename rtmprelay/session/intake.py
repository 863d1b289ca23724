"""Media on its way in: which message streams may carry it, and the frames of one read."""

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
# Plain numbers, because finding a member of the enum takes longer than comparing it.
_DATA_AMF3 = MessageType.DATA_AMF3.value
_AGGREGATE = MessageType.AGGREGATE.value


class MediaIntake:
    """The gate for media. The state machines open and close it; frames pass it without asking them."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._most_parts = limits.aggregate_parts
        #: The message streams whose media is reported, as a dict because that keeps their order.
        self.open_streams: dict[int, None] = {}

    def open(self, stream_id: int) -> None:
        """Let media of this message stream through."""
        self.open_streams[stream_id] = None

    def close(self, stream_id: int) -> None:
        """Drop media of this message stream from now on."""
        self.open_streams.pop(stream_id, None)

    def take(self, messages: list[RawMessage], start: int, reports: list[SessionReport]) -> int:
        """Report the media from `start` up to the first message that is not media, and return that message's index.

        The messages and the reports are those of one read. Successive frames of one message stream get one report.
        """
        open_streams = self.open_streams
        batch = reports[-1] if reports else None
        for index in range(start, len(messages)):
            raw = messages[index]
            kind = _KINDS.get(raw.type_id)
            if kind is None:
                if raw.type_id != _AGGREGATE:
                    return index
                if not open_streams:
                    # Media is not taken here now, so it is not taken apart.
                    continue
                self.take(self._media_parts(raw), 0, reports)
                batch = reports[-1] if reports else None
                continue
            stream_id = raw.stream_id
            if stream_id not in open_streams:
                # Some encoders send metadata on message stream 0: with one publish it can only belong to that.
                if stream_id != 0 or len(open_streams) != 1:
                    continue
                (stream_id,) = open_streams
            payload = raw.payload
            if raw.type_id == _DATA_AMF3:
                payload = without_amf3_marker(payload)
            if not isinstance(batch, MediaReceived) or batch.stream_id != stream_id:
                batch = MediaReceived(stream_id, [])
                reports.append(batch)
            batch.frames.append(MediaFrame(kind, raw.timestamp, payload))
        return len(messages)

    def _media_parts(self, aggregate: RawMessage) -> list[RawMessage]:
        return [part for part in split_aggregate(aggregate, self._most_parts) if part.type_id in _KINDS]
