"""The handshake of RTMP for both sides, in its simple form and in the form with digests.

Each side sends one version byte and two packets of 1536 bytes. In the simple form the second packet echoes the peer's
first one. In the digest form the first packet contains an HMAC at a place that its own bytes determine, and the second
packet proves that the sender has found it. The keys are public, so the proof shows which software the peer imitates and
gives no security at all. That is why the peer's second packet is not checked, and only a wrong version is an error.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

import attrs

from rtmprelay.errors import RemoteProtocolError

PACKET_SIZE: Final = 1536

_VERSION: Final = 3
_RTMPE_VERSIONS: Final = frozenset({6, 8, 9})
_TLS_ALERT: Final = 0x15
_TLS_HANDSHAKE: Final = 0x16

_HEADER_SIZE: Final = 8  # A time and then a version (or a second time) of four bytes each.
_NO_VERSION: Final = bytes(4)
_TIME_ZERO: Final = bytes(4)  # Only differences of time matter, so our clock starts at zero.
_CLIENT_VERSION: Final = bytes((0x80, 0x00, 0x07, 0x02))
# Players look for the digest only when the first byte here is 3 or more.
_SERVER_VERSION: Final = bytes((0x04, 0x05, 0x00, 0x01))

_DIGEST_SIZE: Final = 32
_DIGEST_PLACES: Final = 728
# Where the block with the digest starts: the two schemas differ only in this.
_DIGEST_BLOCKS: Final = (772, 8)
_CLIENT_BLOCK: Final = 8

_CLIENT_KEY: Final = b"Genuine Adobe Flash Player 001"
_SERVER_KEY: Final = b"Genuine Adobe Flash Media Server 001"
_KEY_TAIL: Final = bytes.fromhex("f0eec24a8068bee82e00d0d1029e7e576eec5d2d29806fab93b8e636cfeb31ae")

RandomBytes = Callable[[int], bytes]


class _Stage(enum.Enum):
    """The part that is expected next."""

    VERSION = enum.auto()
    FIRST_PACKET = enum.auto()
    SECOND_PACKET = enum.auto()
    DONE = enum.auto()


@attrs.frozen
class _FoundDigest:
    block: int
    value: bytes


class _Handshake(ABC):
    """What both sides share: the input is cut into its three parts."""

    def __init__(self, random_bytes: RandomBytes) -> None:
        self.digest = False
        self._random_bytes = random_bytes
        self._stage = _Stage.VERSION
        self._incoming = bytearray()
        self._outgoing = bytearray()

    @property
    def done(self) -> bool:
        """Whether all of the peer's handshake has arrived; there may still be bytes to send."""
        return self._stage is _Stage.DONE

    @property
    def leftover(self) -> bytes:
        """The bytes after the handshake, where the chunk stream begins; empty until `done`."""
        return bytes(self._incoming) if self.done else b""

    def bytes_to_send(self) -> bytes:
        """Return and remove the bytes to write to the peer now."""
        pending = bytes(self._outgoing)
        self._outgoing.clear()
        return pending

    def feed(self, data: bytes) -> None:
        """Take bytes of the peer; once `done`, they only add to `leftover`.

        Raises:
            RemoteProtocolError: The first byte is a version that is not supported.
        """
        self._incoming += data
        while not self.done and self._read_part():
            pass

    def _read_part(self) -> bool:
        """Handle the next part if it is complete, and return whether it was."""
        size = 1 if self._stage is _Stage.VERSION else PACKET_SIZE
        if len(self._incoming) < size:
            return False
        if self._stage is _Stage.VERSION:
            self._check_version()
        part = bytes(self._incoming[:size])
        del self._incoming[:size]
        if self._stage is _Stage.VERSION:
            self._stage = _Stage.FIRST_PACKET
        elif self._stage is _Stage.FIRST_PACKET:
            self._stage = _Stage.SECOND_PACKET
            self._first_packet_received(part)
        else:
            # The second packet is not checked: it protects nothing, and peers in wide use send nonsense in it.
            self._stage = _Stage.DONE
        return True

    def _check_version(self) -> None:
        version = self._incoming[0]
        if version != _VERSION:
            # The wrong byte stays, so that every later feed fails too. The rest must not accumulate.
            del self._incoming[1:]
            raise RemoteProtocolError(_describe_bad_version(version))

    @abstractmethod
    def _first_packet_received(self, packet: bytes) -> None:
        """Answer C1 or S1."""


class ServerHandshake(_Handshake):
    """The side that accepts the connection; it answers in the form that the client chose."""

    def __init__(self, *, random_bytes: RandomBytes = os.urandom) -> None:
        super().__init__(random_bytes)

    def _first_packet_received(self, packet: bytes) -> None:
        found = _find_digest(packet, _CLIENT_KEY)
        self.digest = found is not None
        self._outgoing.append(_VERSION)
        if found is None:
            self._outgoing += _make_simple_packet(self._random_bytes)
            # The second field is the time at which we read C1; our clock stands at zero.
            self._outgoing += packet[:4] + _TIME_ZERO + packet[_HEADER_SIZE:]
        else:
            self._outgoing += _make_digest_packet(
                _SERVER_VERSION, found.block, _SERVER_KEY, self._random_bytes
            )
            self._outgoing += _make_proof(_SERVER_KEY, found.value, self._random_bytes)


class ClientHandshake(_Handshake):
    """The side that connects; C0 and C1 can be sent from the start."""

    def __init__(self, *, use_digest: bool = True, random_bytes: RandomBytes = os.urandom) -> None:
        super().__init__(random_bytes)
        self._use_digest = use_digest
        if use_digest:
            c1 = _make_digest_packet(_CLIENT_VERSION, _CLIENT_BLOCK, _CLIENT_KEY, random_bytes)
        else:
            c1 = _make_simple_packet(random_bytes)
        self._outgoing.append(_VERSION)
        self._outgoing += c1

    def _first_packet_received(self, packet: bytes) -> None:
        # A digest that this client did not offer is not answered.
        found = _find_digest(packet, _SERVER_KEY) if self._use_digest else None
        self.digest = found is not None
        if found is None:
            self._outgoing += packet
        else:
            self._outgoing += _make_proof(_CLIENT_KEY, found.value, self._random_bytes)


def _describe_bad_version(version: int) -> str:
    text = f"RTMP version {version} is not supported, only {_VERSION} is (first byte 0x{version:02x})"
    if version in _RTMPE_VERSIONS:
        return f"{text}: this is RTMPE, the encrypted variant of Flash; use rtmp:// or rtmps:// instead"
    if version == _TLS_HANDSHAKE:
        return f"{text}: this is a TLS hello on a plain RTMP port; use rtmp://, or the port for rtmps://"
    if version == _TLS_ALERT:
        return f"{text}: this is a TLS alert, so the other side expects rtmps://"
    if version < 0x80 and chr(version).isalpha():
        return f"{text}: it is a letter, so this may be HTTP on an RTMP port; check the port"
    return f"{text}: check that the other side speaks RTMP"


def _make_simple_packet(random_bytes: RandomBytes) -> bytes:
    return _TIME_ZERO + _NO_VERSION + random_bytes(PACKET_SIZE - _HEADER_SIZE)


def _make_digest_packet(version: bytes, block: int, key: bytes, random_bytes: RandomBytes) -> bytes:
    """A first packet that contains its digest."""
    packet = _TIME_ZERO + version + random_bytes(PACKET_SIZE - _HEADER_SIZE)
    start = _digest_offset(packet, block)
    digest = _packet_digest(packet, start, key)
    return packet[:start] + digest + packet[start + _DIGEST_SIZE :]


def _find_digest(packet: bytes, key: bytes) -> _FoundDigest | None:
    """The valid digest of a first packet, in either schema; None if the packet has the simple form."""
    if packet[4:_HEADER_SIZE] == _NO_VERSION:
        return None
    for block in _DIGEST_BLOCKS:
        start = _digest_offset(packet, block)
        value = packet[start : start + _DIGEST_SIZE]
        if hmac.compare_digest(value, _packet_digest(packet, start, key)):
            return _FoundDigest(block, value)
    return None


def _digest_offset(packet: bytes, block: int) -> int:
    return block + 4 + sum(packet[block : block + 4]) % _DIGEST_PLACES


def _packet_digest(packet: bytes, start: int, key: bytes) -> bytes:
    """Sign a first packet without the place of the digest itself."""
    return _sign(key, packet[:start] + packet[start + _DIGEST_SIZE :])


def _make_proof(key: bytes, peer_digest: bytes, random_bytes: RandomBytes) -> bytes:
    """The second packet of the digest form, which proves that the peer's digest was found."""
    filler = random_bytes(PACKET_SIZE - _DIGEST_SIZE)
    return filler + _sign(_sign(key + _KEY_TAIL, peer_digest), filler)


def _sign(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, hashlib.sha256)
