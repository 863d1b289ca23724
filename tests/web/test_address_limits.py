"""What one address may have over HTTP: silent sockets, readers of events and of media, also behind a trusted proxy."""

from __future__ import annotations

import json
from typing import Any

from rtmprelay.addresses import read_proxies
from rtmprelay.web.settings import HttpSettings
from tests.web.helpers import Client, Web


def web_with(**settings: Any) -> Web:
    return Web(HttpSettings(**settings))


def ask(web: Web, path: str, host: str, forwarded: str = "") -> Client:
    """A client that reads what goes on for ever."""
    client = Client(web, host)
    header = f"X-Forwarded-For: {forwarded}\r\n" if forwarded else ""
    client.send(f"GET {path} HTTP/1.1\r\nHost: relay\r\n{header}\r\n".encode())
    web.clock.advance(0.1)
    return client


def status_of(client: Client) -> int:
    return int(client.transport.value().split(b" ")[1])


def test_connections_of_one_address_leave_room_for_others() -> None:
    web = web_with(max_http_connections_per_address=3)
    silent = [Client(web, "2001:db8::1") for _ in range(3)]
    assert status_of(ask(web, "/health", "2001:db8::2")) == 503
    assert status_of(ask(web, "/health", "192.0.2.1")) == 200
    silent[0].lose()
    assert status_of(ask(web, "/health", "2001:db8::2")) == 200


def test_silent_socket_is_closed_after_the_time_for_a_request() -> None:
    web = web_with()
    silent, talking = Client(web), Client(web)
    web.advance(5)
    talking.send(b"GET /health HTTP/1.1\r\nHost: relay\r\n\r\n")
    web.advance(7)
    for client in (silent, talking):
        client.lose_if_closed()
    assert silent.lost
    assert not talking.lost


def test_event_readers_of_one_address_are_bounded_and_shown_in_health() -> None:
    web = web_with(max_event_readers_per_address=2)
    readers = [ask(web, "/events", "192.0.2.9") for _ in range(2)]
    refused = ask(web, "/events", "192.0.2.9")
    assert status_of(refused) == 503
    assert b"max_event_readers_per_address" in refused.transport.value()
    assert status_of(ask(web, "/events", "192.0.2.10")) == 200
    (shown,) = json.loads(web.get("/health").body)["refused_addresses"]
    assert (shown["address"], shown["limit"], shown["refused"]) == (
        "192.0.2.9",
        "max_event_readers_per_address",
        1,
    )
    assert "--limit max_event_readers_per_address=" in shown["advice"]
    readers[0].lose()
    assert status_of(ask(web, "/events", "192.0.2.9")) == 200


def test_media_readers_of_one_address_are_bounded() -> None:
    web = web_with(max_media_readers_per_address=2)
    web.publish("live/test")
    viewers = [ask(web, "/live/test.flv", "192.0.2.9") for _ in range(3)]
    assert [status_of(viewer) for viewer in viewers] == [200, 200, 503]
    viewers[0].lose()
    assert status_of(ask(web, "/live/test.flv", "192.0.2.9")) == 200


def test_clients_behind_a_trusted_proxy_are_counted_by_the_address_that_it_names() -> None:
    web = web_with(
        max_http_connections_per_address=1,
        max_event_readers_per_address=1,
        trusted_proxies=read_proxies(["10.0.0.0/8"]),
    )
    first = ask(web, "/events", "10.0.0.1", "203.0.113.1")
    second = ask(web, "/events", "10.0.0.1", "203.0.113.2")
    again = ask(web, "/events", "10.0.0.2", "9.9.9.9, 203.0.113.1")
    assert [status_of(client) for client in (first, second, again)] == [200, 200, 503]


def test_address_named_by_an_untrusted_client_is_ignored() -> None:
    web = web_with(max_event_readers_per_address=1, trusted_proxies=read_proxies(["10.0.0.0/8"]))
    assert status_of(ask(web, "/events", "192.0.2.9", "203.0.113.1")) == 200
    assert status_of(ask(web, "/events", "192.0.2.9", "203.0.113.2")) == 503
