"""Packets of the handshake made by hand, and handshakes whose random bytes are always the same."""

from __future__ import annotations

import hashlib
import hmac
import random
from collections.abc import Callable

from rtmprelay.wire.handshake import ClientHandshake, ServerHandshake

PACKET_SIZE = 1536
PLAYER_KEY = b"Genuine Adobe Flash Player 001"
SERVER_KEY = b"Genuine Adobe Flash Media Server 001"
KEY_TAIL = bytes.fromhex(
    "F0 EE C2 4A 80 68 BE E8 2E 00 D0 D1 02 9E 7E 57 6E EC 5D 2D 29 80 6F AB 93 B8 E6 36 CF EB 31 AE"
)
BLOCKS = [772, 8]
TAIL = b"\x02\x00\x00\x00chunks follow"


def seeded(seed: int) -> Callable[[int], bytes]:
    return random.Random(seed).randbytes


def new_server() -> ServerHandshake:
    return ServerHandshake(random_bytes=seeded(1))


def new_client(use_digest: bool = True) -> ClientHandshake:
    return ClientHandshake(use_digest=use_digest, random_bytes=seeded(2))


def sha(key: bytes, *pieces: bytes | bytearray) -> bytes:
    mac = hmac.new(key, digestmod=hashlib.sha256)
    for piece in pieces:
        mac.update(piece)
    return mac.digest()


def digest_start(packet: bytes | bytearray, block: int) -> int:
    a, b, c, d = packet[block : block + 4]
    return (a + b + c + d) % 728 + block + 4


def signed_packet(block: int, key: bytes, seed: int = 3, selector: bytes | None = None) -> bytes:
    """C1 or S1 with a digest; `selector` sets the four bytes that determine its place."""
    packet = bytearray(bytes(4) + b"\x09\x00\x7c\x02" + seeded(seed)(1528))
    if selector is not None:
        packet[block : block + 4] = selector
    start = digest_start(packet, block)
    packet[start : start + 32] = sha(key, packet[:start], packet[start + 32 :])
    return bytes(packet)


def signed_digest(packet: bytes, block: int, key: bytes) -> bytes:
    """The digest of a packet, which must be a valid one."""
    start = digest_start(packet, block)
    digest = packet[start : start + 32]
    assert digest == sha(key, packet[:start], packet[start + 32 :])
    return digest


def tampered(packet: bytes, at: int) -> bytes:
    return packet[:at] + bytes([packet[at] ^ 1]) + packet[at + 1 :]


def server_answer(c1: bytes) -> tuple[ServerHandshake, bytes, bytes]:
    server = new_server()
    server.feed(b"\x03" + c1)
    answer = server.bytes_to_send()
    assert len(answer) == 1 + 2 * PACKET_SIZE
    assert answer[0] == 3
    return server, answer[1 : 1 + PACKET_SIZE], answer[1 + PACKET_SIZE :]


def client_stream(use_digest: bool) -> bytes:
    """Everything that a client sends, and TAIL."""
    client, server = new_client(use_digest), new_server()
    first = client.bytes_to_send()
    server.feed(first)
    client.feed(server.bytes_to_send())
    return first + client.bytes_to_send() + TAIL


def server_stream(use_digest: bool) -> bytes:
    """Everything that a server sends to the client of `new_client`, and TAIL."""
    server = new_server()
    server.feed(new_client(use_digest).bytes_to_send())
    return server.bytes_to_send() + TAIL
