"""How many keys and tokens one address can try in a second, on many connections at once: the figures."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.hostile.conversations import beyond_greeting, greeting
from tests.hostile.process import AttackedServer

TOKEN = "MARKED-token-of-the-attacked"

#: Attempts of one address that may be checked in a second.
MOST_CHECKED = 5

SECONDS = 4.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedServer]:
    folder = tmp_path_factory.mktemp("guessed")
    (folder / "token").write_text(TOKEN)
    (folder / "token").chmod(0o600)
    attacked = AttackedServer(folder, "--limit", "guess_delay=1", "--http-token", f"file:{folder / 'token'}")
    yield attacked
    attacked.stop()


async def guess_keys(port: int, source: str, end: float) -> int:
    """Publish with wrong keys, on one connection after the other; how many were refused."""
    refused = 0
    while time.monotonic() < end:
        with suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
            writer.write(greeting() + beyond_greeting(f"guessed?key=wrong-{refused}"))
            received = b""
            while b"Publish.Denied" not in received:
                data = await asyncio.wait_for(reader.read(65536), max(0.1, end - time.monotonic()))
                if not data:
                    break
                received += data
            refused += b"Publish.Denied" in received
            writer.close()
    return refused


async def guess_tokens(port: int, source: str, end: float) -> int:
    """Try tokens over HTTP, on one connection; how many were refused."""
    refused = 0
    while time.monotonic() < end:
        with suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
            while time.monotonic() < end:
                writer.write(
                    b"DELETE /destinations/nobody HTTP/1.1\r\nHost: x\r\n"
                    b"Authorization: Bearer wrong-wrong-wrong-%d\r\n\r\n" % refused
                )
                answer = await asyncio.wait_for(reader.read(65536), max(0.1, end - time.monotonic()))
                if not answer:
                    break
                refused += answer.startswith(b"HTTP/1.1 401")
            writer.close()
    return refused


async def right_ones_beside(server: AttackedServer, end: float) -> list[float]:
    """How long clients with the right key wait, from another address."""
    waits = []
    while time.monotonic() < end:
        began = time.monotonic()
        await asyncio.to_thread(server.assert_works)
        waits.append(time.monotonic() - began)
        await asyncio.sleep(0.2)
    return waits


@pytest.mark.full
def test_one_address_gets_no_more_than_five_checks_a_second_and_right_ones_are_not_delayed(
    server: AttackedServer,
) -> None:
    (http,) = server.ports("HTTP")

    async def attack() -> tuple[list[int], list[int], list[float]]:
        end = time.monotonic() + SECONDS
        keys = [guess_keys(server.port, "127.0.0.2", end) for _ in range(100)]
        tokens = [guess_tokens(http, "127.0.0.3", end) for _ in range(100)]
        found = await asyncio.gather(
            asyncio.gather(*keys), asyncio.gather(*tokens), right_ones_beside(server, end)
        )
        return found

    keys, tokens, waits = asyncio.run(attack())
    checked = server.figure('rtmprelay_guesses_total{outcome="wrong"}')
    sys.stdout.write(
        f"\nin {SECONDS:g} s on 100 connections each: {checked:.0f} keys and tokens were checked and wrong;"
        f" {sum(keys)} publishes and {sum(tokens)} tokens were refused; right ones took {max(waits):.2f} s at most\n"
    )
    assert 2 <= checked <= 2 * MOST_CHECKED * (SECONDS + 1)
    # Publishing and playing takes no delay of a second: some of them would otherwise have taken four.
    assert min(waits) < 1.0
    slowed = {line["peer"] for line in server.lines() if line.get("event") == "guessing_slowed"}
    assert slowed == {"127.0.0.2", "127.0.0.3"}
    server.assert_keeps_secrets()
