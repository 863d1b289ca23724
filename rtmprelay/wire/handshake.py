"""The handshake of RTMP for both sides, in its simple form and in the form with digests.

Each side sends one version byte and two packets of 1536 bytes. In the simple form the second packet
echoes the peer's first one. In the digest form the first packet hides an HMAC at a place that its own
bytes decide, and the second packet proves that the sender has found it. The keys are public, so this
shows which software the peer imitates and gives no security at all: that is why a wrong proof is
tolerated everywhere here, and only a wrong version is an error.
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
_TIME_ZERO: Final = bytes(4)  # Only differences of time matter, so each of our clocks starts here.
_CLIENT_VERSION: Final = bytes((0x80, 0x00, 0x07, 0x02))
# Players look for the digest only when the first byte here is 3 or more.
_SERVER_VERSION: Final = bytes((0x04, 0x05, 0x00, 0x01))

_DIGEST_SIZE: Final = 32
_DIGEST_PLACES: Final = 728
# The two schemas differ only in which half of the packet holds the digest: the block starts here.
_DIGEST_BLOCKS: Final = (772, 8)
_CLIENT_BLOCK: Final = 8

_CLIENT_KEY: Final = b"Genuine Adobe Flash Player 001"
_SERVER_KEY: Final = b"Genuine Adobe Flash Media Server 001"
_KEY_TAIL: Final = bytes.fromhex("f0eec24a8068bee82e00d0d1029e7e576eec5d2d29806fab93b8e636cfeb31ae")

RandomBytes = Callable[[int], bytes]


class _Stage(enum.Enum):
    """Which part is awaited next."""

    VERSION = enum.auto()
    FIRST_PACKET = enum.auto()
    SECOND_PACKET = enum.auto()
    DONE = enum.auto()


@attrs.frozen
class _FoundDigest:
    block: int
    value: bytes


class _Handshake(ABC):
    """What both sides share: cutting the input into its three parts."""

    def __init__(self, random_bytes: RandomBytes) -> None:
        self.digest = False
        self._random_bytes = random_bytes
        self._stage = _Stage.VERSION
        self._incoming = bytearray()
        self._outgoing = bytearray()

    @property
    def done(self) -> bool:
        """Whether the peer's part is complete; `bytes_to_send` may still have something."""
        return self._stage is _Stage.DONE

    @property
    def leftover(self) -> bytes:
        """The bytes behind the handshake: the start of the chunk stream; empty until `done`."""
        return bytes(self._incoming) if self.done else b""

    def bytes_to_send(self) -> bytes:
        """Return what is to be written to the peer now, and forget it."""
        pending = bytes(self._outgoing)
        self._outgoing.clear()
        return pending

    def feed(self, data: bytes) -> None:
        """Take in bytes of the peer; once `done`, all that is fed only adds to `leftover`.

        Raises RemoteProtocolError at the first byte if that is not a version that we speak.
        """
        self._incoming += data
        while not self.done and self._read_part():
            pass

    def _read_part(self) -> bool:
        """Handle one part if it is there in full, and say whether it was."""
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
            self._stage = _Stage.DONE
            self._second_packet_received(part)
        return True

    def _check_version(self) -> None:
        version = self._incoming[0]
        if version != _VERSION:
            # The bad byte stays, so that every later feed fails too; the rest must not pile up.
            del self._incoming[1:]
            raise RemoteProtocolError(_describe_bad_version(version))

    @abstractmethod
    def _first_packet_received(self, packet: bytes) -> None:
        """Answer C1 or S1."""

    @abstractmethod
    def _second_packet_received(self, packet: bytes) -> None:
        """Look at C2 or S2."""


class ServerHandshake(_Handshake):
    """The side that was connected to; it answers in the form that the client chose."""

    def __init__(self, *, random_bytes: RandomBytes = os.urandom) -> None:
        super().__init__(random_bytes)

    def _first_packet_received(self, packet: bytes) -> None:
        found = _find_digest(packet, _CLIENT_KEY)
        self.digest = found is not None
        self._outgoing.append(_VERSION)
        if found is None:
            self._outgoing += _make_simple_packet(self._random_bytes)
            # The second field is when we read C1, by our clock, and that one stands at zero.
            self._outgoing += packet[:4] + _TIME_ZERO + packet[_HEADER_SIZE:]
        else:
            s1, _ = _make_digest_packet(_SERVER_VERSION, found.block, _SERVER_KEY, self._random_bytes)
            self._outgoing += s1
            self._outgoing += _make_proof(_SERVER_KEY, found.value, self._random_bytes)

    def _second_packet_received(self, packet: bytes) -> None:
        # C2 is not checked: it protects nothing, and clients in wide use send nonsense here.
        pass


class ClientHandshake(_Handshake):
    """The side that connects; C0 and C1 are there to send from the start.

    `peer_verified` says, once done, whether S2 was the right answer to C1. It is meant for logs: many
    servers get S2 wrong and work well otherwise.
    """

    def __init__(self, *, use_digest: bool = True, random_bytes: RandomBytes = os.urandom) -> None:
        super().__init__(random_bytes)
        self.peer_verified = False
        self._own_digest: bytes | None = None
        if use_digest:
            self._c1, self._own_digest = _make_digest_packet(
                _CLIENT_VERSION, _CLIENT_BLOCK, _CLIENT_KEY, random_bytes
            )
        else:
            self._c1 = _make_simple_packet(random_bytes)
        self._outgoing.append(_VERSION)
        self._outgoing += self._c1

    def _first_packet_received(self, packet: bytes) -> None:
        # A digest that we did not ask for is not answered: this client was told to keep it simple.
        found = None if self._own_digest is None else _find_digest(packet, _SERVER_KEY)
        self.digest = found is not None
        if found is None:
            self._outgoing += packet
        else:
            self._outgoing += _make_proof(_CLIENT_KEY, found.value, self._random_bytes)

    def _second_packet_received(self, packet: bytes) -> None:
        if self.digest and self._own_digest is not None:
            self.peer_verified = _is_proof(packet, _SERVER_KEY, self._own_digest)
        else:
            self.peer_verified = packet[_HEADER_SIZE:] == self._c1[_HEADER_SIZE:]


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


def _make_digest_packet(
    version: bytes, block: int, key: bytes, random_bytes: RandomBytes
) -> tuple[bytes, bytes]:
    """Return a first packet with its digest written in, and the digest."""
    packet = _TIME_ZERO + version + random_bytes(PACKET_SIZE - _HEADER_SIZE)
    start = _digest_offset(packet, block)
    digest = _packet_digest(packet, start, key)
    return packet[:start] + digest + packet[start + _DIGEST_SIZE :], digest


def _find_digest(packet: bytes, key: bytes) -> _FoundDigest | None:
    """Find the valid digest of a first packet, in either schema; None means the simple form."""
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
    """Sign all of a first packet but the place of the digest itself."""
    return _sign(key, packet[:start] + packet[start + _DIGEST_SIZE :])


def _make_proof(key: bytes, peer_digest: bytes, random_bytes: RandomBytes) -> bytes:
    """Make the second packet of the digest form, which proves that the peer's digest was found."""
    filler = random_bytes(PACKET_SIZE - _DIGEST_SIZE)
    return filler + _proof_signature(key, peer_digest, filler)


def _is_proof(packet: bytes, key: bytes, own_digest: bytes) -> bool:
    filler, signature = packet[:-_DIGEST_SIZE], packet[-_DIGEST_SIZE:]
    return hmac.compare_digest(signature, _proof_signature(key, own_digest, filler))


def _proof_signature(key: bytes, digest: bytes, filler: bytes) -> bytes:
    return _sign(_sign(key + _KEY_TAIL, digest), filler)


def _sign(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, hashlib.sha256)
