"""What was sent and what came, message by message: the proof of the demo. Knows no sockets."""

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
    "type, timestamp and payload of every audio and video message, decoder configuration included, one by one in their"
    " order; the digest is SHA-256 over them (type 1 byte, timestamp 4, size 4, payload). Of the metadata: all values"
    " that were sent. The recorder adds some of its own, such as the duration."
)

_BEFORE_PAYLOAD = struct.Struct(">BII")

#: Messages whose latency counts for what is shown: about the last two seconds.
_RECENT = 150

#: The message that `SpoiledTape` spoils.
SPOILED_MESSAGE = 10


class Tape:
    """The audio and video messages that went past somebody: how many, how large, and their digest.

    Attributes:
        metadata: What was last said of the stream.
    """

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0
        self.metadata: dict[str, AmfValue] = {}
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        """The digest of all messages so far."""
        return self._digest.hexdigest()

    def add(self, frame: MediaFrame, now: float | None) -> None:
        """A message went past, at this time; None if that is long ago, as in a file."""
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
        """Do what is to be done with an audio or video message; `messages` is its number, counted from 0."""


class SentTape(Tape):
    """What the source sent. It remembers 21 bytes of each message, so that a difference can be told as it comes."""

    def __init__(self) -> None:
        super().__init__()
        self._fingerprints = array("Q")
        self._timestamps = array("I")
        self._kinds = bytearray()
        self._times = array("d")

    def note(self, frame: MediaFrame, fingerprint: int, now: float | None) -> None:
        """Remember it."""
        self._fingerprints.append(fingerprint)
        self._timestamps.append(frame.timestamp_ms)
        self._kinds.append(frame.kind)
        self._times.append(now or 0.0)

    def fingerprint(self, number: int) -> int:
        """The fingerprint of a message."""
        return self._fingerprints[number]

    def sent_at(self, number: int) -> float:
        """When a message was sent."""
        return self._times[number]

    def kind(self, number: int) -> MediaKind:
        """Whether a message is audio or video."""
        return MediaKind(self._kinds[number])

    def timestamp_ms(self, number: int) -> int:
        """The timestamp of a message."""
        return self._timestamps[number]

    def describe(self, number: int) -> str:
        """A message in words; people count from 1."""
        what = _describe(self.kind(number), self.timestamp_ms(number))
        return f"message {number + 1} ({what})"


class ReceivedTape(Tape):
    """What a receiver got, compared with what was sent.

    Attributes:
        difference: In words, from where on and how it differs from what was sent; None while it does not.
        worst_latency: In seconds; None while nothing has come.
    """

    def __init__(self, name: str, sent: SentTape) -> None:
        super().__init__()
        self.name = name
        self.difference: str | None = None
        self.worst_latency: float | None = None
        self._sent = sent
        self._latencies: deque[float] = deque(maxlen=_RECENT)

    def note(self, frame: MediaFrame, fingerprint: int, now: float | None) -> None:
        """Compare it."""
        if self.difference is not None:
            return
        number = self.messages
        if number >= self._sent.messages:
            self.difference = f"got more than was sent: {_describe_frame(frame)} behind the last message"
        elif fingerprint != self._sent.fingerprint(number):
            self.difference = f"differs from {self._sent.describe(number)} on: {self._how(frame, number)}"
        elif now is not None:
            latency = now - self._sent.sent_at(number)
            self._latencies.append(latency)
            self.worst_latency = max(latency, self.worst_latency or 0.0)

    def _how(self, frame: MediaFrame, number: int) -> str:
        sent = self._sent
        if (frame.kind, frame.timestamp_ms) == (sent.kind(number), sent.timestamp_ms(number)):
            return "the payload is another one"
        return f"{_describe_frame(frame)} came instead"

    @property
    def latency(self) -> float | None:
        """The median of the last messages, in seconds from the sending; None if there are none."""
        return statistics.median(self._latencies) if self._latencies else None

    @property
    def recent_worst_latency(self) -> float | None:
        """The worst of the last messages."""
        return max(self._latencies, default=None)

    @property
    def is_complete(self) -> bool:
        """Whether as much came as was sent."""
        return self.messages >= self._sent.messages

    def problem(self) -> str | None:
        """What is wrong with what came, in words, once nothing more is to come; None if it is all that was sent."""
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
    """Changes one byte of one message before it is compared: whoever doubts the comparison can see it work."""

    def add(self, frame: MediaFrame, now: float | None) -> None:
        """Spoil it, or let it be."""
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
