"""Nothing that a client can send harms the server, or anybody else."""

from __future__ import annotations

import os
import random
import re
import select
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rtmprelay import amf0
from rtmprelay.wire.chunk_writer import encode_standalone
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.messages import MessageType
from tests.hostile.conversations import NAMES, conversation, greeting, mutate
from tests.hostile.process import AttackedServer
from tests.service.command import wait_for

#: How many mutated conversations there are; `RTMPRELAY_HOSTILE_SESSIONS=20000` for the long run.
SESSIONS = int(os.environ.get("RTMPRELAY_HOSTILE_SESSIONS", "1200"))
SEED = int(os.environ.get("RTMPRELAY_HOSTILE_SEED", "7"))

MEBIBYTE = 1024 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedServer]:
    attacked = AttackedServer(tmp_path_factory.mktemp("attacked"))
    yield attacked
    attacked.stop()


def send_and_go(server: AttackedServer, data: bytes, read: bool = True) -> None:
    """Send it all, look at what comes for a moment, and go; whether the server cuts us off does not matter."""
    with server.connect() as stranger:
        try:
            stranger.sendall(data)
            if read:
                stranger.setblocking(False)
                while select.select([stranger], [], [], 0)[0] and stranger.recv(65536):
                    pass
        except OSError:
            return


def test_mutated_conversations(server: AttackedServer) -> None:
    """Thousands of them; afterwards everything is as before."""
    originals = [
        conversation(NAMES[0]),
        conversation(NAMES[1], use_digest=False),
        conversation(NAMES[2], play=True),
    ]
    for original in originals:
        send_and_go(server, original)
    server.assert_works()
    files = server.files()
    chance = random.Random(SEED)
    # What is kept for reuse has its size after some hundred; from then on nothing may grow.
    for number in range(SESSIONS):
        if number == min(300, SESSIONS // 3):
            before = server.memory()
        send_and_go(server, mutate(chance.choice(originals), chance), read=chance.random() < 0.5)
    server.wait_until_alone(files)
    server.assert_unharmed()
    grown = server.memory() - before
    assert grown < 20 * MEBIBYTE, f"{SESSIONS} mutated conversations left {grown / MEBIBYTE:.1f} MiB behind"
    opened = [line for line in server.lines() if line.get("event") == "connection_opened"]
    closed = [line["connection"] for line in server.lines() if line.get("event") == "connection_closed"]
    assert len(closed) == len(set(closed)), "one line for each"
    assert len(opened) >= SESSIONS


def shaken(server: AttackedServer) -> socket.socket:
    """A connection whose handshake and connect are over."""
    stranger = server.connect()
    stranger.sendall(greeting())
    return stranger


def is_cut_off(stranger: socket.socket, seconds: float = 20.0) -> bool:
    """Whether the server ends the connection; what it says before does not matter."""
    deadline = time.monotonic() + seconds
    stranger.settimeout(seconds)
    try:
        while time.monotonic() < deadline:
            if not stranger.recv(65536):
                return True
    except TimeoutError:
        return False
    except OSError:
        return True
    return False


def command(name: str, *values: object, stream_id: int = 0) -> bytes:
    payload = amf0.encode(name, *values)  # type: ignore[arg-type]
    return encode_standalone(RawMessage(MessageType.COMMAND_AMF0, 0, stream_id, payload), 3, 128)


def control(kind: MessageType, payload: bytes) -> bytes:
    return encode_standalone(RawMessage(kind, 0, 0, payload), 2, 128)


def announced(chunk_stream: int, length: int) -> bytes:
    """The first chunk of a message that claims to be long."""
    header = bytes([chunk_stream]) + bytes(3) + length.to_bytes(3) + b"\x09" + (1).to_bytes(4, "little")
    return header + bytes(128)


FLOODS = {
    "createStream": command("createStream", 2.0, None),
    "ping": control(MessageType.USER_CONTROL, b"\x00\x06\x00\x00\x00\x01"),
    "unknown command": command("whatever", 9.0, None),
    "one-byte chunks": control(MessageType.SET_CHUNK_SIZE, b"\x00\x00\x00\x01"),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_floods(server: AttackedServer, kind: str) -> None:
    """Whoever floods is cut off, or is at least not answered without end."""
    before = server.memory()
    stranger = shaken(server)
    data = FLOODS[kind]
    if kind == "one-byte chunks":
        data += b"".join(bytes([0x44]) + bytes(3) + b"\x00\x00\x01\x08" + b"x" for _ in range(20))
    flood = data * (MEBIBYTE // len(data) + 1)
    try:
        for _ in range(16):
            stranger.sendall(flood)
    except OSError:
        # Cut off while it was at it.
        pass
    assert is_cut_off(stranger), f"{kind}: 16 MiB of it, and still connected"
    stranger.close()
    server.assert_unharmed()
    assert server.memory() - before < 20 * MEBIBYTE


def test_sixteen_megabytes_are_announced_on_every_chunk_stream(server: AttackedServer) -> None:
    """Memory is taken for what came, not for what was announced."""
    before = server.memory()
    strangers = [shaken(server) for _ in range(20)]
    for stranger in strangers:
        try:
            stranger.sendall(b"".join(announced(number, 0xFFFFFF) for number in range(8, 60)))
        except OSError:
            continue
    server.assert_works()
    assert server.memory() - before < 20 * MEBIBYTE
    for stranger in strangers:
        stranger.close()
    server.assert_unharmed()


BOMBS = {
    "deep": b"\x02\x00\x07connect\x00\x3f\xf0\0\0\0\0\0\0" + b"\x03\x00\x01a" * 10_000,
    "wide": b"\x02\x00\x07connect\x00\x3f\xf0\0\0\0\0\0\0" + b"\x0a\xff\xff\xff\xff" + b"\x05" * 60_000,
    # Sound, however odd: nothing to be cut off for.
    "references": b"\x02\x00\x07connect\x00\x3f\xf0\0\0\0\0\0\0\x0a\0\0\0\x40" + b"\x07\0\0" * 64,
    "long string": b"\x0c\xff\xff\xff\xff" + b"a" * 60_000,
}


@pytest.mark.parametrize("kind", BOMBS)
def test_amf_bombs(server: AttackedServer, kind: str) -> None:
    before = server.memory()
    whole = conversation("unused", play=True)
    stranger = server.connect()
    bomb = encode_standalone(RawMessage(MessageType.COMMAND_AMF0, 0, 0, BOMBS[kind]), 3, 128)
    stranger.sendall(whole[:3073])
    stranger.sendall(bomb)
    assert kind == "references" or is_cut_off(stranger), f"{kind}: still connected"
    stranger.close()
    server.assert_unharmed()
    assert server.memory() - before < 20 * MEBIBYTE


def test_lies_about_acknowledgements(server: AttackedServer) -> None:
    stranger = shaken(server)
    for number in (0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 3, 0x80000000):
        stranger.sendall(control(MessageType.ACKNOWLEDGEMENT, number.to_bytes(4)))
        stranger.sendall(control(MessageType.WINDOW_ACKNOWLEDGEMENT_SIZE, number.to_bytes(4)))
    stranger.sendall(command("createStream", 2.0, None))
    heard = b""
    while b"_result" not in heard.rpartition(b"NetConnection.Connect.Success")[2]:
        data = stranger.recv(65536)
        assert data, "the server closed the connection"
        heard += data
    stranger.close()
    server.assert_unharmed()


def test_garbage_behind_a_publish(server: AttackedServer) -> None:
    chance = random.Random(SEED)
    for _ in range(20):
        send_and_go(server, conversation("garbage") + chance.randbytes(20_000))
    server.assert_unharmed()


def test_slow_handshakes_and_idle_connections(server: AttackedServer) -> None:
    """Five hundred who say nothing, or a byte at a time, do not keep anybody out, and are sent away."""
    files = server.files()
    before = server.memory()
    strangers = [server.connect() for _ in range(500)]
    for stranger in strangers[::2]:
        stranger.sendall(b"\x03")
    server.assert_works()
    assert server.memory() - before < 20 * MEBIBYTE
    assert is_cut_off(strangers[0])
    wait_for(lambda: server.files() <= files, "the end of all who said nothing")
    for stranger in strangers:
        stranger.close()
    server.assert_unharmed()
    named = [line for line in server.lines() if line.get("limit") == "handshake_timeout"]
    assert len(named) >= 500


def test_noise_at_a_port_with_tls(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """What is no TLS, or breaks it in the middle, is nobody's problem but its sender's."""
    key, cert = certificate
    chance = random.Random(SEED)
    endpoint = f"ssl:0:interface=127.0.0.1:privateKey={key}:certKey={cert}"
    server = AttackedServer(tmp_path, "--listen", endpoint)
    try:
        wait_for(lambda: len(listening_ports(server)) == 2, "two ports")
        (port,) = listening_ports(server) - {server.port}
        for number in range(60):
            with socket.create_connection(("127.0.0.1", port), 10) as stranger:
                hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
                noise = chance.randbytes(chance.choice((1, 50, 5000)))
                with suppress(OSError):
                    stranger.sendall(noise if number % 2 else hello + noise)
        server.assert_unharmed()
    finally:
        server.stop()


def listening_ports(server: AttackedServer) -> set[int]:
    found = re.findall(r"Listening on 127\.0\.0\.1:(\d+)", server.server.text())
    return {int(number) for number in found}
