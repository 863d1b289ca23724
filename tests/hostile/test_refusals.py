"""What refused strangers make the server write: the figures, for many refusals at once."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rtmprelay.amf import amf0
from rtmprelay.wire.messages import MessageType
from tests.helpers import wait_for
from tests.hostile.process import AttackedServer
from tests.hostile.strangers import connected, message

#: Bytes a second and address.
MOST_WRITTEN = 10_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AttackedServer]:
    attacked = AttackedServer(tmp_path, "--event-log", str(tmp_path / "log"))
    attacked.assert_works()
    yield attacked
    attacked.stop()


def written(server: AttackedServer) -> tuple[int, int]:
    """Bytes of the log and of the event log."""
    logs = (server.folder / "log").glob("events_*")
    return server.server.log.stat().st_size, sum(path.stat().st_size for path in logs)


def counted(server: AttackedServer, event: str) -> int:
    """How many refusals the events tell."""
    return sum(1 + line["others"] for line in server.lines() if line.get("event") == event)


def tell_written(what: str, server: AttackedServer, before: tuple[int, int], seconds: float) -> None:
    after = written(server)
    log, events = (new - old for new, old in zip(after, before, strict=True))
    sys.stdout.write(f"\n{what}: {log} bytes of log and {events} of event log, about {seconds:.0f} s\n")
    assert log <= MOST_WRITTEN * seconds
    assert events <= MOST_WRITTEN * seconds


def test_three_hundred_plays_without_a_key_on_one_http_connection_write_two_lines(
    server: AttackedServer,
) -> None:
    before = written(server)
    (port,) = server.ports("HTTP")
    name = "x" * 240
    request = f"GET /live/{name}.flv HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", port), 20) as stranger:
        for _ in range(300):
            stranger.sendall(request)
            assert stranger.recv(65536).startswith(b"HTTP/1.1 401")
    wait_for(lambda: counted(server, "play_refused") == 300, "all refusals in the counts")
    wait_for(lambda: b"play_refused" in server.page("/metrics"), "the metric")
    assert server.figure('rtmprelay_refusals_total{kind="play"}') == 300
    lines = [line for line in server.lines() if line.get("event") == "play_refused"]
    assert len(lines) <= 4
    tell_written("300 refused plays over HTTP", server, before, len(lines))


def test_names_beyond_255_bytes_reach_no_log_over_http(server: AttackedServer) -> None:
    (port,) = server.ports("HTTP")
    before = len(server.lines())
    with socket.create_connection(("127.0.0.1", port), 20) as stranger:
        stranger.sendall(b"GET /live/" + b"y" * 14_000 + b".flv?key=wrong HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = stranger.recv(65536)
    assert b" 404 " in answer
    assert b"at" not in answer.split(b"\r\n")[0]
    assert not [line for line in server.lines()[before:] if "yyyy" in str(line)]


def test_many_connections_that_ask_for_missing_streams_write_kilobytes(server: AttackedServer) -> None:
    before = written(server)
    since = len(server.lines())
    strangers = [connected(server) for _ in range(20)]
    for stranger in strangers:
        # Without a key each is refused; eleven refusals end a connection.
        for number in range(11):
            payload = amf0.encode("play", 0.0, None, "z" * 200 + str(number))
            stranger.sendall(message(MessageType.COMMAND_AMF0, payload, 1, chunk_size=65536))
    wait_for(lambda: len(server.closings(since)) >= 20, "the end of all")
    # Of plays that come in one read the last one counts, so only the server knows how many it refused.
    refused = server.figure('rtmprelay_refusals_total{kind="play"}')
    assert refused >= 20
    wait_for(lambda: counted(server, "play_refused") == refused, "all refusals in the counts")
    tell_written(
        f"{refused:.0f} refused plays on 20 connections, with their beginnings and ends", server, before, 3
    )
    for stranger in strangers:
        stranger.close()
    server.assert_unharmed(since)
