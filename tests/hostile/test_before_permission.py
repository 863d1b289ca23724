"""What many strangers together cost before any of them may publish: the figures of the limits, all connected at once."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rtmprelay.wire.messages import MessageType
from tests.helpers import wait_for
from tests.hostile.conversations import HANDSHAKE, greeting
from tests.hostile.process import MEBIBYTE, PATIENT, AttackedServer
from tests.hostile.strangers import announced, command, control, message

#: What refused and undecided clients may add in all, however many they are.
MOST_OF_ALL = 64 * MEBIBYTE

#: What one of them may add: 256 KiB in assembly, and what Python takes for a connection.
MOST_OF_ONE = 256 * 1024

_CHUNK = 65536 - 1

#: The largest chunks, and the halves of four messages that are as large as they may be.
HALVES = control(MessageType.SET_CHUNK_SIZE, _CHUNK.to_bytes(4)) + b"".join(
    announced(number, 65536, _CHUNK) for number in range(8, 11)
)


def tell(figures: str) -> None:
    """Print figures: `pytest -s` shows them."""
    sys.stdout.write(f"\n{figures}\n")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedServer]:
    attacked = AttackedServer(tmp_path_factory.mktemp("attacked"), "--limit", "message_timeout=1")
    yield attacked
    attacked.stop()


def connected_at_once(server: AttackedServer, count: int) -> list[socket.socket]:
    """Strangers whose handshake and connect are over, without waiting for one after the other."""
    since = len(server.lines())
    strangers = [server.connect() for _ in range(count)]
    for stranger in strangers:
        stranger.sendall(greeting())
    wait_for(
        lambda: sum(line.get("event") == "connect" for line in server.lines()[since:]) >= count,
        "all connects",
        120,
    )
    return strangers


def cpu_seconds(server: AttackedServer) -> float:
    """Processor time that the server has used."""
    fields = Path(f"/proc/{server.server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    "count", [220, pytest.param(2_000, marks=pytest.mark.full)], ids=["some", "very many"]
)
def test_half_messages_of_many_strangers_stay_under_64_mib(count: int, tmp_path: Path) -> None:
    server = AttackedServer(tmp_path, *PATIENT)
    try:
        server.assert_works()
        first = connected_at_once(server, 1)
        before = server.memory()
        for stranger in first:
            stranger.sendall(HALVES)
        server.assert_works()
        one = server.memory() - before
        strangers = connected_at_once(server, count)
        idle = server.memory()
        for stranger in strangers:
            with suppress(OSError):
                stranger.sendall(HALVES)
        server.assert_works()
        added = server.most_memory() - idle
        tell(
            f"one stranger {one / 1024:.0f} KiB; {count}: {added / MEBIBYTE:.1f} MiB above {count} idle ones"
        )
        tell(f"an idle stranger: {(idle - before) / 1024 / (count + 1):.1f} KiB")
        assert one <= 2 * MOST_OF_ONE
        assert added <= MOST_OF_ALL
        limits = server.offences()
        assert set(limits) <= {"memory_before_publish"}
        assert limits.total() > 0
        for stranger in (*first, *strangers):
            stranger.close()
        wait_for(lambda: server.figure("rtmprelay_connections") == 0, "the end of all connections")
        # What thousands of connections had in small blocks is kept for reuse: a leak shows with a few of them.
        tell(f"{(server.memory() - before) / MEBIBYTE:.1f} MiB more than before when all have gone")
        if count < 1_000:
            server.assert_no_larger(before)
    finally:
        server.stop()


def test_keys_and_tokens_of_many_strangers_stay_under_64_mib(tmp_path: Path) -> None:
    """What they bring along is kept while nobody has decided about them; the longest that is taken is 4 KiB."""
    server = AttackedServer(tmp_path, *PATIENT, "--limit", "memory_before_publish=1M")
    try:
        server.assert_works()
        too_long = server.connect()
        too_long.sendall(greeting()[:HANDSHAKE] + connect_with(60_000))
        wait_for(lambda: server.offences()["credentials_size"] == 1, "the limit of one")
        idle = connected_at_once(server, 300)
        before = server.memory()
        strangers = [server.connect() for _ in range(300)]
        for stranger in strangers:
            stranger.sendall(greeting()[:HANDSHAKE] + connect_with(4000))
        wait_for(lambda: server.offences().total() > 0, "the bound on all of them together")
        server.assert_works()
        added = server.most_memory() - before
        limits = server.offences()
        tell(
            f"300 strangers with keys of 4,000 bytes: {added / MEBIBYTE:.1f} MiB, {limits.total()} were cut off"
        )
        assert set(limits) == {"memory_before_publish", "credentials_size"}
        assert limits["memory_before_publish"] >= 30
        assert added <= MOST_OF_ALL
        for stranger in (*idle, *strangers, too_long):
            stranger.close()
    finally:
        server.stop()


def connect_with(size: int) -> bytes:
    """A `connect` with so many bytes of credentials."""
    properties = {"app": "live?key=" + "k" * size, "tcUrl": "rtmp://127.0.0.1/live"}
    return command("connect", 1.0, properties)


def small_messages_beside_a_half(stranger: socket.socket) -> None:
    """What kept half messages alive before: pings, while nothing gets complete."""
    stranger.sendall(HALVES)
    ping = control(MessageType.USER_CONTROL, b"\x00\x06\x00\x00\x00\x01")
    wait_for(lambda: is_closed_after(stranger, ping), "the deadline of the half message")


def is_closed_after(stranger: socket.socket, data: bytes) -> bool:
    stranger.settimeout(0.5)
    try:
        stranger.sendall(data)
        return not stranger.recv(65536)
    except TimeoutError:
        return False
    except OSError:
        return True


def test_deadline_of_a_half_message_is_not_pushed_back(server: AttackedServer) -> None:
    since = len(server.lines())
    (stranger,) = connected_at_once(server, 1)
    small_messages_beside_a_half(stranger)
    wait_for(lambda: server.offences(since) == {"message_timeout": 1}, "the reason")
    server.assert_unharmed(since)


_VALUES = b"\x02\x00\x04bomb\x00\x3f\xf0\0\0\0\0\0\0"

#: Floods that cost most for what they send, and the limit that ends each.
COSTLY: dict[str, tuple[Callable[[], bytes], str]] = {
    "values": (
        lambda: message(MessageType.COMMAND_AMF0, _VALUES + b"\x03\0\0\x09" * 990, chunk_size=65536) * 30,
        "amf_value_rate_before_publish",
    ),
    "values in one command": (
        lambda: message(MessageType.COMMAND_AMF0, _VALUES + b"\x03\0\0\x09" * 16_000, chunk_size=65536),
        "amf_values_before_publish",
    ),
    "commands": (
        lambda: command("_checkbw", 2.0, None) * 300,
        "command_rate",
    ),
    "pings": (
        lambda: control(MessageType.USER_CONTROL, b"\x00\x06\x00\x00\x00\x01") * 8_000,
        "chunk_rate_before_publish",
    ),
    "aggregates": (
        lambda: message(MessageType.AGGREGATE, b"\x08" + bytes(14), 1, 4, 65536) * 8_000,
        "chunk_rate_before_publish",
    ),
}


@pytest.mark.parametrize("kind", COSTLY)
def test_stranger_that_costs_processor_time_is_cut_off_by_a_limit(kind: str, server: AttackedServer) -> None:
    """Ten strangers at once; their processor time is printed, and each is ended by the limit for what it does."""
    make, limit = COSTLY[kind]
    since = len(server.lines())
    strangers = connected_at_once(server, 10)
    for stranger in strangers:
        stranger.sendall(control(MessageType.SET_CHUNK_SIZE, (65536).to_bytes(4)))
    before = cpu_seconds(server)
    flood = make()
    for stranger in strangers:
        with suppress(OSError):
            stranger.sendall(flood)
    wait_for(lambda: server.offences(since)[limit] == 10, f"ten times {limit}")
    each = (cpu_seconds(server) - before) * 100
    tell(f"{kind}: {each:.0f} ms of processor time for each, and then it is cut off")
    for stranger in strangers:
        stranger.close()
    server.assert_unharmed(since)
