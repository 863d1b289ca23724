"""What both ends of an RTMP conversation share: handshake, chunks, acknowledgements and pings."""

from __future__ import annotations

from rtmprelay.wire.chunk_writer import ChunkWriter
from rtmprelay.wire.chunks import ChunkReader, RawMessage
from rtmprelay.wire.handshake import ClientHandshake, ServerHandshake
from rtmprelay.wire.limits import WINDOW_ACKNOWLEDGEMENT_SIZE, ConnectionLimits
from rtmprelay.wire.messages import (
    Acknowledgement,
    Command,
    ControlMessage,
    Message,
    SetChunkSize,
    SetPeerBandwidth,
    UserControl,
    UserControlType,
    WindowAcknowledgementSize,
    to_raw,
)

#: A peer that asks for an acknowledgement every few bytes would get more bytes from us than it sends.
SMALLEST_WINDOW = 4096

#: Acknowledgements count bytes modulo this.
_SEQUENCE_MODULUS = 1 << 32

#: The chunk streams of what we send. Shared media has its own ones (see `media_chunk_stream`), because the
#: headers on these lean on each other.
CONTROL_CHUNK_STREAM = 2
COMMAND_CHUNK_STREAM = 3
STREAM_COMMAND_CHUNK_STREAM = 5

_MEDIA_CHUNK_STREAMS = {8: 4, 9: 6, 18: 7}


def media_chunk_stream(type_id: int) -> int:
    """The chunk stream on which media of this type is sent."""
    return _MEDIA_CHUNK_STREAMS[type_id]


class MessageChannel:
    """Bytes on one side, messages on the other. Knows nothing of what the messages are about."""

    def __init__(
        self, handshake: ServerHandshake | ClientHandshake, limits: ConnectionLimits, chunk_size: int
    ) -> None:
        #: Whether the handshake is over, and whether it had the form with digests.
        self.shaken = False
        self.digest = False
        #: The chunks that `receive` puts together.
        self.reader = ChunkReader(limits)
        #: The size of outgoing chunks.
        self.chunk_size = chunk_size
        #: What `bytes_to_send` would return, in parts: only to look whether there is anything.
        self.outgoing: list[bytes] = []
        self.bytes_received = 0
        #: What the peer says has arrived there; it counts modulo 2^32, this goes on.
        self.bytes_acknowledged_by_peer = 0
        self.ping_answered = 0
        self._handshake: ServerHandshake | ClientHandshake | None = handshake
        self._writer = ChunkWriter()
        self._announced_window: int | None = None
        self._window = WINDOW_ACKNOWLEDGEMENT_SIZE
        self._last_acknowledged = 0
        self._take_handshake_bytes(handshake)

    @property
    def has_output(self) -> bool:
        """Whether `bytes_to_send` has something."""
        return bool(self.outgoing)

    def allow_messages_of(self, size: int, limit: str = "message_size") -> None:
        """From now on messages may have so many bytes; this is the limit that a larger one is over."""
        self.reader.allow_messages_of(size, limit)

    def forget(self) -> None:
        """Let go of what has come in part: nothing more will."""
        self.reader.forget()

    def receive(self, data: bytes) -> list[RawMessage]:
        """Take what arrived; the messages that are complete now."""
        received = self.bytes_received = self.bytes_received + len(data)
        if self._handshake is not None:
            data = self._shake(self._handshake, data)
        elif received - self._last_acknowledged >= self._window:
            self._last_acknowledged = received
            self.send(Acknowledgement(received % _SEQUENCE_MODULUS))
        return self.reader.feed(data)

    def _shake(self, handshake: ServerHandshake | ClientHandshake, data: bytes) -> bytes:
        """Continue the handshake; the bytes after it."""
        handshake.feed(data)
        self._take_handshake_bytes(handshake)
        if not handshake.done:
            return b""
        self._handshake = None
        self.shaken = True
        self.digest = handshake.digest
        return handshake.leftover

    def _take_handshake_bytes(self, handshake: ServerHandshake | ClientHandshake) -> None:
        pending = handshake.bytes_to_send()
        if pending:
            self.outgoing.append(pending)

    def send(self, message: Message) -> None:
        """Queue a control or command message."""
        if not isinstance(message, Command):
            chunk_stream_id = CONTROL_CHUNK_STREAM
        elif message.stream_id:
            chunk_stream_id = STREAM_COMMAND_CHUNK_STREAM
        else:
            chunk_stream_id = COMMAND_CHUNK_STREAM
        self.outgoing.append(self._writer.encode(to_raw(message), chunk_stream_id))

    def announce_window(self) -> None:
        """Say how often we want acknowledgements."""
        self._announced_window = WINDOW_ACKNOWLEDGEMENT_SIZE
        self.send(WindowAcknowledgementSize(WINDOW_ACKNOWLEDGEMENT_SIZE))

    def announce_chunk_size(self) -> None:
        """Say how large our chunks are from now on."""
        self.send(SetChunkSize(self.chunk_size))
        self._writer.chunk_size = self.chunk_size

    def ping(self, timestamp: int) -> None:
        """Ask the peer for a sign of life."""
        self.send(UserControl(UserControlType.PING_REQUEST, timestamp % (1 << 32)))

    def handle_control(self, message: ControlMessage) -> None:
        """Do what a control message wants."""
        match message:
            case Acknowledgement(sequence_number):
                self._peer_acknowledged(sequence_number)
            case WindowAcknowledgementSize(size):
                self._window = max(size, SMALLEST_WINDOW)
            case SetPeerBandwidth(size) if size not in (0, self._announced_window):
                # The specification wants our window as the answer; it is never held back by the peer's wish.
                self._announced_window = size
                self.send(WindowAcknowledgementSize(size))
            case UserControl(UserControlType.PING_REQUEST, value):
                self.send(UserControl(UserControlType.PING_RESPONSE, value))
            case UserControl(UserControlType.PING_RESPONSE):
                self.ping_answered += 1
            case _:
                # Set Chunk Size and Abort are the chunk reader's; stream events and buffer lengths change nothing here.
                return

    def _peer_acknowledged(self, sequence_number: int) -> None:
        step = (sequence_number - self.bytes_acknowledged_by_peer) % _SEQUENCE_MODULUS
        # A step of more than half the circle is an old number that came late.
        if step < _SEQUENCE_MODULUS // 2:
            self.bytes_acknowledged_by_peer += step

    def bytes_to_send(self) -> bytes:
        """What is to be written now; it is forgotten here."""
        if not self.outgoing:
            return b""
        data = b"".join(self.outgoing)
        self.outgoing.clear()
        return data
