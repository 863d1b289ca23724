"""What a client may cost: size, time, and number of everything it sends."""

from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred, fail

from rtmprelay.web.settings import HttpSettings
from tests.web.helpers import TOKEN, Client, Response, Web, parse_response

POST = f"POST /destinations HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"


def answered(client: Client) -> Response:
    """The one answer that has come."""
    (response,) = client.responses()
    return response


def let_go(web: Web, client: Client) -> None:
    """The server closes a connection that it refused, within its time."""
    web.advance(2.5)
    client.close_if_told()
    assert client.lost
    assert web.http.site.connections == 0


# -- size --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [65_537, 10**9, 10**30])
def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(size: int) -> None:
    """Not a byte of it is waited for, nor asked for."""
    web = Web()
    client = Client(web)
    client.send(f"{POST}Expect: 100-continue\r\nContent-Length: {size}\r\n\r\n".encode())
    assert answered(client).error == (413, "body_too_large")
    # Closed at once, with bytes on their way, the answer would be lost to a reset.
    assert not client.lost
    client.send(bytes(100_000))
    assert client.transport.value() == b""
    let_go(web, client)


def test_a_body_that_is_as_large_as_allowed_is_read() -> None:
    """And then it is not JSON."""
    web = Web()
    body = b"x" * 65_536
    assert web.change("POST", "/destinations", body).error == (400, "bad_request")


def test_a_body_in_chunks_is_counted() -> None:
    """Its size is told by nobody: it is refused when it has become too large, and forgotten."""
    web = Web()
    client = Client(web)
    client.send(f"{POST}Transfer-Encoding: chunked\r\n\r\n".encode())
    for _ in range(4):
        client.send(b"4000\r\n" + bytes(0x4000) + b"\r\n")
        assert client.transport.value() == b""
    client.send(b"4000\r\n" + bytes(0x4000) + b"\r\n")
    assert answered(client).error == (413, "body_too_large")
    for _ in range(10):
        client.send(b"4000\r\n" + bytes(0x4000) + b"\r\n")
    assert client.transport.value() == b""
    let_go(web, client)


def test_a_body_where_none_is_needed_is_bounded_too() -> None:
    """GET may have one, by the rules of HTTP; nobody reads it."""
    web = Web()
    assert web.request("GET", "/health", b"x" * 1000).status == 200
    client = Client(web)
    client.send(b"GET /health HTTP/1.1\r\nContent-Length: 100000\r\n\r\n")
    assert answered(client).error == (413, "body_too_large")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nA: b\r\n\r\nGET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"\r\nGET /" + b"a" * 20_000,
        b"a" * 100_000,
    ],
    ids=["path", "second path", "behind an empty line", "no line"],
)
def test_a_path_that_is_too_long(request_bytes: bytes) -> None:
    """One answer says so, and one end."""
    web = Web()
    client = Client(web)
    client.send(request_bytes)
    assert client.responses()[-1].error == (414, "uri_too_long")
    let_go(web, client)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /health HTTP/1.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + b"".join(b"X%d: %s\r\n" % (n, b"a" * 200) for n in range(90)) + b"\r\n",
        b"GET /health HTTP/1.1\r\n" + b"".join(b"X%d: a\r\n" % n for n in range(200)) + b"\r\n",
    ],
    ids=["one header", "headers", "count"],
)
def test_headers_that_are_too_large(request_bytes: bytes) -> None:
    """One answer, one end."""
    web = Web()
    client = Client(web)
    client.send(request_bytes)
    assert answered(client).error == (431, "headers_too_large")
    let_go(web, client)


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
def test_what_is_not_http(request_bytes: bytes) -> None:
    """A clear answer in JSON, nothing of Twisted's."""
    web = Web()
    client = Client(web)
    client.send(request_bytes)
    assert answered(client).error == (400, "bad_request")
    client.send(b"GET /health HTTP/1.1\r\n\r\n")
    assert client.transport.value() == b""
    let_go(web, client)


# -- time --------------------------------------------------------------------------------------------------------------


def test_headers_that_come_slowly() -> None:
    """A byte now and then does not keep a connection."""
    web = Web()
    client = Client(web)
    for _ in range(9):
        client.send(b"G")
        web.advance(1)
        assert client.transport.value() == b""
    web.advance(1.1)
    assert answered(client).error == (408, "request_timeout")
    let_go(web, client)


def test_a_body_that_comes_slowly() -> None:
    """The same for its body, however large it may be."""
    web = Web()
    client = Client(web)
    client.send(f"{POST}Content-Length: 1000\r\n\r\n".encode())
    for _ in range(9):
        client.send(b" ")
        web.advance(1)
    web.advance(1.1)
    assert answered(client).error == (408, "request_timeout")
    let_go(web, client)


def test_a_connection_that_says_nothing_is_closed_in_the_end() -> None:
    """Before the first request, and after the last."""
    web = Web()
    silent, polite = Client(web), Client(web)
    polite.send(b"GET /health HTTP/1.1\r\n\r\n")
    assert answered(polite).status == 200
    web.advance(74, step=1)
    assert web.http.site.connections == 2
    web.advance(5, step=1)
    for client in (silent, polite):
        client.close_if_told()
        assert client.transport.value() == b""
    assert web.http.site.connections == 0


def test_an_answer_that_nobody_reads_is_not_kept_for_ever() -> None:
    """The connection is cut when its time is over, whatever waits in it."""
    web = Web()
    client = Client(web)
    client.transport.stalled = True
    for _ in range(200):
        client.send(b"GET /metrics HTTP/1.1\r\n\r\n")
    assert len(client.transport.value()) < 100_000
    web.advance(80, step=1)
    assert client.transport.aborted


# -- number ------------------------------------------------------------------------------------------------------------


def test_many_requests_in_one_read_are_all_answered_in_order() -> None:
    """Pipelining works, though nobody does it."""
    web = Web()
    client = Client(web)
    client.send(b"GET /health HTTP/1.1\r\n\r\nGET /nothing HTTP/1.1\r\n\r\n" * 20)
    assert [response.status for response in client.responses()] == [200, 404] * 20


def test_many_requests_of_one_that_does_not_read_wait() -> None:
    """What waits for a client is bounded by what its transport takes, and one answer."""
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


def test_too_many_connections_are_told_so() -> None:
    """The next one gets an answer too, and a place when one has gone."""
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


def test_far_too_many_connections_are_cut() -> None:
    """Telling them costs something, so that is bounded as well; and who says nothing is cut soon."""
    web = Web(HttpSettings(max_http_connections=1))
    Client(web)
    late = [Client(web) for _ in range(100)]
    assert sum(client.transport.aborted for client in late) == 36
    web.advance(1.5)
    assert all(client.transport.aborted for client in late)


def test_what_waits_for_its_turn_is_forgotten_with_its_connection() -> None:
    """A client that goes before its request was looked at leaves nothing behind."""
    web = Web()
    web.http.site.scheduler._waiting.append(lambda: None)
    client = Client(web)
    client.protocol.dataReceived(b"GET /health HTTP/1.1\r\n\r\n")
    assert client.transport.value() == b""
    client.lose()
    web.clock.advance(0)
    assert client.transport.value() == b""
    assert web.http.site.connections == 0


def test_no_answer_is_html_and_none_shows_twisted() -> None:
    """Whatever is asked."""
    web = Web()
    for method, path in (("GET", "/x"), ("PUT", "/health"), ("BREW", "/"), ("GET", "/%00")):
        got = web.request(method, path)
        assert b"html" not in got.body.lower()
        assert "Twisted" not in got.headers["server"]


@pytest.mark.parametrize("later", [False, True])
def test_a_bug_of_ours_is_a_500_in_json(later: bool) -> None:
    """With nothing of the request in the answer."""
    web = Web()

    def broken() -> Deferred[bytes]:
        if later:
            return fail(RuntimeError("a secret thing"))
        raise RuntimeError("a secret thing")

    web.http._status.health = broken  # type: ignore[method-assign]
    got = web.get("/health?key=secret")
    assert got.error == (500, "internal_error")
    assert b"secret" not in got.body
