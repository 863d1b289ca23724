"""Posting to a real HTTP server: what is sent, and how bad responses fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from twisted.internet.defer import CancelledError, TimeoutError
from twisted.python.failure import Failure

from rtmprelay.errors import ConfigError
from rtmprelay.http_client.poster import HttpPoster, describe_failure, read_address
from tests.access.log_keeping import kept_log
from tests.certificates import self_signed
from tests.helpers import real_reactor_fixture, real_reactor_test, the_reactor, until
from tests.http_client.helpers import RawHttpServer, plain


@real_reactor_fixture
async def server() -> AsyncIterator[RawHttpServer]:
    """A server whose answers the test chooses."""
    server = RawHttpServer().listen()
    yield server
    await server.stop()


def poster_for(argument: str) -> HttpPoster:
    address, _ = read_address(argument)
    return HttpPoster(the_reactor(), address)


async def failure_of(poster: HttpPoster, timeout: float = 10.0) -> Failure:
    """Why a post fails."""
    try:
        status = await poster.post(b"{}").addTimeout(timeout, the_reactor())
    except Exception:
        return Failure()
    raise AssertionError(f"it was answered with {status}")


@real_reactor_test
async def test_post_has_the_path_body_token_and_user_agent(server: RawHttpServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("the-token")
    poster = poster_for(server.url(f"/a/b?c=d#token-file={tmp_path}/token"))
    assert await poster.post(b'{"a":1}') == 204
    ((head, body),) = server.requests
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /a/b?c=d HTTP/1.1"
    assert body == b'{"a":1}'
    assert b"Content-Type: application/json" in lines
    assert b"Authorization: Bearer the-token" in lines
    assert any(line.startswith(b"User-Agent: rtmprelay/") for line in lines)
    await poster.close()


@real_reactor_test
async def test_connection_is_reused_and_closed_at_the_end(server: RawHttpServer) -> None:
    server.otherwise = plain(200, b"some body")
    poster = poster_for(server.url())
    for _ in range(5):
        assert await poster.post(b"{}") == 200
    assert server.connections == 1
    await poster.close()
    await until(lambda: not server.open_connections, "the connection's end")


@pytest.mark.parametrize("status", [200, 204, 302, 400, 403, 500])
@real_reactor_test
async def test_post_returns_the_status_and_follows_no_redirect(server: RawHttpServer, status: int) -> None:
    server.otherwise = plain(status, b"", b"Location: http://127.0.0.1:9/")
    poster = poster_for(server.url())
    assert await poster.post(b"{}") == status
    assert len(server.requests) == 1
    await poster.close()


@real_reactor_test
async def test_endless_body_of_a_response_is_not_read(server: RawHttpServer) -> None:
    endless = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + bytes(200_000)
    server.otherwise = endless
    poster = poster_for(server.url())
    assert await poster.post(b"{}") == 200
    await until(lambda: not server.open_connections, "the connection's end")
    await poster.close()


@real_reactor_test
async def test_response_that_stops_in_the_middle_times_out(server: RawHttpServer) -> None:
    server.otherwise = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab"
    poster = poster_for(server.url())
    failure = await failure_of(poster, 0.3)
    assert failure.check(TimeoutError)
    await until(lambda: not server.open_connections, "the connection's end")


@real_reactor_test
async def test_endless_headers_of_a_response_time_out(server: RawHttpServer) -> None:
    server.otherwise = b"HTTP/1.1 200 OK\r\n" + b"X-Y: z\r\n" * 100_000
    poster = poster_for(server.url())
    assert (await failure_of(poster, 1.0)).check(TimeoutError)
    await until(lambda: not server.open_connections, "the connection's end")


@real_reactor_test
async def test_missing_response_times_out(server: RawHttpServer) -> None:
    server.otherwise = None
    poster = poster_for(server.url())
    assert (await failure_of(poster, 0.3)).check(TimeoutError)
    await until(lambda: not server.open_connections, "the connection's end")


@real_reactor_test
async def test_cancelled_post_fails_with_cancelled_error(server: RawHttpServer) -> None:
    server.otherwise = None
    posting = poster_for(server.url()).post(b"{}")
    await until(lambda: server.requests, "the request")
    posting.cancel()
    with pytest.raises(CancelledError):
        await posting


@pytest.mark.parametrize("answer", [b"close", b"garbage\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"])
@real_reactor_test
async def test_invalid_response_is_described_without_the_query(server: RawHttpServer, answer: bytes) -> None:
    server.otherwise = answer
    failure = await failure_of(poster_for(server.url("/check?secret=MARKED")))
    described = describe_failure(failure)
    assert described
    assert "MARKED" not in described
    assert len(described) < 300


@real_reactor_test
async def test_refused_connection_is_described(server: RawHttpServer) -> None:
    url = server.url()
    await server._port.stopListening()
    failure = await failure_of(poster_for(url))
    assert "Connection was refused" in describe_failure(failure)
    server._port = the_reactor().listenTCP(0, server, interface="127.0.0.1")


# -- TLS -----------------------------------------------------------------------------------------------------------


@real_reactor_test
async def test_certificate_is_verified_against_the_given_ca(tmp_path: Path) -> None:
    private, signed = self_signed("127.0.0.1")
    (tmp_path / "ca.pem").write_bytes(signed)
    server = RawHttpServer().listen((private, signed))
    trusting = poster_for(server.url(f"/#ca-file={tmp_path}/ca.pem"))
    assert await trusting.post(b"{}") == 204
    failure = await failure_of(poster_for(server.url()))
    assert "certificate verify failed" in describe_failure(failure)
    assert len(server.requests) == 1
    await trusting.close()
    await server.stop()


@real_reactor_test
async def test_certificate_for_another_host_is_refused(tmp_path: Path) -> None:
    private, signed = self_signed("198.51.100.7")
    (tmp_path / "ca.pem").write_bytes(signed)
    server = RawHttpServer().listen((private, signed))
    await failure_of(poster_for(server.url(f"/#ca-file={tmp_path}/ca.pem")))
    assert server.requests == []
    await server.stop()


def test_unreadable_ca_file_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"'/nowhere\.pem' cannot be read"):
        poster_for("https://host/#ca-file=/nowhere.pem")


@real_reactor_test
async def test_post_logs_nothing(server: RawHttpServer) -> None:
    """Twisted would log each connection with the address of the server."""
    with kept_log() as log:
        poster = poster_for(server.url("/check?secret=MARKED"))
        await poster.post(b"{}")
        await poster.close()
        await until(lambda: not server.open_connections, "the connection's end")
    assert log.lines == []
