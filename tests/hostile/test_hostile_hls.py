"""Requests that no player sends: HLS answers each of them, and keeps nothing of it."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections import Counter

import pytest

from tests.web.helpers import Client, parse_response
from tests.web.hls import HlsWeb

_NAMES = (
    "index.m3u8",
    "video0.m3u8",
    "video1.m3u8",
    "video999.m3u8",
    "s-{b}-0-{n}.m4s",
    "p-{b}-0-{n}.m4s",
    "i-{b}-0-{n}.m4s",
    "p-{b}-{n}-{n}.m4s",
    "p-zz-0-0.m4s",
    "s-{b}-0--1.m4s",
    "..%2f..%2findex.m3u8",
    "%00.m4s",
)
_PARAMETERS = (
    "_HLS_msn={n}",
    "_HLS_part={n}",
    "_HLS_skip=YES",
    "_HLS_skip={x}",
    "session={x}",
    "session=abcdefgh{n}",
    "sig={n}.{x}",
    "CMCD={x}",
    "CMCD=bs,mtp={n},su",
    "{x}={x}",
    "{x}",
)


def _request(rng: random.Random, broadcast: str) -> bytes:
    def number() -> str:
        return str(rng.choice([0, 1, 2, 3, 7, 40, 10**9, 10**30, -1]))

    def text() -> str:
        return "".join(rng.choice("az09-_.%&=;\"'<>~") for _ in range(rng.randrange(60)))

    def filled(pattern: str) -> str:
        return pattern.replace("{b}", broadcast).replace("{n}", number()).replace("{x}", text())

    name = filled(rng.choice(_NAMES))
    query = "&".join(filled(rng.choice(_PARAMETERS)) for _ in range(rng.randrange(4)))
    key = rng.choice(["live/film", "live/film", "live/film", "live/none", "x"])
    method = rng.choice(["GET", "GET", "GET", "HEAD", "OPTIONS", "POST"])
    headers = rng.choice(
        ["", "CMCD-Status: bs\r\n", "Accept-Encoding: gzip\r\n", "CMCD-Request: " + text() + "\r\n"]
    )
    return f"{method} /{key}/{name}?{query} HTTP/1.1\r\nHost: relay\r\n{headers}\r\n".encode("latin-1")


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.full)])
def test_random_requests_are_answered_and_forgotten(count: int) -> None:
    web = HlsWeb()
    web.begin(seconds=600)
    web.pass_time(7)
    found = web.hls.get("live/film")
    assert found is not None
    rng = random.Random(20261119)
    statuses: Counter[int] = Counter()
    waiting: list[Client] = []

    def ask(times: int) -> None:
        for _ in range(times):
            client = Client(web)
            client.send(_request(rng, found.name))
            data: bytes = client.transport.value()  # type: ignore[no-untyped-call]
            if data:
                statuses[parse_response(data, head=True)[0].status] += 1
                client.lose()
            else:
                waiting.append(client)

    ask(count // 5)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(8):
        ask(count // 10)
        web.pass_time(2, step=0.2)
    # Waiting requests are answered in three target durations, and unused sessions end.
    web.pass_time(10, step=0.2)
    assert all(client.transport.io.getvalue() for client in waiting)
    for client in waiting:
        client.lose()
    waiting.clear()
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(web.hls.viewers) == 0
    assert set(statuses) <= {200, 204, 400, 404, 405, 410, 503}
    assert {200, 400, 404} <= set(statuses)
    # The window has grown by some segments meanwhile, each of 3 KB.
    assert grown < 2_000_000
