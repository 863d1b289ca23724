"""Nonsense in requests for recordings and clips: each is answered, none is an error of the server, and memory stays bounded."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.flv.media import AVC_HEADER, groups, write_file
from tests.web.helpers import Client, Web, parse_response
from tests.web.hls import HlsWeb

NAME = "live_film_20260517_201500.flv"

#: What paths and queries are made of.
PIECES = [
    NAME,
    "index.m3u8",
    "init.mp4",
    "13-900.m4s",
    "0-0.m4s",
    "..",
    "%2e%2e",
    "%00",
    "%ff",
    "~" * 300,
    "clip.mp4",
    "live",
    "film",
    "x.flv",
    "",
    "-",
    "é",
]
QUERIES = [
    "last=",
    "from=",
    "to=",
    "sig=",
    "30s",
    "-1",
    "1e999",
    "2026-05-17T20:15:00Z",
    "9" * 400,
    "&",
    "%",
    "=",
    "NaN",
]

#: Responses of the server that are no mistake of its own.
FINE = {200, 206, 302, 304, 400, 403, 404, 405, 409, 410, 414, 415, 416, 431, 503}


def nonsense(chance: random.Random) -> str:
    path = "/".join(quote(chance.choice(PIECES), safe="%~") for _ in range(chance.randint(1, 4)))
    query = "".join(chance.choice(QUERIES) for _ in range(chance.randint(0, 4)))
    return chance.choice(("/recordings/", "/live/film/", "/")) + path + (f"?{query}" if query else "")


def ask(web: Web, chance: random.Random) -> int:
    client = Client(web)
    wanted = chance.choice(("", f"Range: bytes={chance.randint(0, 99)}-{chance.choice(('', 5, 'x'))}\r\n"))
    client.send(f"GET {nonsense(chance)} HTTP/1.1\r\nHost: r\r\nConnection: close\r\n{wanted}\r\n".encode())
    status = parse_response(client.transport.value())[0].status
    if not client.lost:
        client.lose()
    return status


@pytest.mark.parametrize("count", [1500, pytest.param(10_000, marks=pytest.mark.full)])
def test_random_requests_cost_a_bounded_amount_of_memory(tmp_path: Path, count: int) -> None:
    (tmp_path / NAME).write_bytes(write_file(groups(4), [AVC_HEADER]))
    webs: list[Web] = [Web(recordings=tmp_path), HlsWeb()]
    chance = random.Random(19)
    seen = {ask(web, chance) for web in webs for _ in range(200)}
    tracemalloc.start()
    try:
        for number in range(count):
            seen.add(ask(webs[number % 2], chance))
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert seen <= FINE
    assert {200, 400, 404} <= seen
    assert grown < 4_000_000
