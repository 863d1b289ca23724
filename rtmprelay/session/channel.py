"""What both ends of an RTMP conversation share: handshake, chunks, acknowledgements and pings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

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

#: A peer that wants an acknowledgement every few bytes would get more bytes from us than it sends.
SMALLEST_WINDOW = 4096

#: Acknowledgements count bytes modulo this.
_SEQUENCE_MODULUS = 1 << 32

#: The chunk streams for what a session sends. Media that several peers get has chunk streams of its own (see
#: `MEDIA_CHUNK_STREAMS`), because a header on these may depend on the one before.
CONTROL_CHUNK_STREAM = 2
COMMAND_CHUNK_STREAM = 3
STREAM_COMMAND_CHUNK_STREAM = 5


class MessageChannel:
    """Turns bytes into messages and back. It does not know what commands and media mean."""

    def __init__(
        self, handshake: ServerHandshake | ClientHandshake, limits: ConnectionLimits, chunk_size: int
    ) -> None:
        self.handshake_done = False
        #: Whether the handshake had the form with digests.
        self.digest = False
        self.reader = ChunkReader(limits)
        #: The size of outgoing chunks.
        self.chunk_size = chunk_size
        #: What `bytes_to_send` would return, in parts: empty if there is nothing to send.
        self.outgoing: list[bytes] = []
        self.bytes_received = 0
        self._handshake: ServerHandshake | ClientHandshake | None = handshake
        self._writer = ChunkWriter()
        self._announced_window: int | None = None
        # The window that the peer announced.
        self._window = WINDOW_ACKNOWLEDGEMENT_SIZE
        self._last_acknowledged = 0
        self._take_handshake_bytes(handshake)

    def receive(self, data: bytes) -> list[RawMessage]:
        """Take the bytes of one read and return the messages that they complete."""
        received = self.bytes_received = self.bytes_received + len(data)
        if self._handshake is not None:
            data = self._feed_handshake(self._handshake, data)
        elif received - self._last_acknowledged >= self._window:
            self._last_acknowledged = received
            self.send(Acknowledgement(received % _SEQUENCE_MODULUS))
        return self.reader.feed(data)

    def hold(self, data: bytes) -> None:
        """Keep bytes of a read for later: what they mean depends on an answer that is still missing."""
        self.bytes_received += len(data)
        self.reader.hold(data)

    def _feed_handshake(self, handshake: ServerHandshake | ClientHandshake, data: bytes) -> bytes:
        """Continue the handshake, and return the bytes after it."""
        handshake.feed(data)
        self._take_handshake_bytes(handshake)
        if not handshake.done:
            return b""
        self._handshake = None
        self.handshake_done = True
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
        """Tell the peer how often to acknowledge what it receives."""
        self._announced_window = WINDOW_ACKNOWLEDGEMENT_SIZE
        self.send(WindowAcknowledgementSize(WINDOW_ACKNOWLEDGEMENT_SIZE))

    def announce_chunk_size(self) -> None:
        """Tell the peer the size of our chunks, and use it from now on."""
        self.send(SetChunkSize(self.chunk_size))
        self._writer.chunk_size = self.chunk_size

    def handle_control(self, message: ControlMessage) -> None:
        match message:
            case WindowAcknowledgementSize(size):
                self._window = max(size, SMALLEST_WINDOW)
            case SetPeerBandwidth(size):
                # The specification wants our window as the answer. What we send is not held back by it.
                if size not in (0, self._announced_window):
                    self._announced_window = size
                    self.send(WindowAcknowledgementSize(size))
            case UserControl(UserControlType.PING_REQUEST, timestamp):
                self.send(UserControl(UserControlType.PING_RESPONSE, timestamp))
            case Acknowledgement() | UserControl():
                # Acknowledgements, stream events and buffer lengths change nothing: TCP limits what is in flight.
                pass
            case _:
                assert_never(message)

    def send_all(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.send(message)

    def bytes_to_send(self) -> bytes:
        """Return and remove the bytes to write now."""
        if not self.outgoing:
            return b""
        data = b"".join(self.outgoing)
        self.outgoing.clear()
        return data
