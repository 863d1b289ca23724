"""Nothing that a client can send harms the server, or anybody else.

They all go to one server. `RTMPRELAY_HOSTILE_SESSIONS` says how many mutated conversations there are, and
`RTMPRELAY_HOSTILE_SEED` chooses others.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from rtmprelay.wire.limits import LARGEST_OUTGOING_CHUNK_SIZE
from rtmprelay.wire.messages import MessageType
from tests.helpers import group, wait_for
from tests.hostile.conversations import HANDSHAKE, KEY, NAMES, conversation, greeting
from tests.hostile.process import MEBIBYTE, AttackedServer
from tests.hostile.strangers import (
    announced,
    behave_oddly,
    command,
    connected,
    control,
    is_cut_off,
    message,
    publishing,
    send_until_cut_off,
)
from tests.rounds import rounds

SESSIONS = rounds(2000, full=20_000, variable="RTMPRELAY_HOSTILE_SESSIONS")
SEED = int(os.environ.get("RTMPRELAY_HOSTILE_SEED", "7"))

#: Conversations after which what is kept for reuse has its size.
WARM_UP = 300


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedServer]:
    attacked = AttackedServer(tmp_path_factory.mktemp("attacked"))
    yield attacked
    attacked.stop()


def originals() -> list[bytes]:
    """The conversations of a publisher, with both forms of the handshake, and of a player that acknowledges."""
    told = [control(MessageType.ACKNOWLEDGEMENT, number.to_bytes(4)) for number in range(40)]
    return [
        conversation(NAMES[0]),
        conversation(NAMES[1], use_digest=False),
        conversation(NAMES[2], play=True) + b"".join(told),
    ]


def behave_oddly_so_often(server: AttackedServer, count: int, chance: random.Random) -> None:
    """Mutated conversations, while somebody publishes what they want to play."""
    whole = originals()
    encoder = server.publish("hostile-c")
    for number in range(count):
        if number % 50 == 0:
            encoder.send(*group(number))
        behave_oddly(server, chance.choice(whole), chance)
    encoder.socket.close()


@pytest.fixture(scope="module")
def memory(server: AttackedServer) -> int:
    """What the server uses when it has seen a little of everything; from then on it may not grow."""
    behave_oddly_so_often(server, WARM_UP, random.Random(SEED - 1))
    server.assert_works()
    server.pages()
    return server.memory()


@pytest.mark.fewer_rounds
def test_mutated_conversations_leave_the_server_as_it_was(server: AttackedServer, memory: int) -> None:
    since, files = len(server.lines()), server.files()
    behave_oddly_so_often(server, SESSIONS, random.Random(SEED))
    server.wait_until_alone(files)
    server.assert_unharmed(since)
    server.assert_no_larger(memory)
    closings = server.closings(since)
    assert len(closings) >= SESSIONS, "one line for each"
    assert all(line["reason"] for line in closings)
    # Many of them got far: otherwise this would try little more than the handshake.
    reached = {line.get("event") for line in server.lines()[since:]}
    assert {"publish_started", "publish_refused", "play_started", "play_refused", "connect"} <= reached
    assert len({line["reason"] for line in closings}) > 20


#: What is sent first, what is sent without end, and the limits of which one ends it.
FLOODS: dict[str, tuple[bytes, bytes, set[str]]] = {
    "createStream": (b"", command("createStream", 2.0, None), {"message_streams"}),
    "createStream and deleteStream": (
        b"",
        command("createStream", 2.0, None) + command("deleteStream", 0.0, None, 1.0),
        {"command_rate"},
    ),
    "ping": (
        b"",
        control(MessageType.USER_CONTROL, b"\x00\x06\x00\x00\x00\x01"),
        {"chunk_rate_before_publish", "unread_replies_before_publish", "stall_timeout"},
    ),
    "unknown command": (b"", command("whatever", 9.0, None), {"command_rate"}),
    "one-byte chunks": (
        control(MessageType.SET_CHUNK_SIZE, b"\x00\x00\x00\x01") + b"\x04\0\0\0\0\0\1\x08\1\0\0\0x",
        b"\xc4x",
        {"chunk_rate_before_publish"},
    ),
    "empty messages": (message(MessageType.AUDIO, b"", 1, 4), b"\xc4", {"chunk_rate_before_publish"}),
}


@pytest.mark.parametrize("reads", [True, False], ids=["reads", "does not read"])
@pytest.mark.parametrize("kind", FLOODS)
def test_flood_is_cut_off_with_one_line_that_names_the_limit(
    server: AttackedServer, memory: int, kind: str, reads: bool
) -> None:
    since = len(server.lines())
    first, piece, limits = FLOODS[kind]
    flood = piece * (MEBIBYTE // len(piece) + 1)
    with connected(server) as stranger:
        stranger.sendall(first)
        assert send_until_cut_off(stranger, flood, 16, reads), f"16 MiB of {kind}, and still connected"
    server.assert_unharmed(since)
    offences = server.offences(since)
    assert offences.total() == 1
    assert set(offences) <= limits, f"{kind} was ended by {offences}"
    server.assert_no_larger(memory)


def test_large_message_in_one_byte_chunks_is_cut_off(server: AttackedServer, memory: int) -> None:
    """Joining it costs little; a client that never ends it is too slow, or sends too many chunks."""
    since = len(server.lines())
    size = control(MessageType.SET_CHUNK_SIZE, b"\x00\x00\x00\x01")
    header = b"\x04\0\0\0\xff\xff\xff\x09\x01\0\0\0x"
    with publishing(server, f"bytes?key={KEY}") as stranger:
        assert send_until_cut_off(stranger, size + header + b"\xc4x" * 500_000, 1, False)
    server.assert_unharmed(since)
    offences = server.offences(since)
    assert offences.total() == 1
    assert set(offences) <= {"chunk_rate", "idle_timeout"}
    server.assert_no_larger(memory)


def test_announced_messages_take_no_memory(server: AttackedServer, memory: int) -> None:
    """Memory is taken for what came, not for what was announced."""
    since = len(server.lines())
    strangers = [publishing(server, f"announced-{number}?key={KEY}") for number in range(20)]
    for stranger in strangers:
        stranger.sendall(b"".join(announced(number, 0xFFFFFF) for number in range(8, 60)))
    server.assert_works()
    server.assert_no_larger(memory)
    for stranger in strangers:
        stranger.close()
    server.assert_unharmed(since)


_CALL = b"\x02\x00\x07connect\x00\x3f\xf0\0\0\0\0\0\0"

_OTHER = b"\x02\x00\x04bomb\x00\x3f\xf0\0\0\0\0\0\0"

#: What is sent before connect, and what the line about it says.
BOMBS = {
    "deep": (_CALL + b"\x03\x00\x01a" * 10_000, "(limit: amf_depth)"),
    "wide": (_CALL + b"\x0a\xff\xff\xff\xff" + b"\x05" * 60_000, "The AMF data is cut short"),
    "long string": (b"\x0c\xff\xff\xff\xff" + b"a" * 60_000, "The AMF data is cut short"),
    "large": (_CALL + b"\x05" * 70_000, "(limit: message_size"),
}

#: What is sent after connect.
LARGE_BOMBS = {
    "many": (_OTHER + b"\x05" * 100_001, "(limit: amf_values)"),
    "references": (
        _OTHER
        + b"\x0a\0\0\0\x02\x05\x05"
        + b"".join(b"\x0a\0\0\0\x02" + (b"\x07" + number.to_bytes(2)) * 2 for number in range(40)),
        "(limit: amf_values)",
    ),
    "deep in AMF3": (_OTHER + b"\x11" + b"\x09\x03\x01" * 10_000, "(limit: amf_depth)"),
}


@pytest.mark.parametrize("kind", [*BOMBS, *LARGE_BOMBS])
def test_amf_bomb_is_cut_off_with_the_reason(server: AttackedServer, memory: int, kind: str) -> None:
    since = len(server.lines())
    payload, reason = {**BOMBS, **LARGE_BOMBS}[kind]
    late = kind in LARGE_BOMBS
    bomb = message(MessageType.COMMAND_AMF0, payload, chunk_size=LARGEST_OUTGOING_CHUNK_SIZE if late else 128)
    with publishing(server, f"bomb?key={KEY}") if late else server.connect() as stranger:
        stranger.sendall(b"" if late else greeting()[:HANDSHAKE])
        assert send_until_cut_off(stranger, bomb, 1, False), kind
    server.assert_unharmed(since)
    assert [reason in line["reason"] for line in server.closings(since)].count(True) == 1
    server.assert_no_larger(memory)


def test_client_that_lies_about_acknowledgements_is_answered_as_before(server: AttackedServer) -> None:
    since = len(server.lines())
    with connected(server) as stranger:
        for number in (0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 3, 0x80000000):
            stranger.sendall(control(MessageType.ACKNOWLEDGEMENT, number.to_bytes(4)))
            stranger.sendall(control(MessageType.WINDOW_ACKNOWLEDGEMENT_SIZE, number.to_bytes(4)))
        stranger.sendall(command("createStream", 2.0, None))
        received = b""
        while b"_result" not in received:
            data = stranger.recv(65536)
            assert data, "the server closed the connection"
            received += data
    server.assert_unharmed(since)


def test_garbage_after_a_publish_ends_it_with_a_reason(server: AttackedServer) -> None:
    since = len(server.lines())
    chance = random.Random(SEED)
    strangers = [publishing(server, f"garbage-{number}?key={KEY}") for number in range(20)]
    for stranger in strangers:
        with suppress(ConnectionError):
            stranger.sendall(chance.randbytes(100_000))
    for stranger in strangers:
        # Some of it looks like the beginning of a long message; then it is waited for as long as for anybody.
        assert is_cut_off(stranger)
        stranger.close()
    server.assert_unharmed(since)
    stopped = [line for line in server.lines()[since:] if line.get("event") == "publish_stopped"]
    guilty = {line["connection"] for line in stopped if line["stream"].startswith("live/garbage-")}
    assert len(guilty) == 20
    reasons = [line["reason"] for line in server.closings(since) if line["connection"] in guilty]
    assert len(reasons) == 20
    assert not [reason for reason in reasons if reason.startswith("the peer")], "each is told what was wrong"


def test_slow_and_idle_connections_keep_nobody_out_and_are_closed(
    server: AttackedServer, memory: int
) -> None:
    """Five hundred who do nothing, and some who do it slowly, keep nobody out, and are sent away."""
    since, files = len(server.lines()), server.files()
    silent = [server.connect() for _ in range(50)]
    shaken = [server.connect() for _ in range(50)]
    for stranger in shaken:
        stranger.sendall(greeting()[:HANDSHAKE])
    idle = [connected(server) for _ in range(500)]
    slow, slower = idle[:30], [server.connect() for _ in range(30)]
    server.assert_works()
    endless = announced(4, 60_000)
    for number in range(len(endless)):
        # A byte at a time, of a handshake, and of a message that never ends.
        for stranger, whole in [*((one, greeting()) for one in slower), *((one, endless) for one in slow)]:
            with suppress(ConnectionError):
                stranger.sendall(whole[number : number + 1])
        if server.files() <= files:
            break
        time.sleep(0.1)
    server.wait_until_alone(files)
    server.assert_unharmed(since)
    for stranger in (*silent, *shaken, *idle, *slower):
        stranger.close()
    expected = {"handshake_timeout": 80, "connect_timeout": 50, "idle_timeout": 500}
    assert server.offences(since) == expected
    server.assert_no_larger(memory)


def test_nothing_is_left_and_no_key_is_shown_afterwards(server: AttackedServer, memory: int) -> None:
    """Everybody has gone, nothing was kept, the figures agree with the log, and no key is anywhere."""
    server.assert_unharmed()
    wait_for(lambda: server.figure("rtmprelay_connections") == 0, "the end of all connections")
    server.assert_no_larger(memory)
    opened = [line for line in server.lines() if line.get("event") == "connection_opened"]
    assert len(opened) == len(server.closings()), "one end for each beginning"
    for limit, count in server.offences().items():
        assert server.figure(f'rtmprelay_limits_exceeded_total{{limit="{limit}"}}') == count
    server.assert_keeps_secrets()
