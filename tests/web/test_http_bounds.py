"""Limits for clients: the size, the time and the number of their requests."""

from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred, fail

from rtmprelay.web.settings import HttpSettings
from tests.web.helpers import TOKEN, Client, Response, Web, parse_response

POST = f"POST /destinations HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"


def only_response(client: Client) -> Response:
    """The one response received so far."""
    (response,) = client.responses()
    return response


def assert_closed(web: Web, client: Client) -> None:
    """Check that the server closes a connection that it refused, in time."""
    web.advance(2.5)
    client.lose_if_closed()
    assert client.lost
    assert web.http.site.connections == 0


# -- memory of all together --------------------------------------------------------------------------------------------


def test_bodies_of_all_requests_together_are_bounded_and_forgotten() -> None:
    """Nobody knows yet who may send one: the token is looked at when the request is complete."""
    web = Web()
    web.http.site.most_in_bodies = 100_000
    clients = [Client(web) for _ in range(5)]
    for client in clients:
        client.send(f"{POST}Content-Length: 60000\r\n\r\n".encode() + bytes(30_000))
    assert web.http.site.in_bodies == 90_000
    assert [client.transport.value()[9:12] for client in clients] == [b"", b"", b"", b"503", b"503"]
    clients[0].lose()
    assert web.http.site.in_bodies == 60_000
    clients[1].send(bytes(30_000))
    assert clients[1].transport.value()[9:12] == b"400"
    assert web.http.site.in_bodies == 30_000
    clients[2].lose()
    assert web.http.site.in_bodies == 0


def test_port_for_viewers_reads_no_body() -> None:
    web = Web()
    web.http.site = web.http.media_site
    client = Client(web)
    client.send(f"{POST}Content-Length: 5\r\n\r\n".encode() + b"hello")
    assert only_response(client).error == (413, "body_too_large")
    assert "has a body" in client.transport.value().decode() or web.http.media_site.in_bodies == 0


# -- size --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [65_537, 10**9, 10**30])
def test_too_large_body_is_refused_before_it_arrives(size: int) -> None:
    web = Web()
    client = Client(web)
    client.send(f"{POST}Expect: 100-continue\r\nContent-Length: {size}\r\n\r\n".encode())
    assert only_response(client).error == (413, "body_too_large")
    # If it closed at once, with bytes on their way, a reset would discard the response.
    assert not client.lost
    client.send(bytes(100_000))
    assert client.transport.value() == b""
    assert_closed(web, client)


def test_body_of_the_largest_size_is_read() -> None:
    """It is read, and then refused because it is not JSON."""
    web = Web()
    body = b"x" * 65_536
    assert web.change("POST", "/destinations", body).error == (400, "bad_request")


def test_chunked_body_is_refused_when_it_has_become_too_large() -> None:
    web = Web()
    client = Client(web)
    client.send(f"{POST}Transfer-Encoding: chunked\r\n\r\n".encode())
    for _ in range(4):
        client.send(b"4000\r\n" + bytes(0x4000) + b"\r\n")
        assert client.transport.value() == b""
    client.send(b"4000\r\n" + bytes(0x4000) + b"\r\n")
    assert only_response(client).error == (413, "body_too_large")
    for _ in range(10):
        client.send(b"4000\r\n" + bytes(0x4000) + b"\r\n")
    assert client.transport.value() == b""
    assert_closed(web, client)


def test_body_of_a_get_request_is_ignored_and_bounded() -> None:
    web = Web()
    assert web.request("GET", "/health", b"x" * 1000).status == 200
    client = Client(web)
    client.send(b"GET /health HTTP/1.1\r\nContent-Length: 100000\r\n\r\n")
    assert only_response(client).error == (413, "body_too_large")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nA: b\r\n\r\nGET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"\r\nGET /" + b"a" * 20_000,
        b"a" * 100_000,
    ],
    ids=["path", "second path", "after an empty line", "no line"],
)
def test_too_long_path_is_refused_and_the_connection_closed(request_bytes: bytes) -> None:
    web = Web()
    client = Client(web)
    client.send(request_bytes)
    assert client.responses()[-1].error == (414, "uri_too_long")
    assert_closed(web, client)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /health HTTP/1.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + b"".join(b"X%d: %s\r\n" % (n, b"a" * 200) for n in range(90)) + b"\r\n",
        b"GET /health HTTP/1.1\r\n" + b"".join(b"X%d: a\r\n" % n for n in range(200)) + b"\r\n",
    ],
    ids=["one header", "headers", "count"],
)
def test_too_large_headers_are_refused_and_the_connection_closed(request_bytes: bytes) -> None:
    web = Web()
    client = Client(web)
    client.send(request_bytes)
    assert only_response(client).error == (431, "headers_too_large")
    assert_closed(web, client)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET /health\r\n\r\n",
        b"GET /health HTTP/9.9\r\nA: b\r\n\r\n",
        b"GET /health HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /health HTTP/1.1\r\nContent-Length: minus\r\n\r\n",
        b"GET /health HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"GET /health HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
        b"GET /health HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /health HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
    ],
)
def test_invalid_http_is_refused_in_json_and_the_connection_closed(request_bytes: bytes) -> None:
    web = Web()
    client = Client(web)
    client.send(request_bytes)
    assert only_response(client).error == (400, "bad_request")
    client.send(b"GET /health HTTP/1.1\r\n\r\n")
    assert client.transport.value() == b""
    assert_closed(web, client)


# -- time --------------------------------------------------------------------------------------------------------------


def test_headers_that_arrive_too_slowly_time_out() -> None:
    web = Web()
    client = Client(web)
    for _ in range(9):
        client.send(b"G")
        web.advance(1)
        assert client.transport.value() == b""
    web.advance(1.1)
    assert only_response(client).error == (408, "request_timeout")
    assert_closed(web, client)


def test_body_that_arrives_too_slowly_times_out() -> None:
    web = Web()
    client = Client(web)
    client.send(f"{POST}Content-Length: 1000\r\n\r\n".encode())
    for _ in range(9):
        client.send(b" ")
        web.advance(1)
    web.advance(1.1)
    assert only_response(client).error == (408, "request_timeout")
    assert_closed(web, client)


def test_idle_connection_is_closed_before_and_after_a_request() -> None:
    web = Web()
    silent, polite = Client(web), Client(web)
    polite.send(b"GET /health HTTP/1.1\r\n\r\n")
    assert only_response(polite).status == 200
    for at, client in ((9, silent), (74, polite)):
        web.advance(at - web.clock.seconds(), step=1)
        client.lose_if_closed()
        open_before = not client.lost
        web.advance(5, step=1)
        client.lose_if_closed()
        assert (open_before, client.lost) == (True, True)
        assert client.transport.value() == b""
    assert web.http.site.connections == 0


def test_connection_is_cut_when_its_response_stays_unread() -> None:
    web = Web()
    client = Client(web)
    client.transport.stalled = True
    for _ in range(200):
        client.send(b"GET /metrics HTTP/1.1\r\n\r\n")
    assert len(client.transport.value()) < 100_000
    web.advance(80, step=1)
    assert client.transport.aborted


# -- number ------------------------------------------------------------------------------------------------------------


def test_pipelined_requests_are_answered_in_order() -> None:
    web = Web()
    client = Client(web)
    client.send(b"GET /health HTTP/1.1\r\n\r\nGET /nothing HTTP/1.1\r\n\r\n" * 20)
    assert [response.status for response in client.responses()] == [200, 404] * 20


def test_pipelined_requests_wait_until_the_client_reads() -> None:
    web = Web()
    client = Client(web)
    client.transport.stalled = True
    client.send(b"GET /metrics HTTP/1.1\r\n\r\n" * 500)
    size = len(client.transport.value())
    assert size < 100_000
    count = 0
    while data := client.transport.read_all():
        web.clock.advance(0)
        while data:
            response, data = parse_response(data)
            assert response.status == 200
            count += 1
    assert count == 500


def test_connection_over_the_limit_is_refused_until_another_closes() -> None:
    web = Web(HttpSettings(max_http_connections=3))
    clients = [Client(web) for _ in range(3)]
    late = Client(web)
    assert late.transport.value() == b""
    late.send(b"GET /health HTTP/1.1\r\n")
    late.send(b"Host: relay\r\n\r\n")
    assert parse_response(late.transport.value())[0].error == (503, "too_many_clients")
    assert late.lost
    clients[0].lose()
    assert web.get("/health").status == 200


def test_refused_connections_are_bounded_and_cut_when_silent() -> None:
    web = Web(HttpSettings(max_http_connections=1))
    Client(web)
    late = [Client(web) for _ in range(100)]
    assert sum(client.transport.aborted for client in late) == 36
    web.advance(1.5)
    assert all(client.transport.aborted for client in late)


def test_waiting_request_is_dropped_with_its_connection() -> None:
    web = Web()
    web.http.site.scheduler._waiting.append(lambda: None)
    client = Client(web)
    client.protocol.dataReceived(b"GET /health HTTP/1.1\r\n\r\n")
    assert client.transport.value() == b""
    client.lose()
    web.clock.advance(0)
    assert client.transport.value() == b""
    assert web.http.site.connections == 0


def test_no_error_is_html_or_names_twisted() -> None:
    web = Web()
    for method, path in (("GET", "/x"), ("PUT", "/health"), ("BREW", "/"), ("GET", "/%00")):
        got = web.request(method, path)
        assert b"html" not in got.body.lower()
        assert "Twisted" not in got.headers["server"]


@pytest.mark.parametrize("later", [False, True])
def test_bug_is_a_500_in_json_that_quotes_nothing_of_the_request(later: bool) -> None:
    web = Web()

    def broken() -> Deferred[bytes]:
        if later:
            return fail(RuntimeError("a secret thing"))
        raise RuntimeError("a secret thing")

    web.http._status.health = broken  # type: ignore[method-assign]
    got = web.get("/health?key=secret")
    assert got.error == (500, "internal_error")
    assert b"secret" not in got.body
