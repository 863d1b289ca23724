"""What OBS Studio sends when it publishes, byte for byte in its own order: OBS has a librtmp of its own.

It asks with small chunks of its own choice before `connect`, does not adopt the server's chunk size, sends no list of codecs,
answers pings on chunk stream 2 with a shortened header, and closes with FCUnpublish and deleteStream.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

from rtmprelay.amf import amf0
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.wire.chunks import ChunkReader, RawMessage
from rtmprelay.wire.messages import Command, MessageType, from_raw
from tests.helpers import DEADLINE

_CHUNK = 4096
_HANDSHAKE = 1536

_CODES = {
    MediaKind.VIDEO: MessageType.VIDEO,
    MediaKind.AUDIO: MessageType.AUDIO,
    MediaKind.DATA: MessageType.DATA_AMF0,
}


class ObsClient:
    """OBS with a server and a stream key."""

    def __init__(self, port: int, app: str, key: str) -> None:
        self._app, self._key = app, key
        self._url = f"rtmp://127.0.0.1:{port}/{app}"
        self._socket = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self._reader = ChunkReader()
        self._chunk = 128
        self.commands: list[Command] = []
        self.closed = False

    def start(self) -> str:
        """Connect and publish; the code of the answer."""
        self._shake_hands()
        self._send(2, MessageType.SET_CHUNK_SIZE, _CHUNK.to_bytes(4))
        self._chunk = _CHUNK
        properties: dict[str, amf0.AmfValue] = {
            "app": self._app,
            "type": "nonprivate",
            "flashVer": "FMLE/3.0 (compatible; FMSc/1.0)",
            "swfUrl": self._url,
            "tcUrl": self._url,
        }
        self._call("connect", 1.0, properties)
        self._wait_for("_result")
        self._send(2, MessageType.WINDOW_ACKNOWLEDGEMENT_SIZE, (2_500_000).to_bytes(4))
        self._call("releaseStream", 2.0, None, self._key)
        self._call("FCPublish", 3.0, None, self._key)
        self._call("createStream", 4.0, None)
        answer = self._wait_for("_result", 4.0)
        stream = answer.arguments[-1]
        assert isinstance(stream, float)
        self._stream = int(stream)
        self._call("publish", 5.0, None, self._key, "live", stream=self._stream, chunk_stream=4)
        information = self._wait_for("onStatus").arguments[-1]
        assert isinstance(information, dict)
        return str(information["code"])

    def send(self, frames: Iterable[MediaFrame]) -> None:
        """Media: on chunk stream 4, all of it."""
        for frame in frames:
            self._send(4, _CODES[frame.kind], frame.payload, frame.timestamp_ms, self._stream)

    def stop(self) -> None:
        """End as OBS does: the server closes nothing before that."""
        self._call("FCUnpublish", 6.0, None, self._key)
        self._call("deleteStream", 7.0, None, float(self._stream))
        self._socket.shutdown(socket.SHUT_WR)
        while self._receive():
            pass
        self._socket.close()

    # -- the wire ----------------------------------------------------------------------------------------------

    def _shake_hands(self) -> None:
        # Time, four zeros, and a pattern; the answer is sent back as it came.
        self._socket.sendall(b"\x03" + bytes(8) + bytes(number % 256 for number in range(_HANDSHAKE - 8)))
        received = self._exactly(1 + 2 * _HANDSHAKE)
        self._socket.sendall(received[1 : 1 + _HANDSHAKE])

    def _exactly(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            data = self._socket.recv(size - len(received))
            assert data, "the server closed the connection"
            received += data
        return received

    def _call(self, *values: amf0.AmfValue, stream: int = 0, chunk_stream: int = 3) -> None:
        self._send(chunk_stream, MessageType.COMMAND_AMF0, amf0.encode(*values), 0, stream)

    def _send(
        self, chunk_stream: int, kind: MessageType, payload: bytes, time: int = 0, stream: int = 0
    ) -> None:
        header = min(time, 0xFFFFFF).to_bytes(3) + len(payload).to_bytes(3) + bytes([kind])
        data = bytes([chunk_stream]) + header + stream.to_bytes(4, "little") + payload[: self._chunk]
        for at in range(self._chunk, len(payload), self._chunk):
            data += bytes([0xC0 | chunk_stream]) + payload[at : at + self._chunk]
        self._socket.sendall(data)

    def _receive(self) -> bool:
        try:
            data = self._socket.recv(65536)
        except ConnectionError:
            data = b""
        for message in self._reader.feed(data) if data else ():
            self._take(message)
        self.closed = not data
        return bool(data)

    def _take(self, message: RawMessage) -> None:
        read = from_raw(message)
        if isinstance(read, Command):
            self.commands.append(read)
        elif message.type_id == MessageType.USER_CONTROL and message.payload[:2] == b"\x00\x06":
            # A ping, answered with a header that has no message stream: librtmp begins chunk stream 2 so.
            body = b"\x00\x07" + message.payload[2:6]
            self._socket.sendall(b"\x42" + bytes(3) + len(body).to_bytes(3) + b"\x04" + body)

    def _wait_for(self, name: str, transaction: float | None = None) -> Command:
        while True:
            for command in self.commands:
                if command.name == name and transaction in (None, command.transaction_id):
                    self.commands.remove(command)
                    return command
            assert self._receive(), f"the server closed before {name}"
