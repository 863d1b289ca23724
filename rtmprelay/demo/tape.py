"""What was sent and what arrived, compared message by message: the proof of the demo. No sockets here."""

from __future__ import annotations

import hashlib
import statistics
import struct
from array import array
from collections import deque

import attrs

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.flv.script import decode_metadata
from rtmprelay.flv.tags import describe_audio, describe_video
from rtmprelay.media import MediaFrame, MediaKind

COMPARED = (
    "type, timestamp and payload of every audio and video message, with the decoder configuration, one by one and in"
    " order; the digest is SHA-256 over them (type 1 byte, timestamp 4, size 4, payload). Of the metadata: all values"
    " that were sent. The recorder adds values such as the duration."
)

_BEFORE_PAYLOAD = struct.Struct(">BII")

#: Messages whose latency is shown: about the last two seconds.
_RECENT = 150

#: The number of the message that `SpoiledTape` changes.
SPOILED_MESSAGE = 10


class Tape:
    """The audio and video messages that passed one point: how many, how large, and their digest.

    Attributes:
        metadata: The latest values of the stream.
    """

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0
        self.metadata: dict[str, AmfValue] = {}
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def add(self, frame: MediaFrame, now: float | None) -> None:
        """Add a message that passed at this time; None if it comes from a file."""
        if frame.kind is MediaKind.DATA:
            self.metadata = decode_metadata(frame.payload) or self.metadata
            return
        before = _BEFORE_PAYLOAD.pack(frame.kind, frame.timestamp_ms, len(frame.payload))
        self._digest.update(before)
        self._digest.update(frame.payload)
        self.note(frame, _fingerprint(before, frame.payload), now)
        self.messages += 1
        self.bytes += len(frame.payload)

    def note(self, frame: MediaFrame, fingerprint: int, now: float | None) -> None:
        """Note an audio or video message, before it is counted: `messages` is its number, from 0."""


class SentTape(Tape):
    """What the source sent. It keeps 21 bytes of each message, so a difference is known as soon as it arrives."""

    def __init__(self) -> None:
        super().__init__()
        self._fingerprints = array("Q")
        self._timestamps = array("I")
        self._kinds = bytearray()
        self._times = array("d")

    def note(self, frame: MediaFrame, fingerprint: int, now: float | None) -> None:
        self._fingerprints.append(fingerprint)
        self._timestamps.append(frame.timestamp_ms)
        self._kinds.append(frame.kind)
        self._times.append(now or 0.0)

    def fingerprint(self, number: int) -> int:
        return self._fingerprints[number]

    def sent_at(self, number: int) -> float:
        return self._times[number]

    def kind(self, number: int) -> MediaKind:
        return MediaKind(self._kinds[number])

    def timestamp_ms(self, number: int) -> int:
        return self._timestamps[number]

    def describe(self, number: int) -> str:
        """A message in words; people count from 1."""
        what = _describe(self.kind(number), self.timestamp_ms(number))
        return f"message {number + 1} ({what})"


class ReceivedTape(Tape):
    """What a receiver got, compared with what was sent.

    Attributes:
        difference: How it differs from what was sent, and from which message on; None while it does not.
        worst_latency: In seconds; None before the first message.
    """

    def __init__(self, name: str, sent: SentTape) -> None:
        super().__init__()
        self.name = name
        self.difference: str | None = None
        self.worst_latency: float | None = None
        self._sent = sent
        self._latencies: deque[float] = deque(maxlen=_RECENT)

    def note(self, frame: MediaFrame, fingerprint: int, now: float | None) -> None:
        if self.difference is not None:
            return
        number = self.messages
        if number >= self._sent.messages:
            self.difference = f"got more than was sent: {_describe_frame(frame)} after the last message"
        elif fingerprint != self._sent.fingerprint(number):
            self.difference = f"differs from {self._sent.describe(number)} on: {self._how(frame, number)}"
        elif now is not None:
            latency = now - self._sent.sent_at(number)
            self._latencies.append(latency)
            self.worst_latency = max(latency, self.worst_latency or 0.0)

    def _how(self, frame: MediaFrame, number: int) -> str:
        sent = self._sent
        if (frame.kind, frame.timestamp_ms) == (sent.kind(number), sent.timestamp_ms(number)):
            return "the payload is different"
        return f"{_describe_frame(frame)} came instead"

    @property
    def latency(self) -> float | None:
        """The median of the last messages, in seconds since they were sent; None if there are none."""
        return statistics.median(self._latencies) if self._latencies else None

    @property
    def recent_worst_latency(self) -> float | None:
        """The worst of the last messages."""
        return max(self._latencies, default=None)

    @property
    def is_complete(self) -> bool:
        """Whether as many messages arrived as were sent."""
        return self.messages >= self._sent.messages

    def problem(self) -> str | None:
        """What is wrong, once no more messages can arrive; None if everything that was sent is here."""
        sent = self._sent
        if self.difference is not None:
            return self.difference
        if not self.messages and sent.messages:
            return "got nothing"
        if self.messages < sent.messages:
            missing = sent.messages - self.messages
            return f"lacks {missing} messages at the end, from {sent.describe(self.messages)} on"
        changed = sorted(
            name for name, value in sent.metadata.items() if self.metadata.get(name, _MISSING) != value
        )
        return f"got other metadata: {', '.join(changed)}" if changed else None


class SpoiledTape(ReceivedTape):
    """Changes one byte of one message before it is compared, to show that the comparison works."""

    def add(self, frame: MediaFrame, now: float | None) -> None:
        if frame.kind is not MediaKind.DATA and self.messages == SPOILED_MESSAGE - 1:
            payload = frame.payload
            frame = attrs.evolve(frame, payload=payload[:-1] + bytes([payload[-1] ^ 1]))
        super().add(frame, now)


_MISSING = object()


def _fingerprint(before: bytes, payload: bytes) -> int:
    digest = hashlib.blake2b(before, digest_size=8)
    digest.update(payload)
    return int.from_bytes(digest.digest())


def _describe(kind: MediaKind, timestamp_ms: int) -> str:
    return f"{kind.name.lower()} at {timestamp_ms / 1000:.3f} s"


def _describe_frame(frame: MediaFrame) -> str:
    what = _describe(frame.kind, frame.timestamp_ms)
    describe = describe_video if frame.kind is MediaKind.VIDEO else describe_audio
    return f"decoder configuration ({what})" if describe(frame.payload).sequence_header else what
