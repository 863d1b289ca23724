"""The handshake: one side against the other in memory, and against packets made by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.errors import RemoteProtocolError
from rtmprelay.wire.handshake import ClientHandshake, ServerHandshake
from tests.wire.handshake_packets import (
    BLOCKS,
    KEY_TAIL,
    PACKET_SIZE,
    PLAYER_KEY,
    SERVER_KEY,
    TAIL,
    client_stream,
    digest_start,
    new_client,
    new_server,
    seeded,
    server_answer,
    server_stream,
    sha,
    signed_digest,
    signed_packet,
    tampered,
)

# -- both sides ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use_digest", [False, True])
def test_client_and_server_complete_in_the_form_that_the_client_chose(use_digest: bool) -> None:
    client, server = new_client(use_digest), new_server()
    server.feed(client.bytes_to_send())
    client.feed(server.bytes_to_send())
    assert (client.done, server.done) == (True, False)
    server.feed(client.bytes_to_send())
    assert server.done
    assert client.digest == server.digest == use_digest
    assert client.leftover == server.leftover == b""
    assert client.bytes_to_send() == server.bytes_to_send() == b""


def test_packets_are_random_by_default() -> None:
    assert ClientHandshake().bytes_to_send() != ClientHandshake().bytes_to_send()
    answers = set()
    for _ in range(2):
        server = ServerHandshake()
        server.feed(b"\x03" + bytes(PACKET_SIZE))
        answers.add(server.bytes_to_send())
    assert len(answers) == 2


@pytest.mark.parametrize("use_digest", [False, True])
def test_server_gives_the_same_answer_wherever_the_bytes_are_split(use_digest: bool) -> None:
    stream = client_stream(use_digest)
    answer = server_stream(use_digest)[: -len(TAIL)]
    for cut in range(len(stream) + 1):
        server = new_server()
        server.feed(stream[:cut])
        assert server.done == (cut >= 1 + 2 * PACKET_SIZE)
        sent = server.bytes_to_send()
        assert sent == (answer if cut >= 1 + PACKET_SIZE else b"")
        server.feed(stream[cut:])
        assert sent + server.bytes_to_send() == answer
        assert server.done
        assert server.digest == use_digest
        assert server.leftover == TAIL


@pytest.mark.parametrize("use_digest", [False, True])
def test_client_gives_the_same_answer_wherever_the_bytes_are_split(use_digest: bool) -> None:
    stream = server_stream(use_digest)
    sent = client_stream(use_digest)[: -len(TAIL)]
    for cut in range(len(stream) + 1):
        client = new_client(use_digest)
        client.feed(stream[:cut])
        assert client.done == (cut >= 1 + 2 * PACKET_SIZE)
        client.feed(stream[cut:])
        assert client.bytes_to_send() == sent
        assert client.done
        assert client.digest == use_digest
        assert client.leftover == TAIL


@pytest.mark.parametrize("use_digest", [False, True])
def test_handshake_completes_when_bytes_arrive_one_by_one(use_digest: bool) -> None:
    client, server = new_client(use_digest), new_server()
    for byte in client_stream(use_digest):
        server.feed(bytes([byte]))
    for byte in server_stream(use_digest):
        client.feed(bytes([byte]))
    assert server.done
    assert client.done
    assert server.leftover == client.leftover == TAIL


def test_leftover_is_empty_until_the_handshake_is_done() -> None:
    server = new_server()
    server.feed(client_stream(False)[:3072])
    assert server.leftover == b""


def test_bytes_after_the_handshake_are_added_to_leftover() -> None:
    server = new_server()
    server.feed(client_stream(True))
    server.feed(b"more")
    assert server.leftover == TAIL + b"more"


def test_feeding_no_bytes_changes_nothing() -> None:
    server = new_server()
    server.feed(b"")
    assert not server.done
    assert server.bytes_to_send() == b""


# -- the server ----------------------------------------------------------------------------------------------


def test_server_echoes_a_c1_of_zeros() -> None:
    server, s1, s2 = server_answer(bytes(PACKET_SIZE))
    assert s1[:8] == bytes(8)
    assert s1[8:] == seeded(1)(1528)
    assert s2 == bytes(PACKET_SIZE)
    assert not server.digest


def test_simple_s2_echoes_the_time_and_the_random_part_of_c1() -> None:
    filler = seeded(5)(1528)
    _, _, s2 = server_answer(b"\x01\x02\x03\x04" + bytes(4) + filler)
    assert s2 == b"\x01\x02\x03\x04" + bytes(4) + filler


@pytest.mark.parametrize("block", BLOCKS)
# The smallest and the largest place, the wrap at 728, and a place that the filler decides.
@pytest.mark.parametrize("selector", [bytes(4), b"\xff\xff\xd9\x00", b"\xff\xff\xda\x00", None])
def test_server_proves_that_it_found_the_digest_in_either_schema(block: int, selector: bytes | None) -> None:
    c1 = signed_packet(block, PLAYER_KEY, selector=selector)
    server, s1, s2 = server_answer(c1)
    assert server.digest
    # Common players look for a digest in S1 only if this byte is 3 or more.
    assert s1[4] >= 3
    signed_digest(s1, block, SERVER_KEY)
    # S2 proves that the server knows the digest of C1.
    c1_digest = signed_digest(c1, block, PLAYER_KEY)
    assert s2[1504:] == sha(sha(SERVER_KEY + KEY_TAIL, c1_digest), s2[:1504])


@pytest.mark.parametrize("block", BLOCKS)
def test_c1_with_a_wrong_digest_is_answered_in_the_simple_form(block: int) -> None:
    c1 = tampered(signed_packet(block, PLAYER_KEY), 1535)
    server, s1, s2 = server_answer(c1)
    assert not server.digest
    assert s1[:8] == bytes(8)
    assert s2[:4] == c1[:4]
    assert s2[8:] == c1[8:]


def test_c1_with_a_digest_by_the_wrong_key_is_answered_in_the_simple_form() -> None:
    server, _, _ = server_answer(signed_packet(8, SERVER_KEY))
    assert not server.digest


def test_c1_with_version_zero_is_answered_in_the_simple_form_even_with_a_digest() -> None:
    packet = bytearray(signed_packet(8, PLAYER_KEY))
    packet[4:8] = bytes(4)
    start = digest_start(packet, 8)
    packet[start : start + 32] = sha(PLAYER_KEY, packet[:start], packet[start + 32 :])
    server, s1, _ = server_answer(bytes(packet))
    assert not server.digest
    assert s1[4:8] == bytes(4)


def test_server_accepts_any_c2() -> None:
    server, _, _ = server_answer(signed_packet(8, PLAYER_KEY))
    server.feed(b"\xee" * PACKET_SIZE)
    assert server.done


def test_server_sends_nothing_before_c1_is_complete() -> None:
    server = new_server()
    server.feed(b"\x03" + bytes(PACKET_SIZE - 1))
    assert server.bytes_to_send() == b""
    server.feed(b"\x00")
    assert len(server.bytes_to_send()) == 3073
    assert server.bytes_to_send() == b""


# -- the client ----------------------------------------------------------------------------------------------


def test_c1_contains_a_digest_and_a_version() -> None:
    sent = new_client().bytes_to_send()
    assert sent[0] == 3
    c1 = sent[1:]
    assert len(c1) == PACKET_SIZE
    assert c1[4:8] == b"\x80\x00\x07\x02"
    signed_digest(c1, 8, PLAYER_KEY)


def test_simple_c1_contains_zeros_and_random_bytes() -> None:
    sent = new_client(use_digest=False).bytes_to_send()
    assert sent == b"\x03" + bytes(8) + seeded(2)(1528)


@pytest.mark.parametrize("block", BLOCKS)
def test_c2_proves_that_the_client_found_the_digest_of_s1(block: int) -> None:
    client = new_client()
    client.bytes_to_send()
    s1 = signed_packet(block, SERVER_KEY)
    client.feed(b"\x03" + s1)
    c2 = client.bytes_to_send()
    assert client.digest
    s1_digest = signed_digest(s1, block, SERVER_KEY)
    assert len(c2) == PACKET_SIZE
    assert c2[1504:] == sha(sha(PLAYER_KEY + KEY_TAIL, s1_digest), c2[:1504])


@pytest.mark.parametrize("block", BLOCKS)
def test_client_falls_back_to_the_simple_form_when_the_digest_of_s1_is_wrong(block: int) -> None:
    good = signed_packet(block, SERVER_KEY)
    s1 = tampered(good, digest_start(good, block))
    client = new_client()
    c1 = client.bytes_to_send()[1:]
    client.feed(b"\x03" + s1 + c1)
    assert client.bytes_to_send() == s1
    assert client.done
    assert not client.digest


@pytest.mark.parametrize("use_digest", [False, True])
@pytest.mark.parametrize("right_echo", [False, True])
def test_client_completes_with_a_simple_server_whatever_it_echoes(use_digest: bool, right_echo: bool) -> None:
    client = new_client(use_digest)
    c1 = client.bytes_to_send()[1:]
    s1 = bytes(8) + seeded(9)(1528)
    # The second time is the server's own, so it takes no part in the comparison.
    s2 = c1[:4] + b"\x00\x00\x00\x07" + c1[8:] if right_echo else b"\xee" * PACKET_SIZE
    client.feed(b"\x03" + s1 + s2 + TAIL)
    assert client.bytes_to_send() == s1
    assert client.done
    assert not client.digest
    assert client.leftover == TAIL


def test_client_without_digest_ignores_a_digest_in_s1() -> None:
    client = new_client(use_digest=False)
    c1 = client.bytes_to_send()[1:]
    s1 = signed_packet(772, SERVER_KEY)
    client.feed(b"\x03" + s1 + c1)
    assert client.bytes_to_send() == s1
    assert client.done
    assert not client.digest


def test_client_accepts_a_wrong_s2_in_the_digest_form() -> None:
    stream = server_stream(True)[: -len(TAIL)]
    client = new_client()
    client.feed(tampered(stream, len(stream) - 1))
    assert client.done
    assert client.digest


def test_client_sends_c2_as_soon_as_s1_is_complete() -> None:
    client = new_client()
    client.bytes_to_send()
    client.feed(server_stream(True)[: 1 + PACKET_SIZE])
    assert len(client.bytes_to_send()) == PACKET_SIZE
    assert not client.done


# -- versions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [new_server, new_client])
@pytest.mark.parametrize(
    ("first", "said"),
    [
        (0, "check that the other side speaks RTMP"),
        (2, "check that the other side speaks RTMP"),
        (4, "check that the other side speaks RTMP"),
        (6, "RTMPE"),
        (8, "RTMPE"),
        (9, "RTMPE"),
        (0x15, "TLS alert"),
        (0x16, "TLS hello on a plain RTMP port"),
        (ord("G"), "HTTP"),
        (ord("P"), "HTTP"),
        (ord("h"), "HTTP"),
        (ord("@"), "check that the other side speaks RTMP"),
        (0xAA, "check that the other side speaks RTMP"),
        (0xE9, "check that the other side speaks RTMP"),
        (0xFF, "check that the other side speaks RTMP"),
    ],
)
def test_another_version_is_refused_with_a_hint(
    make: Callable[[], ServerHandshake | ClientHandshake], first: int, said: str
) -> None:
    handshake = make()
    with pytest.raises(RemoteProtocolError, match=said) as caught:
        handshake.feed(bytes([first]))
    assert f"version {first} is not supported" in str(caught.value)
    assert f"0x{first:02x}" in str(caught.value)


def test_handshake_refuses_everything_after_a_wrong_version() -> None:
    server = new_server()
    for data in (b"GET / HTTP/1.1\r\n", b"\x03" + bytes(2 * PACKET_SIZE), b""):
        with pytest.raises(RemoteProtocolError, match="version 71 "):
            server.feed(data)
    assert not server.done
    assert server.bytes_to_send() == b""


def test_every_version_except_3_is_refused() -> None:
    for first in itertools.chain(range(3), range(4, 256)):
        server = new_server()
        with pytest.raises(RemoteProtocolError):
            server.feed(bytes([first]) + bytes(PACKET_SIZE))


# -- any bytes -----------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=64)), st.booleans())
def test_bytes_that_begin_with_version_3_raise_no_error(pieces: list[bytes], for_server: bool) -> None:
    handshake = new_server() if for_server else new_client()
    try:
        for piece in pieces:
            handshake.feed(piece)
    except RemoteProtocolError:
        assert not b"".join(pieces).startswith(b"\x03")


@given(
    seed=st.integers(min_value=0, max_value=2**32),
    head=st.binary(min_size=8, max_size=16),
    cuts=st.lists(st.integers(min_value=0, max_value=4000), max_size=6),
    rest=st.binary(max_size=40),
    for_server=st.booleans(),
)
def test_any_two_packets_complete_the_handshake(
    seed: int, head: bytes, cuts: list[int], rest: bytes, for_server: bool
) -> None:
    packets = (head + seeded(seed)(2 * PACKET_SIZE))[: 2 * PACKET_SIZE]
    stream = b"\x03" + packets + rest
    handshake = new_server() if for_server else new_client()
    for start, end in itertools.pairwise([0, *sorted(cuts), max([len(stream), *cuts])]):
        handshake.feed(stream[start:end])
    assert handshake.done
    assert not handshake.digest
    assert handshake.leftover == rest
